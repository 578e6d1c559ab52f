"""Images with boxes around what is on them, in the layout of Pascal VOC."""
