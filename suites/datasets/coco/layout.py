"""COCO's layout, read as it is, and what in it cannot be trained on.

    annotations/instances_train2017.json    images, categories, and of each object its box and outline
    train2017/000000000009.jpg              the images of that split
    annotations/instances_val2017.json, val2017/    those that judge, where there are any

An outline is a list of polygons, or lengths of runs (RLE). The number of a class is that of its category, which need
not be one behind the other.

Source: Lin et al., "Microsoft COCO: Common Objects in Context", 2014, and cocodataset.org, "Data format".
"""

import json
import os
from typing import Any, Dict, List, NamedTuple, Tuple

from suites.datasets.pascal_voc import layout as pascal_voc
from suites.datasets.pascal_voc.layout import LEAST_SIDE, MOST_SIDE, Annotated, Box
from workers.trainer.base.failure import TrainerError

TRAINED, JUDGED = "train", "val"
# COCO's categories have numbers to 90.
MOST_KIND = 90
# A box may end so much outside of its image: edges are written with two digits behind the point, of rounded polygons.
_ROUNDED = 1.0


class Outlined(NamedTuple):
    """``path``: of the image, of ``width`` x ``height`` pixels; of each of its boxes, which is ``difficult`` where it
    stands for a crowd, the outline: as in the file, or, once it is prepared, the lengths of its runs."""

    path: str
    width: int
    height: int
    boxes: Tuple[Box, ...]
    outlines: Tuple[Any, ...]


def splits(root: str) -> Dict[str, str]:
    """Return {split: path of its annotations} of what is trained on, and of what judges where that is there.

    Raises:
        TrainerError: ``setup_failed``, there is none to be trained on, or there are several.
    """
    folder, found = os.path.join(root, "annotations"), {}
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for split in (TRAINED, JUDGED):
        some = [name for name in names if name.startswith("instances_" + split) and name.endswith(".json")]
        if len(some) > 1 or not some and split == TRAINED:
            told = "%s has %s: one instances_%s*.json is trained on or judges"
            raise TrainerError("setup_failed", told % (folder, " and ".join(some) or "no such file", split))
        if some:
            found[split] = os.path.join(folder, some[0])
    return found


def images_folder(annotations: str) -> str:
    """Return the folder of the images that a file of annotations tells of."""
    folder, name = os.path.split(annotations)
    return os.path.join(os.path.dirname(folder), name[len("instances_") : -len(".json")])


def images(path: str) -> List[Outlined]:
    """Return the images of a file of annotations, in its order.

    Raises:
        TrainerError: ``setup_failed``, it cannot be trained on; the message has the file, and the line, the image or
            the annotation.
    """
    told = _parsed(path)
    kinds = {_field(path, "category", one, "id") for one in told["categories"]}
    if not kinds or not all(isinstance(kind, int) and 1 <= kind <= MOST_KIND for kind in kinds):
        raise _wrong(path, "categories have numbers from 1 to %d" % MOST_KIND)
    found = {}  # type: Dict[Any, Any]
    for one in told["images"]:
        found[_field(path, "image", one, "id")] = _image(path, one), []
    for one in told["annotations"]:
        number = _field(path, "annotation", one, "image_id")
        if number not in found:
            raise _wrong(path, "annotation %s: there is no image %s" % (one.get("id"), number))
        image, objects = found[number]
        objects.append(_object(path, one, image, kinds))
    if not found:
        raise _wrong(path, "it names no image")
    return [_outlined(*one) for one in found.values()]


def _outlined(image, objects):
    return Outlined(*image, boxes=tuple(one for one, _ in objects), outlines=tuple(one for _, one in objects))


def opened(image: Outlined) -> Any:
    """Return Pillow's image in RGB.

    Raises:
        TrainerError: ``setup_failed``; the message names the file.
    """
    return pascal_voc.opened(Annotated(*image[:4]))


