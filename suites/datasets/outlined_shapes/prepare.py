"""Makes the dataset: ``python -m suites.datasets.outlined_shapes.prepare --root DIR``.

Photographs with shapes as ``drawn_shapes`` draws them, and their outlines in COCO's layout: polygons, and of those that
stand for a crowd lengths of runs.
"""

import json
import math
import os
import random
import sys
from typing import Dict

from suites.datasets import making
from suites.datasets.coco import index
from suites.datasets.drawn_shapes import prepare as drawn_shapes
from suites.datasets.photographs import prepare as photographs

VERSION = 1

SPLITS = {"train": 200, "val": 40}
# Numbers and names of COCO's categories, by what the shapes are called in Pascal VOC.
CATEGORIES = {"bicycle": (2, "bicycle"), "aeroplane": (5, "airplane"), "boat": (9, "boat"), "tvmonitor": (72, "tv")}
# Every so many an image has a crowd: its first shape.
CROWDED = 8
# Corners of a disc.
ROUND = 40


def write_all(folder: str) -> Dict[str, str]:
    """Write every file below ``folder``; return the versions of what made them."""
    import PIL
    import skimage

    pictures = [photographs.load(source) for _, source in sorted(photographs.SOURCES.items())]
    os.makedirs(os.path.join(folder, "annotations"))
    first = 1
    for split, count in sorted(SPLITS.items()):
        os.makedirs(os.path.join(folder, split))
        numbers = range(first, first + count)
        told = _split(os.path.join(folder, split), numbers, pictures)
        with open(os.path.join(folder, "annotations", "instances_%s.json" % split), "w", encoding="ascii") as file:
            json.dump(told, file, indent=1)
        first += count
    index.write(folder, folder)
    return {"pillow": PIL.__version__, "scikit-image": skimage.__version__}


def _split(folder, numbers, pictures):
    images, annotations = [], []
    for number in numbers:
        name, generator = "%012d.jpg" % number, random.Random("outlines/%d" % number)
        piece, found = drawn_shapes.piece(pictures, number, generator)
        photographs.write(piece, os.path.join(folder, name), generator)
        images.append({"id": number, "file_name": name, "width": piece.width, "height": piece.height})
        for place, (kind, left, top, right, bottom) in enumerate(found):
            # Columns and rows are counted from 1 there, and the last one is within.
            box = left - 1, top - 1, right - left + 1, bottom - top + 1
            is_crowd = number % CROWDED == 0 and not place
            outline = _polygon(drawn_shapes.SHAPES[kind], box)
            one = {"id": len(annotations) + 1, "image_id": number, "category_id": CATEGORIES[kind][0], "bbox": box}
            one.update(iscrowd=int(is_crowd), area=box[2] * box[3], segmentation=[outline])
            if is_crowd:
                one["segmentation"] = _runs(outline, piece)
            annotations.append(one)
    categories = [{"id": number, "name": name} for number, name in sorted(CATEGORIES.values())]
    return {"images": images, "annotations": annotations, "categories": categories}


def _polygon(corners, box):
    left, top, width, height = box
    angles = [2.0 * math.pi * number / ROUND for number in range(ROUND)]
    corners = corners or [(0.5 + math.cos(angle) / 2.0, 0.5 + math.sin(angle) / 2.0) for angle in angles]
    return [round(one, 2) for x, y in corners for one in (left + x * width, top + y * height)]


def _runs(outline, piece):
    from pycocotools import mask

    sides = piece.height, piece.width
    counts = index.runs_of(mask.decode(mask.merge(mask.frPyObjects([outline], *sides))))
    return {"size": list(sides), "counts": counts.tolist()}


if __name__ == "__main__":
    sys.exit(making.main(VERSION, write_all))
