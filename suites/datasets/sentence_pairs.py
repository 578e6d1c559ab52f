"""Batches of sentence pairs, alike in length, in the seed's order; and the sentences that a network is judged by."""

from typing import Iterator, List, NamedTuple, Optional, Tuple

from suites.datasets import judged as texts
from suites.datasets import numbered, pieces
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array


def batches(
    root: Optional[str], count: int, most: int, vocabulary: int, seed: int, rank: int, world_size: int
) -> Iterator[List[Tuple[Array, Array]]]:
    """Return an endless iterator of lists of ``count`` pairs (source, target) of tokens.

    Pairs of which a side has more than ``most`` tokens are left out, as is usual (Vaswani et al., 2017, limit the
    tokens of a batch; a place for the longest would be padding in all others).

    Args:
        vocabulary: how many tokens the model knows: the largest vocabulary within that is used.

    Raises:
        TrainerError: ``setup_failed``, a file is missing or damaged (the message names it), or there are too few pairs.
    """
    import numpy

    source, target = _sides(str(root), numbered.vocabulary_of(root, vocabulary), numbered.TRAIN)
    longest = numpy.maximum(source.lengths, target.lengths)
    kept = numpy.flatnonzero(longest <= most)
    lists = numbered.bucketed([int(length) for length in longest[kept]], count, seed, rank, world_size)
    return ([(source[kept[number]], target[kept[number]]) for number in numbers] for numbers in lists)


def epoch_samples(root: Optional[str], together: int, most: int, vocabulary: int) -> int:
    """Return how many pairs an epoch of ``batches`` has, of which all ranks take ``together`` at a time: without those
    that are too long, and without what fills no batch.

    Raises:
        TrainerError: as ``batches``.
    """
    import numpy

    source, target = _sides(str(root), numbered.vocabulary_of(root, vocabulary), numbered.TRAIN)
    fitting = int((numpy.maximum(source.lengths, target.lengths) <= most).sum())
    return fitting - fitting % together


class Judged(NamedTuple):
    """The sentences that a network is to translate, by length, and for each how it ought to be translated: as numbers,
    and as the text that it was."""

    split: str
    pairs: List[Tuple[Array, Array]]
    references: List[str]
    pieces: pieces.Pieces


def judged(root: Optional[str], vocabulary: int, rank: int, world_size: int, split: Optional[str] = None) -> Judged:
    """Return this rank's part of a split, whole sentences of any length.

    Args:
        vocabulary: as for ``batches``.
        split: else that of ``numbered.judged_split``. Of ``train`` the references are what its numbers say.

    Raises:
        TrainerError: ``setup_failed``, a file is missing or damaged; the message names it.
    """
    size = numbered.vocabulary_of(root, vocabulary)
    split = split or numbered.judged_split(str(root), size, "source")
    source, target = _sides(str(root), size, split)
    known = pieces.read(str(root), size)
    if split == numbered.TRAIN:
        references = [known.text(target[number]) for number in range(len(target))]
    else:
        references = texts.read(str(root), split)
        if len(references) != len(source):
            told = "the dataset holds %d sentences of %s, and %d references"
            raise TrainerError("setup_failed", told % (len(source), split, len(references)))
    order = sorted(range(len(source)), key=lambda number: (len(source[number]), number))[rank::world_size]
    pairs = [(source[number], target[number]) for number in order]
    return Judged(split, pairs, [references[number] for number in order], known)


def _sides(root, size, split):
    source, target = (numbered.sequences(root, size, "%s.%s" % (split, side)) for side in ("source", "target"))
    if len(source) != len(target):
        paths = [numbered.path_of(root, size, "%s.%s" % (split, side)) for side in ("source", "target")]
        told = "%s and %s hold %d and %d sentences"
        raise TrainerError("setup_failed", told % (paths[0], paths[1], len(source), len(target)))
    return source, target
