"""The text of numbered sub-words, without SentencePiece: ``pieces.json`` beside the arrays has them by number."""

import json
import os
from typing import Iterable, List, Sequence

from suites.datasets.numbered import UNKNOWN, folder_of
from workers.trainer.failure import TrainerError

# What SentencePiece writes for a space, and what it gives back for what is unknown.
SPACE, UNKNOWN_TEXT = "\u2581", " \u2047 "


class Pieces(object):
    """``pieces``: the sub-words by their numbers."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._texts = [piece.replace(SPACE, " ") for piece in pieces]
        # Those before it are no text: padding, begin, end, mask.
        self._texts[: UNKNOWN + 1] = [""] * UNKNOWN + [UNKNOWN_TEXT]

    def text(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens, as SentencePiece's ``decode`` does. Numbers that the vocabulary does not have,
        which a network with places for more may name, are unknown."""
        count = len(self._texts)
        found = "".join(self._texts[token] if token < count else UNKNOWN_TEXT for token in tokens)
        return found[1:] if found.startswith(" ") else found


def write(root: str, vocabulary: int, pieces: List[str]) -> None:
    with open(_path(root, vocabulary), "w", encoding="utf-8") as file:
        json.dump(pieces, file, ensure_ascii=False)


def read(root: str, vocabulary: int) -> Pieces:
    """Return the pieces of a vocabulary of the dataset.

    Raises:
        TrainerError: ``setup_failed``, the file is missing or damaged; the message names it.
    """
    path = _path(root, vocabulary)
    try:
        with open(path, encoding="utf-8") as file:
            return Pieces(json.load(file))
    except (OSError, ValueError) as error:
        raise TrainerError("setup_failed", "cannot read %s: %s" % (path, error))


def _path(root, vocabulary):
    return os.path.join(folder_of(root, vocabulary), "pieces.json")
