"""Parallel texts as numbers of words, beside those of sub-words, where the dataset has a list of each language's words:
``numbers/words/<split>.source`` and ``.target``, and ``pieces.json`` with the words of the target.

Words are what is between spaces. Their numbers begin behind what is no text, by falling frequency in ``train``: a model
that knows fewer takes the first ones, and all others are unknown to it.
"""

import collections
import os
from typing import List, Mapping, Sequence

from suites.datasets import pieces, subwords, text_layouts
from suites.datasets.numbered import TRAIN, UNKNOWN, WORDS, folder_of
from suites.datasets.text_layouts import Pair


def write(source: str, found: Mapping[str, Sequence[Pair]], root: str) -> None:
    """Write the pairs of each split below ``root``, if ``source`` has word lists.

    Raises:
        DatasetError: a list is missing or damaged; the message names the file and the line.
    """
    lists = text_layouts.word_lists(source)
    if lists is None:
        return
    os.makedirs(folder_of(root, WORDS), exist_ok=True)
    for side, words in zip(Pair._fields, lists):
        words = _by_frequency(words, (getattr(pair, side) for pair in found[TRAIN]))
        numbers = {word: number for number, word in enumerate(words, UNKNOWN + 1)}
        for split, pairs in found.items():
            rows = [[numbers.get(word, UNKNOWN) for word in getattr(pair, side).split()] for pair in pairs]
            subwords.write_sequences(root, WORDS, "%s.%s" % (split, side), rows)
        if side == "target":
            # Those before the first word are no text.
            pieces.write(root, WORDS, [""] * (UNKNOWN + 1) + [pieces.SPACE + word for word in words])


def listed(texts: Sequence[str], least: int) -> List[str]:
    """Return the lines of a word list: the words that come ``least`` times in ``texts``, by falling frequency."""
    counts = collections.Counter(word for text in texts for word in text.split())
    often = [word for word, count in counts.items() if count >= least]
    return list(text_layouts.NO_WORDS) + sorted(often, key=lambda word: (-counts[word], word))


def _by_frequency(words, texts):
    counts = collections.Counter(word for text in texts for word in text.split())
    return sorted(words, key=lambda word: -counts[word])
