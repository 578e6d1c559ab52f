"""Decoding with Pillow, for the frameworks that do not decode themselves.

Dimensions: C channels, H height, W width.
"""

import io

import numpy
from PIL import Image

from suites.datasets.image_folder import listing


def decode(sample: listing.Sample, pixels: int) -> numpy.ndarray:
    """Return image_CHW, float32: the sample's cut, ``pixels`` square, normalised.

    Raises:
        OSError, ValueError, SyntaxError: Pillow cannot read the file.
    """
    with Image.open(io.BytesIO(listing.encoded(sample.entry))) as file:
        image = file.convert("RGB")
    cut = listing.cut(sample.draw, *image.size)
    box = (cut.left, cut.top, cut.left + cut.width, cut.top + cut.height)
    image = image.resize((pixels, pixels), Image.BILINEAR, box=box)
    if cut.mirrored:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    image_HWC = numpy.asarray(image, dtype=numpy.float32) / 255.0
    image_HWC = (image_HWC - numpy.float32(listing.MEAN)) / numpy.float32(listing.DEVIATION)
    return image_HWC.transpose(2, 0, 1).copy()
