"""Batches of running text: documents one behind the other, cut into pieces of equal length, in the seed's order.

Dimensions: N pieces of a batch, T tokens of a piece.
"""

from typing import Iterator, Optional, Tuple

from suites.datasets import numbered
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array


def batches(
    root: Optional[str], count: int, tokens: int, vocabulary: int, seed: int, rank: int, world_size: int
) -> Iterator[Tuple[Array, Array]]:
    """Return an endless iterator of (tokens_NT, following_NT), int64: each token, and the one that comes after it.

    Every epoch has every piece once, in another order.

    Args:
        vocabulary: how many tokens the model knows: the largest vocabulary within that is used.

    Raises:
        TrainerError: ``setup_failed``, a file is missing or damaged (the message names it), or has too little text.
    """
    size = numbered.vocabulary_of(root, vocabulary)
    text, pieces = _pieces(str(root), size, numbered.TRAIN, tokens)
    return _stream(text, tokens, count, numbered.shuffled(pieces, seed, rank, world_size))


def epoch_samples(root: Optional[str], tokens: int, vocabulary: int) -> int:
    """Return how many pieces an epoch of ``batches`` has.

    Raises:
        TrainerError: as ``batches``.
    """
    return _pieces(str(root), numbered.vocabulary_of(root, vocabulary), numbered.TRAIN, tokens)[1]


def judged(
    root: Optional[str], tokens: int, vocabulary: int, rank: int, world_size: int, split: Optional[str] = None
) -> Iterator[Tuple[Array, Array]]:
    """Yield this rank's part of the pieces that a network is judged by, each once and in their order, as batches of
    one. What does not fill a piece at the end of the text is left out.

    Args:
        split: else that of ``numbered.judged_split``.

    Raises:
        TrainerError: as ``batches``.
    """
    size = numbered.vocabulary_of(root, vocabulary)
    split = split or numbered.judged_split(str(root), size, "text")
    text, pieces = _pieces(str(root), size, split, tokens)
    return (_taken(text, tokens, [number]) for number in range(rank, pieces, world_size))


def _pieces(root, size, split, tokens):
    """Return the text of a split, and how many pieces it has."""
    text = numbered.sequences(root, size, split + ".text").tokens
    pieces = (len(text) - 1) // tokens
    if pieces < 1:
        where = numbered.path_of(root, size, split + ".text")
        raise TrainerError("setup_failed", "%s holds %d tokens, and a piece takes %d" % (where, len(text), tokens + 1))
    return text, pieces


def _stream(text, tokens, count, order):
    while True:
        yield _taken(text, tokens, [next(order)[1] for _ in range(count)])


def _taken(text, tokens, numbers):
    import numpy

    begins_N1 = tokens * numpy.array(numbers)[:, None]
    taken_NT = text[begins_N1 + numpy.arange(tokens + 1)].astype(numpy.int64)
    return numpy.ascontiguousarray(taken_NT[:, :-1]), numpy.ascontiguousarray(taken_NT[:, 1:])
