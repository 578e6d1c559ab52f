"""Makes what trainers read of a dataset that somebody registered, beside its files and not among them.

    python -m suites.datasets.registered.prepare --root DIR --source PATH --layout LAYOUT --sha256 DIGEST

Of images in folders: links. Of records: an index. Of texts: numbers of sub-words. Of utterances: decoded audio. Of a
game: the emulator beside it. Of outlines: links to images, and an index of masks.
"""

import argparse
import os
import sys
from typing import Optional, Sequence

from suites.datasets import small_images
from suites.datasets.games import atari
from workers.trainer.base import manifest

# The sizes of the literature: base models of translation (Vaswani et al., 2017), GPT-2's, BERT's; and for small ones.
VOCABULARIES = {
    "parallel-text": (180, 8000, 37000),
    "text": (180, 8000, 50000),
    "wikipedia": (180, 8000, 30000),
    "squad": (180, 8000, 30000),
}


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Prepare the dataset; return the exit status.

    Raises:
        SystemExit: the files are not those that were registered, or one is missing or damaged; the message names it.
    """
    parser = argparse.ArgumentParser(description="Makes what trainers read of a registered dataset.")
    for name in ("root", "source", "layout", "sha256"):
        parser.add_argument("--" + name, required=True)
    given = parser.parse_args(arguments)
    try:
        found = manifest.listing(given.source)
    except OSError as error:
        raise SystemExit("cannot read the dataset: %s" % error)
    if found["sha256"] != given.sha256:
        raise SystemExit(
            "%s holds other files than when it was registered (%d now, %d bytes): tbd datasets register it anew"
            % (given.source, found["files"], found["bytes"])
        )
    _prepare(given.layout, given.source, given.root)
    return 0


def _prepare(layout, source, root):
    if layout == "image-folder":
        _link(root, [os.path.join(source, split) for split in ("train", "val")])
    elif layout == "small-images":
        _link(root, small_images.folders(source).values())
    elif layout == "pascal-voc":
        _link(root, [os.path.join(source, name) for name in ("Annotations", "ImageSets", "JPEGImages")])
    elif layout == "coco":
        # Pycocotools is wanted for outlines alone.
        from suites.datasets.coco import index
        from suites.datasets.coco.layout import images_folder, splits

        _link(root, [images_folder(path) for path in splits(source).values()])
        index.write(source, root)
    elif layout in VOCABULARIES:
        # SentencePiece is wanted for texts alone.
        from suites.datasets import text_numbers

        text_numbers.number_what_fits(layout, source, root, VOCABULARIES[layout])
    elif layout == "librispeech":
        # So is soundfile for audio alone.
        from suites.datasets.utterances import arrays

        arrays.write(source, root)
    elif layout == "atari":
        atari.write(root, atari.rom(source))
    else:
        from suites.datasets import records

        records.write_indexes(layout, source, root)


def _link(root, folders):
    """Put links to those of ``folders`` that are there into ``root``."""
    for folder in folders:
        if os.path.isdir(folder):
            os.symlink(folder, os.path.join(root, os.path.basename(folder)))


if __name__ == "__main__":
    sys.exit(main())
