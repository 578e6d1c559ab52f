"""Reads small square images without labels, in the layout of downsampled ImageNet: ``train_64x64/0000001.png`` … and
``valid_64x64/…``, all of the side that the folders' names tell.

Source of the layout: the archives of van den Oord, Kalchbrenner, Kavukcuoglu, "Pixel Recurrent Neural Networks", 2016,
as image-net.org offers them, and as gan_64x64.py of github.com/igul222/improved_wgan_training reads them. A grey image
has three equal channels. What has another side, or another colour space, is refused by its name: there nothing is cut
or made larger.

Dimensions: N images of a batch, H height, W width, C channels.
"""

import functools
import itertools
import os
import re
from typing import Any, Dict, Iterator, List, Optional

from suites.datasets import decoding, numbered
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array

TRAIN, VALID = "train", "valid"
_FOLDER = re.compile(r"(train|valid)_([1-9]\d*)x\2$")
# Grey, grey with transparency or in 1 bit, by a palette, and colours: what is there is turned into RGB.
_MODES = ("1", "L", "LA", "P", "RGB", "RGBA")


def folders(root: Optional[str]) -> Dict[str, str]:
    """Return {split: path} of the folders of images.

    Raises:
        TrainerError: ``setup_failed``, there is none that is trained on, or several of one split.
    """
    if root is None:
        raise TrainerError("setup_failed", "the dataset has not been prepared on this host")
    try:
        names = [name for name in sorted(os.listdir(root)) if _FOLDER.match(name)]
    except OSError as error:
        raise TrainerError("setup_failed", "cannot read the dataset: %s" % error)
    found = {name.partition("_")[0]: os.path.join(root, name) for name in names}
    if TRAIN not in found or len(found) < len(names):
        told = "%s has the folders %s: it needs one train_64x64, or of another side, and one valid_64x64 to judge by"
        raise TrainerError("setup_failed", told % (root, ", ".join(names) or "of no images"))
    return found


def files(root: Optional[str], split: str) -> List[str]:
    """Return the paths of a split's images, sorted.

    Raises:
        TrainerError: ``setup_failed``, there are none.
    """
    folder = folders(root).get(split)
    if folder is None:
        raise TrainerError("setup_failed", "%s keeps no images apart: it has no folder %s_64x64" % (root, split))
    found = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.lower().endswith(".png")]
    if not found:
        raise TrainerError("setup_failed", "there is no image *.png in %s" % folder)
    return found


def side_of(path: str) -> int:
    """Return how many pixels an image has on each side, by the name of its folder."""
    return int(path.split(os.sep)[-2].rpartition("x")[2])


def batches(root: Optional[str], count: int, pixels: int, seed: int, rank: int, world_size: int) -> Iterator[Array]:
    """Return images_NHWC without end, float32 from -1 to 1, in the seed's order; threads decode ahead of the training.

    Raises (also while it is iterated):
        TrainerError: ``setup_failed``, a folder or an image cannot be read; the message names it.
    """
    import numpy

    found = files(root, TRAIN)
    order = numbered.shuffled(len(found), seed, rank, world_size)
    lists = ([found[number] for _, number in itertools.islice(order, count)] for _ in itertools.repeat(None))
    return (numpy.stack(images) for images in decoding.ahead(lists, functools.partial(image, pixels=pixels)))


def judged(root: Optional[str], pixels: int, most: int) -> Array:
    """Return images_NHWC of what is kept apart, the first ``most`` by name.

    Raises:
        TrainerError: ``setup_failed``, there are none, or one cannot be read.
    """
    import numpy

    return numpy.stack([image(path, pixels) for path in files(root, VALID)[:most]])


def image(path: str, pixels: int) -> Array:
    """Return image_HWC, float32 from -1 to 1, of a file. A network for smaller images gets means of squares.

    Raises:
        TrainerError: ``setup_failed``, it cannot be read, or is not as it should be; the message names it.
    """
    import numpy

    side = side_of(path)
    if side % pixels:
        told = "%s is %d pixels wide, which are no whole number of times the %d of this size of the model"
        raise TrainerError("setup_failed", told % (path, side, pixels))
    image_HWC = numpy.asarray(opened(path).reduce(side // pixels), dtype=numpy.float32)
    return image_HWC / numpy.float32(127.5) - numpy.float32(1.0)


def opened(path: str) -> Any:
    """Return an image of Pillow's in RGB. Size and colour space stand in a file's head: what is wrong by them is never
    decoded, however large it is.

    Raises:
        TrainerError: ``setup_failed``; the message names the file.
    """
    from PIL import Image

    side = side_of(path)
    try:
        with Image.open(path) as file:
            if file.size != (side, side):
                raise ValueError("it is %d x %d pixels, and its folder is for %d x %d" % (file.size + (side, side)))
            if file.mode not in _MODES:
                raise ValueError("its colours are %s: RGB or grey can be read" % file.mode)
            return file.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise TrainerError("setup_failed", "cannot read the image %s: %s" % (path, error))
