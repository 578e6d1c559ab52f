"""Makes the dataset: ``python -m suites.datasets.photographs.prepare --root DIR``.

JPEG files in ImageNet's folder layout, cut from the photographs that scikit-image installs and encoded anew. Nothing is
downloaded. The same versions of Pillow and scikit-image make the same files, byte for byte. The folder appears as a
whole, by a rename, with a ``manifest.json`` of all its files; where it is already there nothing happens.
"""

import io
import os
import random
import sys
from typing import Any, Dict

from suites.datasets import making

VERSION = 1

# Class -> file in the folder of skimage.data. All are inside the wheel; their licences stand in its README.txt.
SOURCES = {
    "n90000001": "astronaut.png",
    "n90000002": "brick.png",
    "n90000003": "chelsea.png",
    "n90000004": "coffee.png",
    "n90000005": "coins.png",
    "n90000006": "grass.png",
    "n90000007": "gravel.png",
    "n90000008": "motorcycle_left.png",
    "n90000009": "retina.jpg",
    "n90000010": "rocket.jpg",
}

# Files per class. ImageNet has about 1300 and 50.
SPLITS = {"train": 60, "val": 10}

# Sides in pixels: the middle of ImageNet's, whose median is 500 x 375.
SHORTEST, LONGEST = 300, 500


def write_all(folder: str) -> Dict[str, str]:
    """Write every file below ``folder``; return the versions of what encoded them."""
    import PIL
    import skimage

    for name, source in sorted(SOURCES.items()):
        photograph = load(source)
        for split, count in sorted(SPLITS.items()):
            os.makedirs(os.path.join(folder, split, name))
            for number in range(count):
                path = "%s/%s/%s_%d.JPEG" % (split, name, name, number)
                write(
                    cut(photograph, random.Random(path)), os.path.join(folder, path), random.Random(path + "/quality")
                )
    return {"pillow": PIL.__version__, "scikit-image": skimage.__version__}


def load(source: str) -> Any:
    """Return a photograph of scikit-image as a Pillow image in RGB."""
    import skimage
    from PIL import Image

    with Image.open(os.path.join(os.path.dirname(skimage.__file__), "data", source)) as image:
        return image.convert("RGB")


def cut(photograph: Any, generator: random.Random) -> Any:
    """Return a piece of ``photograph``, a third of its side or more, scaled to a usual size and aspect."""
    from PIL import Image

    width, height = generator.randint(SHORTEST, LONGEST), generator.randint(SHORTEST, LONGEST)
    largest = min(photograph.width / float(width), photograph.height / float(height))
    scale = largest * generator.uniform(0.33, 1.0)
    w, h = width * scale, height * scale
    left, top = generator.uniform(0, photograph.width - w), generator.uniform(0, photograph.height - h)
    piece = photograph.resize((width, height), Image.BICUBIC, box=(left, top, left + w, top + h))
    return piece.transpose(Image.FLIP_LEFT_RIGHT) if generator.random() < 0.5 else piece


def write(image: Any, path: str, generator: random.Random) -> None:
    """Encode ``image`` as JPEG, with a quality as photographs in the wild have it. In memory first: where Pillow writes
    by itself it does not say that the disk is full."""
    encoded = io.BytesIO()
    image.save(encoded, "JPEG", quality=generator.randint(80, 95), subsampling="4:2:0")
    with open(path, "wb") as file:
        file.write(encoded.getvalue())


if __name__ == "__main__":
    sys.exit(making.main(VERSION, write_all))
