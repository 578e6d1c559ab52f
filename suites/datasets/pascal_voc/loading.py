"""What trainers read of images with boxes: scaled, one after another in the seed's order, lying and upright ones apart.

The shorter side of an image is made that of the size, but no longer side longer than it has room for (Ren et al., 2015,
section 3.3). Images of one batch are all lying or all upright: so there are two shapes.
"""

import functools
import random
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from suites.datasets import decoding, numbered
from suites.datasets.image_folder import listing
from suites.datasets.pascal_voc import layout
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array

# (shorter, longer) side of the room for an image.
Room = Tuple[int, int]


class Wanted(NamedTuple):
    """An image that is to be shown; ``mirrored``: left for right."""

    image: layout.Annotated
    mirrored: bool


class Shown(NamedTuple):
    """``image``: (H, W, C) float32, normalised, nothing behind its end; ``scale``: by what its pixels became these;
    ``extent``: its width and height here; ``boxes`` (B, 4), ``kinds`` (B): of those that are not difficult."""

    image: Array
    scale: float
    extent: Array
    boxes: Array
    kinds: Array


def batches(
    root: Optional[str], count: int, room: Room, most: int, seed: int, rank: int, world_size: int
) -> Iterator[List[Shown]]:
    """Return an endless iterator of ``count`` images that are alike; half of them are mirrored.

    Args:
        most: how many boxes an image may have.

    Raises (also while it is iterated):
        TrainerError: ``setup_failed``, a file cannot be read, or has more boxes; the message names it.
    """
    found = trained(root)
    for image in found:
        if sum(not box.difficult for box in image.boxes) > most:
            told = "%s has %d boxes, and the model has places for %d"
            raise TrainerError("setup_failed", told % (image.path, len(image.boxes), most))
    lists = alike(found, count, seed, rank, world_size)
    return decoding.ahead(lists, functools.partial(shown, room=room))


def alike(found: Sequence[Any], count: int, seed: int, rank: int, world_size: int) -> Iterator[List[Wanted]]:
    """Yield lists of ``count`` images to be shown, all lying or all upright, without end in the order of the seed."""
    waiting = [], []  # type: Tuple[List[Wanted], List[Wanted]]
    for epoch, number in numbered.shuffled(len(found), seed, rank, world_size):
        mirrored = random.Random("%s/%s/%s" % (seed, epoch, number)).random() < 0.5
        alike = waiting[is_upright(found[number])]
        alike.append(Wanted(found[number], mirrored))
        if len(alike) == count:
            yield list(alike)
            del alike[:]


def trained(root: Optional[str]) -> List[layout.Annotated]:
    """Return the images that a network is trained on.

    Raises:
        TrainerError: as ``judged``.
    """
    return layout.images(root, layout.TRAINED)


def is_upright(image: layout.Annotated) -> bool:
    return image.height > image.width


def judged(root: Optional[str]) -> List[layout.Annotated]:
    """Return the images that a network is judged by: first those that lie, then upright ones.

    Raises:
        TrainerError: ``setup_failed``, there are none, or a file cannot be read; the message names it.
    """
    return sorted(layout.images(root, layout.JUDGED), key=is_upright)


def shown(wanted: Wanted, room: Room) -> Shown:
    """Return what a network is shown of an image.

    Raises:
        TrainerError: ``setup_failed``, it cannot be read; the message names it.
    """
    import numpy

    image, is_mirrored = wanted
    sides = image.width, image.height
    scale = min(room[0] / float(min(sides)), room[1] / float(max(sides)))
    width, height = (max(1, int(round(side * scale))) for side in sides)
    boxes = [box for box in image.boxes if not box.difficult]
    corners_B4 = numpy.array([box.corners for box in boxes], numpy.float32).reshape(-1, 4)
    if is_mirrored:
        corners_B4[:, 0::2] = image.width - corners_B4[:, 2::-2]
    found_HWC = numpy.zeros(tuple(room[::-1] if is_upright(image) else room) + (3,), numpy.float32)
    found_HWC[:height, :width] = _pixels(image, width, height, is_mirrored)
    extent_2 = numpy.array([width, height], numpy.float32)
    kinds_B = numpy.array([box.kind for box in boxes], numpy.int64)
    return Shown(found_HWC, scale, extent_2, corners_B4 * numpy.float32(scale), kinds_B)


def _pixels(image, width, height, is_mirrored):
    """Return the normalised (height, width, 3) of an image."""
    import numpy
    from PIL import Image

    picture = layout.opened(image).resize((width, height), Image.BILINEAR)
    picture = picture.transpose(Image.FLIP_LEFT_RIGHT) if is_mirrored else picture
    found_HWC = numpy.asarray(picture, numpy.float32) / 255.0
    return (found_HWC - numpy.float32(listing.MEAN)) / numpy.float32(listing.DEVIATION)