def _parsed(path):
    try:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
    except (OSError, ValueError) as error:
        raise _wrong(path, str(error))
    for key in ("images", "annotations", "categories"):
        if not isinstance(told, dict) or not isinstance(told.get(key), list):
            raise _wrong(path, "it has no list %r" % key)
    return told


def _field(path, what, told, key):
    if not isinstance(told, dict) or key not in told:
        number = told.get("id") if isinstance(told, dict) else told
        raise _wrong(path, "%s %s: %r is missing" % (what, number, key))
    return told[key]


def _image(path, told):
    number = told["id"]
    sides = [_field(path, "image", told, side) for side in ("width", "height")]
    for side in sides:
        if not isinstance(side, int) or not LEAST_SIDE <= side <= MOST_SIDE:
            at = number, side, LEAST_SIDE, MOST_SIDE
            raise _wrong(path, "image %s: a side of %s pixels; images of %d to %d are read" % at)
    image = os.path.join(images_folder(path), _field(path, "image", told, "file_name"))
    if not os.path.exists(image):
        raise _wrong(path, "image %s: there is no %s" % (number, image))
    return (image,) + tuple(sides)


def _object(path, told, image, kinds):
    at = "annotation %s" % told.get("id")
    kind, box, outline = (_field(path, "annotation", told, key) for key in ("category_id", "bbox", "segmentation"))
    if kind not in kinds:
        raise _wrong(path, "%s: %r is no category of this file" % (at, kind))
    if not isinstance(box, list) or len(box) != 4 or not all(isinstance(one, (int, float)) for one in box):
        raise _wrong(path, "%s: a box has left, top, width and height, not %r" % (at, box))
    left, top, width, height = box
    if width < 0 or height < 0:
        raise _wrong(path, "%s: a box of %g x %g pixels is inverted" % (at, width, height))
    right, bottom = left + width, top + height
    # Where a number is none, this says so too.
    within = min(left, top) >= -_ROUNDED and right <= image[1] + _ROUNDED and bottom <= image[2] + _ROUNDED
    if not within:
        outside = (at, left, top, right, bottom) + image[1:]
        raise _wrong(path, "%s: a box from %g, %g to %g, %g is outside of an image of %d x %d" % outside)
    if not _is_outline(outline, image[1:]):
        raise _wrong(path, "%s: its outline is neither polygons nor runs of %d x %d pixels" % ((at,) + image[1:]))
    corners = (max(0.0, left), max(0.0, top), min(right, image[1]), min(bottom, image[2]))
    return Box(kind, corners, bool(told.get("iscrowd"))), outline


def _is_outline(told, sides):
    if isinstance(told, list):
        return bool(told) and all(_is_polygon(one) for one in told)
    if not isinstance(told, dict) or told.get("size") != [sides[1], sides[0]]:
        return False
    counts = told.get("counts")
    found = lengths(counts) if isinstance(counts, str) else counts
    if not isinstance(found, list) or not all(isinstance(one, int) and one >= 0 for one in found):
        return False
    return sum(found) == sides[0] * sides[1]


def _is_polygon(told):
    is_even = isinstance(told, list) and len(told) >= 6 and len(told) % 2 == 0
    return is_even and all(isinstance(one, (int, float)) for one in told)


def lengths(text: str) -> List[int]:
    """Return the lengths of runs that a text stands for: each in parts of 5 bits, the lowest first, with a sixth where
    more follow, and from the third on less the one two before. Of a text that stands for none their sum is wrong.

    Source: the format of COCO's API (common/maskApi.c, rleToString). Pycocotools itself reads beyond an end.
    """
    found, value, shift = [], 0, 0  # type: List[int], int, int
    for character in text:
        part = ord(character) - 48
        value |= (part & 0x1F) << shift
        shift += 5
        if not part & 0x20:
            if part & 0x10:
                value -= 1 << shift
            found.append(value + found[-2] if len(found) > 2 else value)
            value, shift = 0, 0
    return found


def _wrong(path, what):
    return TrainerError("setup_failed", "%s: %s" % (path, what))
