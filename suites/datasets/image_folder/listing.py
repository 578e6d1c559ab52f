"""Which image comes when, and how it is cut: the same in every framework, decided by the seed alone.

Standard library only. A ``Sample`` says all that a framework's own decoder needs to know.
"""

import math
import os
import random
import struct
from typing import Any, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from workers.trainer.failure import TrainerError

# Mean and deviation of ImageNet's training images, per channel of [0, 1] (torchvision's documentation of its weights).
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)

EXTENSIONS = (".jpeg", ".jpg")


class Sample(NamedTuple):
    """One showing of an image; ``draw`` seeds its cut."""

    path: str
    label: int
    draw: str


class Cut(NamedTuple):
    """A piece of the file's image, in pixels, and whether it is mirrored."""

    left: int
    top: int
    width: int
    height: int
    mirrored: bool


def files(root: Optional[str], split: str = "train") -> List[Tuple[str, int]]:
    """Return [(path, label)], sorted by name; labels count the sorted classes from 0.

    Raises:
        TrainerError: ``setup_failed``, the folder is not there or holds no images.
    """
    if root is None:
        raise TrainerError("setup_failed", "the dataset has not been prepared on this host")
    folder = os.path.join(root, split)
    try:
        classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
        found = [
            (os.path.join(folder, name, file), label)
            for label, name in enumerate(classes)
            for file in sorted(os.listdir(os.path.join(folder, name)))
            if file.lower().endswith(EXTENSIONS)
        ]
    except OSError as error:
        raise TrainerError("setup_failed", "cannot read the dataset: %s" % error)
    if not found:
        raise TrainerError("setup_failed", "no images in %s" % folder)
    return found


def samples(found: Sequence[Tuple[str, int]], seed: int, rank: int, world_size: int) -> Iterator[Sample]:
    """Yield ``Sample`` without end: each epoch shuffled anew, and dealt to the ranks in turn."""
    epoch = 0
    while True:
        order = list(range(len(found)))
        random.Random("%s/%s" % (seed, epoch)).shuffle(order)
        for position in range(rank, len(order), world_size):
            path, label = found[order[position]]
            yield Sample(path, label, "%s/%s/%s" % (seed, epoch, order[position]))
        epoch += 1


def batches(
    found: Sequence[Tuple[str, int]], count: int, seed: int, rank: int, world_size: int
) -> Iterator[List[Sample]]:
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


def jpeg_size(path: str) -> Tuple[int, int]:
    """Return (width, height) of the JPEG file ``path``, read from its frame header (ITU-T T.81, B.2.2).

    Raises:
        TrainerError: ``setup_failed``, the file cannot be read or is no JPEG.
    """
    try:
        with open(path, "rb") as file:
            return _frame_size(file)
    except (OSError, struct.error, ValueError) as error:
        raise unreadable(path, error)


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


def unreadable(path: str, error: Any) -> TrainerError:
    """Return the error that ends the attempt because of one file."""
    return TrainerError("setup_failed", "cannot read the image %s: %s" % (path, error))
