"""What trainers read of images with outlines, by their index (``suites.datasets.coco.index``): scaled and ordered as
those of Pascal VOC are (``suites.datasets.pascal_voc.loading``), with a mask within each box.
"""

import json
import os
from typing import Iterator, List, Optional, Sequence, Tuple

from suites.datasets import decoding
from suites.datasets.coco.layout import JUDGED, TRAINED, Outlined
from suites.datasets.pascal_voc import loading
from suites.datasets.pascal_voc.layout import Annotated, Box
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array

# What is narrower is no box that could be learnt: a few of COCO's are.
LEAST_SIDE = 1.0


class Images(Sequence[Outlined]):
    """The images of a split; boxes and masks of each are read as it is asked for.

    Raises:
        TrainerError: ``setup_failed``, there is no index of them.
    """

    def __init__(self, root: Optional[str], split: str) -> None:
        import numpy

        if root is None:
            raise TrainerError("setup_failed", "the dataset has not been prepared on this host")
        self._root = root
        place = os.path.join(root, "index", split)
        try:
            with open(place + ".json", encoding="utf-8") as file:
                self._told = json.load(file)
            names = (".boxes.npy", ".ends.npy", ".runs.npy", ".runs.ends.npy")
            self._boxes, self._ends, self._runs, self._runs_ends = (
                numpy.load(place + name, mmap_mode="r") for name in names
            )
        except (OSError, ValueError) as error:
            raise TrainerError("setup_failed", "cannot read the %s images of %s: %s" % (split, root, error))

    def __len__(self) -> int:
        return len(self._told)

    def __getitem__(self, number):
        name, width, height = self._told[number]
        begin, end = _between(self._ends, number)
        boxes = tuple(Box(int(one[0]), tuple(map(float, one[2:])), bool(one[1])) for one in self._boxes[begin:end])
        outlines = tuple(self._runs[slice(*_between(self._runs_ends, one))] for one in range(begin, end))
        return Outlined(os.path.join(self._root, name), width, height, boxes, outlines)

    def most(self) -> Tuple[int, str]:
        """Return how many boxes an image has at most, and which."""
        import numpy

        counts = numpy.diff(numpy.concatenate([[0], self._ends]))
        return int(counts.max()), str(self._told[int(counts.argmax())][0])


def _between(ends, number):
    return int(ends[number - 1]) if number else 0, int(ends[number])


def batches(
    root: Optional[str],
    count: int,
    room: loading.Room,
    most: int,
    side: int,
    seed: int,
    rank: int,
    world_size: int,
) -> Iterator[List[Tuple[loading.Shown, Array]]]:
    """Return an endless iterator of ``count`` images that are alike, with their masks; half of them are mirrored.

    Args:
        most: how many boxes an image may have.
        side: how many places a mask has along each side of its box.

    Raises (also while it is iterated):
        TrainerError: ``setup_failed``, a file cannot be read, or has more boxes; the message names it.
    """
    found = trained(root)
    boxes, name = found.most()
    if boxes > most:
        told = "%s has %d boxes, and the model has places for %d"
        raise TrainerError("setup_failed", told % (name, boxes, most))
    lists = loading.alike(found, count, seed, rank, world_size)
    return decoding.ahead(lists, lambda wanted: shown(wanted.image, wanted.mirrored, room, side))


def trained(root: Optional[str]) -> Images:
    """Return the images that a network is trained on.

    Raises:
        TrainerError: ``setup_failed``, they cannot be read.
    """
    return Images(root, TRAINED)


def judged(root: Optional[str]) -> Images:
    """Return the images that a network is judged by.

    Raises:
        TrainerError: ``setup_failed``, there are none, or they cannot be read.
    """
    return Images(root, JUDGED)


def shown(image: Outlined, mirrored: bool, room: loading.Room, side: int) -> Tuple[loading.Shown, Array]:
    """Return what a network is shown of an image, and of each box (B, side, side): 1 where its object is.

    Raises:
        TrainerError: ``setup_failed``, it cannot be read; the message names it.
    """
    import numpy

    kept = [at for at, box in enumerate(image.boxes) if not box.difficult and _narrowest(box) >= LEAST_SIDE]
    boxes = tuple(image.boxes[at] for at in kept)
    found = loading.shown(loading.Wanted(Annotated(image.path, image.width, image.height, boxes), mirrored), room)
    masks_BHW = numpy.zeros((len(kept), side, side), numpy.float32)
    for row, at in enumerate(kept):
        masks_BHW[row] = within(mask(image.outlines[at], image.height, image.width), boxes[row].corners, side)
    return found, masks_BHW[:, :, ::-1] if mirrored else masks_BHW


def _narrowest(box):
    left, top, right, bottom = box.corners
    return min(right - left, bottom - top)


def mask(runs: Array, height: int, width: int) -> Array:
    """Return the (H, W) uint8 of a mask's runs."""
    import numpy

    flat = numpy.repeat(numpy.arange(len(runs)) % 2, runs).astype(numpy.uint8)
    return flat.reshape(width, height).T


def within(mask_HW: Array, corners: Sequence[float], side: int) -> Array:
    """Return the (side, side) of a mask within a box: that of the pixel below the middle of each place."""
    import numpy

    steps = (numpy.arange(side) + 0.5) / side
    left, top, right, bottom = corners
    x, y = (
        numpy.clip((low + (high - low) * steps).astype(int), 0, count - 1)
        for low, high, count in ((left, right, mask_HW.shape[1]), (top, bottom, mask_HW.shape[0]))
    )
    return mask_HW[y[:, None], x]
