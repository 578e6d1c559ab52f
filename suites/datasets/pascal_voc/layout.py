"""Pascal VOC's layout, read as it is, and what in it cannot be trained on.

    ImageSets/Main/trainval.txt    names of images, one a line; also train, val, test
    JPEGImages/000005.jpg
    Annotations/000005.xml         its size, and a box around each object, in pixels counted from 1

Source: Everingham et al., "The Pascal Visual Object Classes (VOC) Challenge", 2010, and the development kit of 2007.
"""

import os
from typing import Any, Dict, List, NamedTuple, Optional, Tuple
from xml.parsers import expat

from workers.trainer.base.failure import TrainerError

# Of what a network tells; 0 is what is no object.
CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
# The first that is there is trained on, or judges.
TRAINED, JUDGED = ("trainval", "train"), ("test", "val")
# Judgements: VOC's images have sides of 100 to 500 pixels.
LEAST_SIDE, MOST_SIDE = 16, 4096
# Of grey and of colours: what else there is in JPEG is for printing.
_MODES = ("L", "RGB")
# A value, and the line that it stands in.
Told = Tuple[str, int]


class Box(NamedTuple):
    """``kind``: the number of its class, from 1; ``corners``: left, top, right, bottom edge in pixels from 0.
    ``difficult``: it is neither trained on nor counted."""

    kind: int
    corners: Tuple[float, float, float, float]
    difficult: bool


class Annotated(NamedTuple):
    """``path``: of the image, of ``width`` x ``height`` pixels."""

    path: str
    width: int
    height: int
    boxes: Tuple[Box, ...]


def splits(root: Optional[str]) -> Dict[str, List[str]]:
    """Return {split: names of its images} of those that are there.

    Raises:
        TrainerError: ``setup_failed``, none is there that could be trained on, or one is empty.
    """
    if root is None:
        raise TrainerError("setup_failed", "the dataset has not been prepared on this host")
    found = {}
    for split in TRAINED + JUDGED:
        path = os.path.join(root, "ImageSets", "Main", split + ".txt")
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            found[split] = [line.split()[0] for line in file if line.strip()]
        if not found[split]:
            raise TrainerError("setup_failed", "%s names no image" % path)
    if not any(split in found for split in TRAINED):
        folder = os.path.join(root, "ImageSets", "Main")
        raise TrainerError("setup_failed", "there is neither trainval.txt nor train.txt in %s" % folder)
    return found


def images(root: Optional[str], wanted: Tuple[str, ...]) -> List[Annotated]:
    """Return the images of the first split of ``wanted`` that is there.

    Raises:
        TrainerError: ``setup_failed``, there is none, or an annotation cannot be trained on; the message has its file.
    """
    found = splits(root)
    split = next((one for one in wanted if one in found), None)
    if split is None:
        told = "%s keeps no images apart: it has no %s in ImageSets/Main"
        raise TrainerError("setup_failed", told % (root, " or ".join(name + ".txt" for name in wanted)))
    return [annotated(str(root), name) for name in found[split]]


def annotated(root: str, name: str) -> Annotated:
    """Return an image with its boxes, by its annotation.

    Raises:
        TrainerError: ``setup_failed``; the message has the file, and the line where there is one.
    """
    path = os.path.join(root, "Annotations", name + ".xml")
    size, objects = _Reader().read(path)
    sides = [_number(path, size, side) for side in ("width", "height")]
    for side, line in zip(sides, (size["width"][1], size["height"][1])):
        if not LEAST_SIDE <= side <= MOST_SIDE or side != int(side):
            told = "a side of %g pixels; images of %d to %d are read" % (side, LEAST_SIDE, MOST_SIDE)
            raise _wrong(path, line, told)
    image = os.path.join(root, "JPEGImages", name + ".jpg")
    if not os.path.exists(image):
        raise TrainerError("setup_failed", "%s: there is no %s" % (path, image))
    boxes = tuple(_box(path, one, *sides) for one in objects)
    return Annotated(image, int(sides[0]), int(sides[1]), boxes)


