"""The text of numbered sub-words, without SentencePiece: ``pieces.json`` beside the arrays has them by number."""

import os
from typing import Iterable, List, Sequence

from suites.datasets import text_files
from suites.datasets.numbered import UNKNOWN, Vocabulary, folder_of

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


def write(root: str, vocabulary: Vocabulary, pieces: List[str]) -> None:
    text_files.write(_path(root, vocabulary), pieces)


def read(root: str, vocabulary: Vocabulary) -> Pieces:
    """Return the pieces of a vocabulary of the dataset.

    Raises:
        TrainerError: as ``text_files.read``.
    """
    return Pieces(text_files.read(_path(root, vocabulary)))


def _path(root, vocabulary):
    return os.path.join(folder_of(root, vocabulary), "pieces.json")
