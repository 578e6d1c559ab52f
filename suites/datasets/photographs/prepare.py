"""Makes the dataset: ``python -m suites.datasets.photographs.prepare --root DIR``.

JPEG files in ImageNet's folder layout, cut from the photographs that scikit-image installs and encoded anew. Nothing is
downloaded. The same versions of Pillow and scikit-image make the same files, byte for byte. The folder appears as a
whole, by a rename, with a ``manifest.json`` of all its files; where it is already there nothing happens.
"""

import argparse
import hashlib
import io
import json
import os
import random
import shutil
import sys
import tempfile
from typing import Any, Dict, Optional, Sequence

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


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Prepare the dataset; return the exit status."""
    parser = argparse.ArgumentParser(description="Makes the dataset `photographs`.")
    parser.add_argument("--root", required=True, help="the folder to make")
    root = os.path.abspath(parser.parse_args(arguments).root)
    if not is_prepared(root):
        prepare(root)
    print("%s: %d files" % (root, len(read_manifest(root)["files"])))
    return 0


def is_prepared(root: str) -> bool:
    """Whether ``root`` holds this version of the dataset."""
    try:
        manifest = read_manifest(root)
    except (OSError, ValueError):
        return False
    return manifest.get("version") == VERSION and all(os.path.exists(os.path.join(root, p)) for p in manifest["files"])


def read_manifest(root: str) -> Dict[str, Any]:
    """Return the object in ``manifest.json``: {version, made_with, files {path: {sha256, bytes}}}."""
    with open(os.path.join(root, "manifest.json"), encoding="utf-8") as file:
        return json.load(file)


def prepare(root: str) -> None:
    """Make the dataset in ``root``, in one move. What stood there, an older or a damaged one, is replaced."""
    parent = os.path.dirname(root)
    os.makedirs(parent, exist_ok=True)
    folder = tempfile.mkdtemp(prefix=os.path.basename(root) + ".partial-", dir=parent)
    try:
        write_all(folder)
        os.chmod(folder, 0o755)
        if os.path.exists(root) and not is_prepared(root):
            os.rename(root, os.path.join(folder, "replaced"))
        put_in_place(folder, root)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(os.path.join(root, "replaced"), ignore_errors=True)


def put_in_place(folder: str, root: str) -> None:
    """Rename ``folder`` to ``root``, unless another process has just made the same."""
    try:
        os.rename(folder, root)
    except OSError:
        if not is_prepared(root):
            raise


def write_all(folder: str) -> None:
    """Write every file and the manifest below ``folder``."""
    import PIL
    import skimage

    files = {}
    for name, source in sorted(SOURCES.items()):
        photograph = load(source)
        for split, count in sorted(SPLITS.items()):
            os.makedirs(os.path.join(folder, split, name))
            for number in range(count):
                path = "%s/%s/%s_%d.JPEG" % (split, name, name, number)
                write(
                    cut(photograph, random.Random(path)), os.path.join(folder, path), random.Random(path + "/quality")
                )
                files[path] = describe(os.path.join(folder, path))
    made_with = {"pillow": PIL.__version__, "scikit-image": skimage.__version__}
    manifest = {"version": VERSION, "made_with": made_with, "files": files}
    with open(os.path.join(folder, "manifest.json"), "w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=1, sort_keys=True)


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


def describe(path: str) -> Dict[str, Any]:
    """Return {sha256, bytes} of a file."""
    with open(path, "rb") as file:
        data = file.read()
    return {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


if __name__ == "__main__":
    sys.exit(main())