def _box(path, told, width, height):
    name, line = _told(path, told, "name")
    if name not in CLASSES:
        raise _wrong(path, line, "%r is no class of Pascal VOC: %s" % (name, ", ".join(CLASSES)))
    left, top, right, bottom = (_number(path, told, "bndbox/" + key) for key in ("xmin", "ymin", "xmax", "ymax"))
    line = told["bndbox/xmin"][1]
    if left > right or top > bottom:
        raise _wrong(path, line, "a box from %g, %g to %g, %g is inverted" % (left, top, right, bottom))
    # Where a number is none, this says so too.
    if not (1 <= left and 1 <= top and right <= width and bottom <= height):
        outside = (left, top, right, bottom, width, height)
        raise _wrong(path, line, "a box from %g, %g to %g, %g is outside of the image's 1 to %g, 1 to %g" % outside)
    # Pixels are counted from 1, and the last one is within.
    return Box(CLASSES.index(name) + 1, (left - 1, top - 1, right, bottom), told.get("difficult", ("0", 0))[0] == "1")


def _told(path, fields, key):
    if key not in fields:
        raise _wrong(path, fields[""][1], "<%s> is missing" % key)
    return fields[key]


def _number(path, fields, key):
    text, line = _told(path, fields, key)
    try:
        return float(text)
    except ValueError:
        raise _wrong(path, line, "%r is no number" % text)


def _wrong(path, line, what):
    return TrainerError("setup_failed", "%s: line %d: %s" % (path, line, what))


class _Reader(object):
    """Takes from an annotation its size and its objects: {path of an element: (text, line)}, "" for the whole."""

    def __init__(self) -> None:
        self._size = {"": ("", 1)}  # type: Dict[str, Told]
        self._objects = []  # type: List[Dict[str, Told]]
        self._names = []  # type: List[str]
        self._lines = []  # type: List[int]
        self._text = ""
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._begin
        self._parser.CharacterDataHandler = self._take
        self._parser.EndElementHandler = self._end

    def read(self, path: str) -> Tuple[Dict[str, Told], List[Dict[str, Told]]]:
        try:
            with open(path, "rb") as file:
                self._parser.ParseFile(file)
        except OSError as error:
            raise TrainerError("setup_failed", "cannot read %s: %s" % (path, error.strerror))
        except expat.ExpatError as error:
            raise _wrong(path, error.lineno, expat.ErrorString(error.code))
        return self._size, self._objects

    def _begin(self, name, attributes):
        self._names.append(name)
        self._lines.append(self._parser.CurrentLineNumber)
        self._text = ""
        if self._names[1:] == ["object"]:
            self._objects.append({"": ("", self._lines[-1])})

    def _take(self, text):
        self._text += text

    def _end(self, name):
        fields, line = self._names[1:], self._lines.pop()
        self._names.pop()
        if len(fields) < 2:
            return
        told = {"size": self._size, "object": self._objects[-1] if self._objects else {}}.get(fields[0])
        if told is not None:
            told["/".join(fields[1:])] = (self._text.strip(), line)


def opened(image: Annotated) -> Any:
    """Return Pillow's image in RGB. Its size and colours stand in its head: what is wrong is never decoded.

    Raises:
        TrainerError: ``setup_failed``; the message names the file.
    """
    from PIL import Image

    try:
        with Image.open(image.path) as file:
            if file.size != (image.width, image.height):
                told = "it is %d x %d pixels, and its annotation says %d x %d"
                raise ValueError(told % (file.size + (image.width, image.height)))
            if file.mode not in _MODES:
                raise ValueError("its colours are %s: RGB or grey can be read" % file.mode)
            return file.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise TrainerError("setup_failed", "cannot read the image %s: %s" % (image.path, error))
