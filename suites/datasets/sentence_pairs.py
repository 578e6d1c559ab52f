"""Batches of sentence pairs, alike in length, in the seed's order; and the sentences that a network is judged by."""

import os
from typing import Iterator, List, NamedTuple, Optional, Tuple, Union

from suites.datasets import judged as texts
from suites.datasets import numbered, pieces
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array


class Words(NamedTuple):
    """How many words a model knows of each side, with what is no text, which comes first."""

    source: int
    target: int


# How many sub-words a model knows, or the words.
Known = Union[int, Words]


def batches(
    root: Optional[str], count: int, most: int, known: Known, seed: int, rank: int, world_size: int
) -> Iterator[List[Tuple[Array, Array]]]:
    """Return an endless iterator of lists of ``count`` pairs (source, target) of tokens.

    Pairs of which a side has more than ``most`` tokens are left out, as is usual (Vaswani et al., 2017, limit the
    tokens of a batch; a place for the longest would be padding in all others).

    Args:
        known: how many tokens the model knows: of sub-words the largest vocabulary within that is used.

    Raises:
        TrainerError: ``setup_failed``, a file is missing or damaged (the message names it), or there are too few pairs.
    """
    import numpy

    source, target = _sides(root, known, numbered.TRAIN)
    longest = numpy.maximum(source.lengths, target.lengths)
    kept = numpy.flatnonzero(longest <= most)
    lists = numbered.bucketed([int(length) for length in longest[kept]], count, seed, rank, world_size)
    return ([(source[kept[number]], target[kept[number]]) for number in numbers] for numbers in lists)


def epoch_samples(root: Optional[str], together: int, most: int, known: Known) -> int:
    """Return how many pairs an epoch of ``batches`` has, of which all ranks take ``together`` at a time: without those
    that are too long, and without what fills no batch.

    Raises:
        TrainerError: as ``batches``.
    """
    import numpy

    source, target = _sides(root, known, numbered.TRAIN)
    fitting = int((numpy.maximum(source.lengths, target.lengths) <= most).sum())
    return fitting - fitting % together


class Judged(NamedTuple):
    """The sentences that a network is to translate, by length, and for each how it ought to be translated: as numbers,
    and as the text that it was."""

    split: str
    pairs: List[Tuple[Array, Array]]
    references: List[str]
    pieces: pieces.Pieces


def judged(root: Optional[str], known: Known, rank: int, world_size: int, split: Optional[str] = None) -> Judged:
    """Return this rank's part of a split, whole sentences of any length.

    Args:
        known: as for ``batches``.
        split: else that of ``numbered.judged_split``. Of ``train`` the references are what its numbers say.

    Raises:
        TrainerError: ``setup_failed``, a file is missing or damaged; the message names it.
    """
    vocabulary = _vocabulary(root, known)
    split = split or numbered.judged_split(str(root), vocabulary, "source")
    source, target = _sides(root, known, split)
    spelled = pieces.read(str(root), vocabulary)
    if split == numbered.TRAIN:
        references = [spelled.text(target[number]) for number in range(len(target))]
    else:
        references = texts.read(str(root), split)
        if len(references) != len(source):
            told = "the dataset holds %d sentences of %s, and %d references"
            raise TrainerError("setup_failed", told % (len(source), split, len(references)))
    order = sorted(range(len(source)), key=lambda number: (len(source[number]), number))[rank::world_size]
    pairs = [(source[number], target[number]) for number in order]
    return Judged(split, pairs, [references[number] for number in order], spelled)


def _vocabulary(root, known):
    """Return the vocabulary whose numbers a model reads.

    Raises:
        TrainerError: ``setup_failed``, the dataset has none for it.
    """
    if not isinstance(known, Words):
        return numbered.vocabulary_of(root, known)
    if root is None or not os.path.isdir(numbered.folder_of(root, numbered.WORDS)):
        told = "%s has no numbers of words: beside train.en and train.vi, say, the dataset needs vocab.en and vocab.vi"
        raise TrainerError("setup_failed", told % (root or "the dataset"))
    return numbered.WORDS


def _sides(root, known, split):
    root, vocabulary = str(root), _vocabulary(root, known)
    limits = known if isinstance(known, Words) else (None, None)
    names = ["%s.%s" % (split, side) for side in Words._fields]
    source, target = (numbered.sequences(root, vocabulary, *pair) for pair in zip(names, limits))
    if len(source) != len(target):
        paths = [numbered.path_of(root, vocabulary, name) for name in names]
        told = "%s and %s hold %d and %d sentences"
        raise TrainerError("setup_failed", told % (paths[0], paths[1], len(source), len(target)))
    return source, target
