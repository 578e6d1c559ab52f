"""Batches of sentence pairs, alike in length, in the seed's order."""

from typing import Iterator, List, Optional, Tuple

from suites.datasets import numbered
from workers.trainer.failure import TrainerError
from workers.trainer.signatures import Array


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

    size = numbered.vocabulary_of(root, vocabulary)
    source, target = (numbered.sequences(str(root), size, "train." + side) for side in ("source", "target"))
    if len(source) != len(target):
        paths = [numbered.path_of(str(root), size, "train." + side) for side in ("source", "target")]
        told = "%s and %s hold %d and %d sentences"
        raise TrainerError("setup_failed", told % (paths[0], paths[1], len(source), len(target)))
    longest = numpy.maximum(source.lengths, target.lengths)
    kept = numpy.flatnonzero(longest <= most)
    lists = numbered.bucketed([int(length) for length in longest[kept]], count, seed, rank, world_size)
    return ([(source[kept[number]], target[kept[number]]) for number in numbers] for numbers in lists)
