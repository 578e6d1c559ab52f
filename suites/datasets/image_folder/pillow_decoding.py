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
    image = _opened(sample.entry)
    cut = listing.cut(sample.draw, *image.size)
    box = (cut.left, cut.top, cut.left + cut.width, cut.top + cut.height)
    image = image.resize((pixels, pixels), Image.BILINEAR, box=box)
    if cut.mirrored:
        image = image.transpose(Image.FLIP_LEFT_RIGHT)
    return _normalised(image).transpose(2, 0, 1).copy()


def from_the_middle(entry: listing.Entry, pixels: int) -> numpy.ndarray:
    """Return image_HWC, float32, as a classifier is evaluated with it: ``pixels`` square from the middle, normalised.

    Raises:
        TrainerError: ``setup_failed``, the image cannot be read.
    """
    try:
        image = _opened(entry)
        cut = listing.middle(*image.size)
        box = (cut.left, cut.top, cut.left + cut.width, cut.top + cut.height)
        image = image.resize((pixels, pixels), Image.BILINEAR, box=box)
    except (OSError, ValueError, SyntaxError) as error:
        raise listing.unreadable(entry, error)
    return _normalised(image)


def _opened(entry):
    with Image.open(io.BytesIO(listing.encoded(entry))) as file:
        return file.convert("RGB")


def _normalised(image):
    image_HWC = numpy.asarray(image, dtype=numpy.float32) / 255.0
    return (image_HWC - numpy.float32(listing.MEAN)) / numpy.float32(listing.DEVIATION)
