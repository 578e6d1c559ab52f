"""Reads the files of a dataset in its layout and says what is there and what is wrong.

    python -m suites.datasets.checking LAYOUT PATH [--sample N]

Prints one JSON object: {splits {name: {what: how many}}, read (what of it was read), problems [a line each]}. Images
are decoded in full, ``--sample`` of each split, evenly chosen (0: all). Texts are always read as a whole. The
checksums of records' lengths are all compared; those of their data are not, for a damaged image does not decode. Of
utterances all transcripts and heads of audio are read, and ``--sample`` of each split decoded; of images with boxes all
annotations.
"""

import argparse
import importlib
import io
import json
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from suites.datasets import records, small_images, text_layouts
from suites.datasets.coco import layout as coco
from suites.datasets.games import atari
from suites.datasets.image_folder import listing
from suites.datasets.pascal_voc import layout as pascal_voc
from suites.datasets.utterances import layout as librispeech
from workers.trainer.base.failure import TrainerError

# Judgement: images decode at some hundred a second and core.
USUAL_SAMPLE = 1000
# So many problems are told; a dataset that is all wrong is wrong in one way.
MOST_PROBLEMS = 20


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Check a dataset and print what was found; return the exit status: 0, or 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="Checks the files of a dataset.")
    parser.add_argument("layout")
    parser.add_argument("path")
    parser.add_argument("--sample", type=int, default=USUAL_SAMPLE)
    given = parser.parse_args(arguments)
    found = check(given.layout, given.path, given.sample)
    print(json.dumps(found))
    return 1 if found["problems"] else 0


def check(layout: str, path: str, sample: int = USUAL_SAMPLE) -> Dict[str, Any]:
    """Return what ``main`` prints."""
    problems = []  # type: List[str]
    splits = {}  # type: Dict[str, Dict[str, int]]
    read = "every file"
    try:
        if layout in _TEXTS:
            splits = _texts(layout, path)
        elif layout == "librispeech":
            for split, spoken in librispeech.utterances(path).items():
                splits[split] = {"utterances": len(spoken)}
                some = spoken if not sample or sample >= len(spoken) else _evenly(spoken, sample)
                if len(some) < len(spoken):
                    read = "every transcript and head of audio, and %d utterances of each split" % sample
                problems += _undecoded(some, MOST_PROBLEMS - len(problems))
        elif layout == "atari":
            atari.refuse_unplayable(importlib.import_module("ale_py"), atari.rom(path))
            splits["train"] = {"games": 1}
        else:
            entries, decode = _images(layout, path)
            for split, found in entries.items():
                splits[split] = {"images": len(found)}
                if decode is _decode:
                    splits[split]["classes"] = len({entry.label for entry in found})
                some = found if not sample or sample >= len(found) else _evenly(found, sample)
                if len(some) < len(found):
                    read = "every name, and %d images of each split" % sample
                problems += _undecodable(some, decode, MOST_PROBLEMS - len(problems))
    except (OSError, TrainerError, records.RecordError, text_layouts.DatasetError) as error:
        problems.append(str(error))
    return {"splits": splits, "read": read, "problems": problems}


def _evenly(found, sample):
    return [found[number * len(found) // sample] for number in range(sample)]


def _folders(path: str) -> Dict[str, List[listing.Entry]]:
    found = {"train": listing.files(path)}
    try:
        found["val"] = listing.files(path, "val")
    except TrainerError:
        # Nothing is trained on it.
        return found
    return found


def _recorded(layout: str, path: str) -> Dict[str, List[listing.Entry]]:
    return {
        split: [listing.Entry(name, label, layout, at) for name in names for at, label, _ in records.scan(layout, name)]
        for split, names in records.files(layout, path).items()
    }


def _images(layout: str, path: str) -> Tuple[Dict[str, List[Any]], Callable[[Any], None]]:
    """Return ({split: its images}, what decodes one of them)."""
    if layout == "small-images":
        return {split: small_images.files(path, split) for split in small_images.folders(path)}, small_images.opened
    if layout == "pascal-voc":
        return {split: pascal_voc.images(path, (split,)) for split in pascal_voc.splits(path)}, pascal_voc.opened
    if layout == "coco":
        return {split: coco.images(found) for split, found in coco.splits(path).items()}, coco.opened
    return _folders(path) if layout == "image-folder" else _recorded(layout, path), _decode


def _undecodable(entries: Sequence[Any], decode: Callable[[Any], None], most: int) -> List[str]:
    problems = []  # type: List[str]
    for entry in entries:
        if len(problems) >= most:
            break
        try:
            decode(entry)
        except TrainerError as error:
            problems.append(str(error))
    return problems


def _undecoded(utterances: Sequence[librispeech.Utterance], most: int) -> List[str]:
    problems = []  # type: List[str]
    for utterance in utterances:
        if len(problems) >= most:
            break
        try:
            librispeech.decoded(utterance)
        except text_layouts.DatasetError as error:
            problems.append(str(error))
    return problems


def _decode(entry: listing.Entry) -> None:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(listing.encoded(entry))) as image:
            image.load()
    except (OSError, ValueError, SyntaxError) as error:
        raise TrainerError("setup_failed", "%s: %s" % (entry, error))


_TEXTS = {
    "parallel-text": (text_layouts.pairs, "pairs"),
    "text": (text_layouts.texts, "documents"),
    "wikipedia": (text_layouts.articles, "articles"),
    "squad": (text_layouts.questions, "questions"),
}  # type: Dict[str, Tuple[Any, str]]


def _texts(layout: str, path: str) -> Dict[str, Dict[str, int]]:
    read, what = _TEXTS[layout]
    found = {split: {what: len(items)} for split, items in read(path).items()}
    if layout == "parallel-text":
        text_layouts.word_lists(path)
    empty = [split for split, counts in found.items() if not counts[what]]
    if empty or not found:
        raise text_layouts.DatasetError("%s: there are no %s in %s" % (path, what, ", ".join(empty) or "it"))
    return found


if __name__ == "__main__":
    sys.exit(main())
