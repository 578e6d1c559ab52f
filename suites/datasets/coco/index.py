"""Writes what trainers read of a dataset in COCO's layout, ``index/``: of each split ``<split>.json`` ([file, width,
height] of each image), ``<split>.boxes.npy`` (kind, crowd, left, top, right, bottom), ``<split>.runs.npy`` (the lengths
of the runs of all masks, beginning with one of nothing, down each column), and where those of an image, and of a box,
end.

Annotations are checked, and polygons become masks, once and here: by pycocotools, whose pixels are those that COCO's
figures are about. A trainer needs neither it nor minutes to read half a gigabyte of JSON.
"""

import json
import os
from typing import Any

import numpy

from suites.datasets.coco import layout
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array


def write(source: str, root: str) -> None:
    """Write the index of ``source`` below ``root``.

    Raises:
        SystemExit: what is there cannot be trained on; the message names the file, and the annotation.
    """
    os.makedirs(os.path.join(root, "index"), exist_ok=True)
    try:
        for split, path in layout.splits(source).items():
            _write_split(root, split, path)
    except TrainerError as error:
        raise SystemExit(str(error))


def _write_split(root, split, path):
    found, above = layout.images(path), os.path.dirname(layout.images_folder(path))
    told = [[os.path.relpath(one.path, above), one.width, one.height] for one in found]
    boxes = [(box.kind, box.difficult) + box.corners for one in found for box in one.boxes]
    runs = [_runs(path, one, outline) for one in found for outline in one.outlines]
    place = os.path.join(root, "index", split)
    with open(place + ".json", "w", encoding="utf-8") as file:
        json.dump(told, file)
    numpy.save(place + ".boxes.npy", numpy.array(boxes, numpy.float32).reshape(-1, 6))
    numpy.save(place + ".ends.npy", numpy.cumsum([len(one.boxes) for one in found], dtype=numpy.int64))
    numpy.save(place + ".runs.npy", numpy.concatenate(runs) if runs else numpy.zeros(0, numpy.uint32))
    numpy.save(place + ".runs.ends.npy", numpy.cumsum([len(one) for one in runs], dtype=numpy.int64))


def _runs(path, image, outline):
    from pycocotools import mask

    sides = image.height, image.width
    try:
        if isinstance(outline, list):
            outline = mask.merge(mask.frPyObjects(outline, *sides))
        elif isinstance(outline["counts"], list):
            outline = mask.frPyObjects(outline, *sides)
        return runs_of(mask.decode(outline))
    except ValueError as error:
        raise TrainerError("setup_failed", "%s: an outline of %s: %s" % (path, image.path, error))


def runs_of(mask_HW: Any) -> Array:
    """Return the lengths of a mask's runs."""
    flat = numpy.concatenate([[0], numpy.asarray(mask_HW, numpy.uint8).flatten(order="F")])
    borders = numpy.flatnonzero(numpy.diff(flat))
    return numpy.diff(numpy.concatenate([[0], borders, [mask_HW.size]])).astype(numpy.uint32)
