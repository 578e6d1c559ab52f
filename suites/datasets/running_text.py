"""Batches of running text: documents one behind the other, cut into pieces of equal length, in the seed's order.

Dimensions: N pieces of a batch, T tokens of a piece.
"""

from typing import Iterator, Optional, Tuple

from suites.datasets import numbered
from workers.trainer.failure import TrainerError
from workers.trainer.signatures import Array


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
    text = numbered.sequences(str(root), size, "train.text").tokens
    pieces = (len(text) - 1) // tokens
    if pieces < 1:
        where = numbered.path_of(str(root), size, "train.text")
        raise TrainerError("setup_failed", "%s holds %d tokens, and a piece takes %d" % (where, len(text), tokens + 1))
    return _stream(text, tokens, count, numbered.shuffled(pieces, seed, rank, world_size))


def _stream(text, tokens, count, order):
    import numpy

    while True:
        begins_N1 = numpy.array([[next(order)[1] * tokens] for _ in range(count)])
        taken_NT = text[begins_N1 + numpy.arange(tokens + 1)].astype(numpy.int64)
        yield numpy.ascontiguousarray(taken_NT[:, :-1]), numpy.ascontiguousarray(taken_NT[:, 1:])
