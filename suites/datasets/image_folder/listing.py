"""Which image comes when, and how it is cut: the same in every framework, decided by the seed alone.

Standard library only. A ``Sample`` says all that a framework's own decoder needs to know.
"""

import io
import math
import os
import random
import struct
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from suites.datasets import numbered, records
from workers.trainer.base.failure import TrainerError

# Mean and deviation of ImageNet's training images, per channel of [0, 1] (torchvision's documentation of its weights).
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)

EXTENSIONS = (".jpeg", ".jpg")


class Entry(NamedTuple):
    """An image: a file of its own, or the record at byte ``offset`` of a file in the ``layout``."""

    path: str
    label: int
    layout: str = ""
    offset: int = 0

    def __str__(self) -> str:
        return "%s, the record at byte %d" % (self.path, self.offset) if self.layout else self.path


class Sample(NamedTuple):
    """One showing of an image; ``draw`` seeds its cut."""

    entry: Entry
    draw: str

    @property
    def label(self) -> int:
        return self.entry.label


class Cut(NamedTuple):
    """A piece of the file's image, in pixels, and whether it is mirrored."""

    left: int
    top: int
    width: int
    height: int
    mirrored: bool


def files(root: Optional[str], split: str = "train") -> List[Entry]:
    """Return the images, sorted by name or in the order of the records; labels count the sorted classes from 0.

    Raises:
        TrainerError: ``setup_failed``, the folder is not there or holds no images.
    """
    if root is None:
        raise TrainerError("setup_failed", "the dataset has not been prepared on this host")
    index = os.path.join(root, split + ".index")
    if os.path.exists(index):
        return _indexed(index)
    folder = os.path.join(root, split)
    try:
        classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
        found = [
            Entry(os.path.join(folder, name, file), label)
            for label, name in enumerate(classes)
            for file in sorted(os.listdir(os.path.join(folder, name)))
            if file.lower().endswith(EXTENSIONS)
        ]
    except OSError as error:
        raise TrainerError("setup_failed", "cannot read the dataset: %s" % error)
    if not found:
        raise TrainerError("setup_failed", "no images in %s" % folder)
    return found


def _indexed(index: str) -> List[Entry]:
    try:
        layout, images = records.read_index(index)
    except (OSError, ValueError, KeyError, IndexError) as error:
        raise TrainerError("setup_failed", "cannot read the dataset: %s: %s" % (index, error))
    return [Entry(place.path, label, layout, place.offset) for place, label in images]


def encoded(entry: Entry) -> bytes:
    """Return the image as it is stored.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    if entry.layout:
        return records.image_at(entry.layout, records.Place(entry.path, entry.offset))[1]
    with open(entry.path, "rb") as file:
        return file.read()


def samples(found: Sequence[Entry], seed: int, rank: int, world_size: int) -> Iterator[Sample]:
    """Yield ``Sample`` without end: each epoch shuffled anew, and dealt to the ranks in turn."""
    for epoch, number in numbered.shuffled(len(found), seed, rank, world_size):
        yield Sample(found[number], "%s/%s/%s" % (seed, epoch, number))


def batches(found: Sequence[Entry], count: int, seed: int, rank: int, world_size: int) -> Iterator[List[Sample]]:
    """Yield lists of ``count`` samples without end."""
    stream = samples(found, seed, rank, world_size)
    while True:
        yield [next(stream) for _ in range(count)]


def cut(draw: str, width: int, height: int) -> Cut:
    """Return the ``Cut`` of an image: 8 to 100 % of its area, aspect 3/4 to 4/3, mirrored every other time.

    Source: "random resized crop" of Szegedy et al., "Going Deeper with Convolutions", 2014, section 6, in torchvision's
    form: ten tries, then the largest piece from the middle whose aspect is allowed.
    """
    generator = random.Random(draw)
    mirrored = generator.random() < 0.5
    for _ in range(10):
        area = generator.uniform(0.08, 1.0) * width * height
        aspect = math.exp(generator.uniform(math.log(3.0 / 4.0), math.log(4.0 / 3.0)))
        w, h = int(round(math.sqrt(area * aspect))), int(round(math.sqrt(area / aspect)))
        if 0 < w <= width and 0 < h <= height:
            return Cut(generator.randint(0, width - w), generator.randint(0, height - h), w, h, mirrored)
    w, h = min(width, int(round(height * 4.0 / 3.0))), min(height, int(round(width * 4.0 / 3.0)))
    return Cut((width - w) // 2, (height - h) // 2, w, h, mirrored)


def middle(width: int, height: int) -> Cut:
    """Return the ``Cut`` that an image is evaluated by: a square from its middle.

    Of the shorter side 224 / 256 remain (torchvision's presets of evaluation for ImageNet: resized to 256, cut to 224).
    """
    side = max(1, min(width, height) * 224 // 256)
    return Cut((width - side) // 2, (height - side) // 2, side, side, False)


def jpeg_size(entry: Entry) -> Tuple[int, int]:
    """Return (width, height) of a JPEG image, read from its frame header (ITU-T T.81, B.2.2).

    Raises:
        TrainerError: ``setup_failed``, the image cannot be read or is no JPEG.
    """
    try:
        if entry.layout:
            return _frame_size(io.BytesIO(encoded(entry)))
        with open(entry.path, "rb") as file:
            return _frame_size(file)
    except (OSError, struct.error, ValueError) as error:
        raise unreadable(entry, error)


def _frame_size(file):
    if file.read(2) != b"\xff\xd8":
        raise ValueError("it does not begin like a JPEG file")
    while True:
        marker, length = struct.unpack(">HH", file.read(4))
        # Start of frame: C0 to CF but the tables C4, C8 and CC.
        if 0xFFC0 <= marker <= 0xFFCF and marker not in (0xFFC4, 0xFFC8, 0xFFCC):
            _, height, width = struct.unpack(">BHH", file.read(5))
            return width, height
        file.seek(length - 2, os.SEEK_CUR)


def unreadable(entry: Entry, error: Any) -> TrainerError:
    """Return the error that ends the attempt because of one image."""
    return TrainerError("setup_failed", "cannot read the image %s: %s" % (entry, error))
