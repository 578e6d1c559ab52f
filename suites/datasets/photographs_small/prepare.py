"""Makes the dataset: ``python -m suites.datasets.photographs_small.prepare --root DIR``.

Small squares in the layout of downsampled ImageNet, from the photographs that scikit-image installs: cut as those of
``photographs`` are, of which the middle is averaged to the side. PNG, so that nothing is lost.
"""

import io
import os
import random
import sys
from typing import Dict

from suites.datasets import making
from suites.datasets.photographs import prepare as photographs

VERSION = 1

SIDE = 64
# Files per photograph.
SPLITS = {"train": 200, "valid": 20}


def write_all(folder: str) -> Dict[str, str]:
    """Write every file below ``folder``; return the versions of what encoded them."""
    import PIL
    import skimage
    from PIL import Image

    pictures = [photographs.load(source) for _, source in sorted(photographs.SOURCES.items())]
    for split, count in sorted(SPLITS.items()):
        within = "%s_%dx%d" % (split, SIDE, SIDE)
        os.makedirs(os.path.join(folder, within))
        for number in range(count * len(pictures)):
            path = "%s/%05d.png" % (within, number + 1)
            piece = photographs.cut(pictures[number % len(pictures)], random.Random("small/" + path))
            side = min(piece.size)
            left, top = (piece.width - side) // 2, (piece.height - side) // 2
            small = piece.resize((SIDE, SIDE), Image.BOX, box=(left, top, left + side, top + side))
            encoded = io.BytesIO()
            small.save(encoded, "PNG")
            with open(os.path.join(folder, path), "wb") as file:
                file.write(encoded.getvalue())
    return {"pillow": PIL.__version__, "scikit-image": skimage.__version__}


if __name__ == "__main__":
    sys.exit(making.main(VERSION, write_all))
