"""Makes the dataset: ``python -m suites.datasets.drawn_shapes.prepare --root DIR``.

Pieces of the photographs that scikit-image installs, lying and upright, with shapes drawn on them and an annotation of
each, in Pascal VOC's layout. Some have no shape, and some are grey. A shape that would hide much of another is not
drawn.
"""

import os
import random
import sys
from typing import Any, Dict, List, Sequence, Tuple

from suites.assemble import boxes
from suites.datasets import making
from suites.datasets.photographs import prepare as photographs

VERSION = 1

SPLITS = {"trainval": 200, "test": 40}
# Every so many an image has no shape, or is grey; most shapes of an image.
EMPTY, GREY, MOST = 20, 10, 4
# The corners of each, in parts of its box; a disc has none.
SHAPES = {
    "bicycle": None,
    "boat": ((0, 1), (0.5, 0), (1, 1)),
    "tvmonitor": ((0, 0), (1, 0), (1, 1), (0, 1)),
    "aeroplane": ((0.35, 0), (0.65, 0), (0.65, 0.35), (1, 0.35), (1, 0.65), (0.65, 0.65), (0.65, 1), (0.35, 1))
    + ((0.35, 0.65), (0, 0.65), (0, 0.35), (0.35, 0.35)),
}  # type: Dict[str, Any]
_OBJECT = """  <object>
    <name>%s</name>
    <difficult>0</difficult>
    <bndbox>
      <xmin>%d</xmin>
      <ymin>%d</ymin>
      <xmax>%d</xmax>
      <ymax>%d</ymax>
    </bndbox>
  </object>
"""
_ANNOTATION = """<annotation>
  <filename>%s.jpg</filename>
  <size>
    <width>%d</width>
    <height>%d</height>
    <depth>%d</depth>
  </size>
%s</annotation>
"""


def write_all(folder: str) -> Dict[str, str]:
    """Write every file below ``folder``; return the versions of what encoded the images."""
    import PIL
    import skimage

    for name in ("Annotations", "JPEGImages", os.path.join("ImageSets", "Main")):
        os.makedirs(os.path.join(folder, name))
    pictures = [photographs.load(source) for _, source in sorted(photographs.SOURCES.items())]
    numbers = iter(range(1, 1 + sum(SPLITS.values())))
    for split, count in sorted(SPLITS.items()):
        names = ["%06d" % next(numbers) for _ in range(count)]
        for name in names:
            generator = random.Random("shapes/" + name)
            drawn, found = piece(pictures, int(name), generator)
            photographs.write(drawn, os.path.join(folder, "JPEGImages", name + ".jpg"), generator)
            told = (name,) + drawn.size + (len(drawn.getbands()), "".join(_OBJECT % one for one in found))
            _write(os.path.join(folder, "Annotations", name + ".xml"), _ANNOTATION % told)
        _write(os.path.join(folder, "ImageSets", "Main", split + ".txt"), "\n".join(names) + "\n")
    return {"pillow": PIL.__version__, "scikit-image": skimage.__version__}


def piece(pictures: Sequence[Any], number: int, generator: random.Random) -> Tuple[Any, List[Tuple[Any, ...]]]:
    """Return the image of this number, and of each shape on it (class, first and last column and row, from 1)."""
    found = photographs.cut(pictures[number % len(pictures)], generator)
    shapes = _drawn(found, 0 if number % EMPTY == 0 else generator.randint(1, MOST), generator)
    return found.convert("L") if number % GREY == 1 else found, shapes


def _drawn(image: Any, count: int, generator: random.Random) -> List[Tuple[Any, ...]]:
    """Draw shapes on an image; return (class, first and last column and row, from 1) of each."""
    import numpy
    from PIL import ImageDraw

    draw, found = ImageDraw.Draw(image), []  # type: Any, List[Tuple[Any, ...]]
    for _ in range(count):
        width, height = (int(side * generator.uniform(0.15, 0.5)) for side in image.size)
        left, top = generator.randint(0, image.width - width), generator.randint(0, image.height - height)
        name, colour = generator.choice(sorted(SHAPES)), tuple(generator.randint(0, 255) for _ in range(3))
        # The last pixel is within the box.
        box = (left, top, left + width - 1, top + height - 1)
        edges = numpy.array([[left, top, left + width, top + height]], float)
        if any(boxes.overlaps(edges, numpy.array([one[5]]))[0, 0] > 0.2 for one in found):
            continue
        if SHAPES[name] is None:
            draw.ellipse(box, fill=colour)
        else:
            corners = [(left + x * (width - 1), top + y * (height - 1)) for x, y in SHAPES[name]]
            draw.polygon(corners, fill=colour)
        found.append((name, left + 1, top + 1, left + width, top + height, tuple(edges[0])))
    return [one[:5] for one in found]


def _write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(making.main(VERSION, write_all))
