"""Images with a box and an outline of each object on them, in the layout of COCO."""
