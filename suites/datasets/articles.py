"""Pairs of text segments for BERT's pre-training: the second follows the first, or is from another article.

Source: Devlin et al., "BERT", 2019, section 3.1 (next sentence prediction) and appendix A.2: a segment is a run of
whole sentences, and the second is the true one every other time.
"""

import random
from typing import Iterator, List, NamedTuple, Optional

from suites.datasets import numbered
from workers.trainer.failure import TrainerError
from workers.trainer.signatures import Array

# Of the samples, those that are drawn shorter (``short_seq_prob`` of create_pretraining_data.py, published with BERT).
SHORT_RATIO = 0.1


class Segments(NamedTuple):
    """``draw`` seeds what else a sample needs, such as which tokens are hidden."""

    first: Array
    second: Array
    follows: bool
    draw: str


def batches(
    root: Optional[str], count: int, most: int, vocabulary: int, seed: int, rank: int, world_size: int
) -> Iterator[List[Segments]]:
    """Return an endless iterator of lists of ``count`` ``Segments`` with ``most`` tokens together at most: as many, but
    for a tenth that is drawn shorter, and where an article ends.

    Each epoch begins once at every sentence, in another order.

    Args:
        vocabulary: how many tokens the model knows: the largest vocabulary within that is used.

    Raises:
        TrainerError: ``setup_failed``, a file is missing or damaged; the message names it.
    """
    size = numbered.vocabulary_of(root, vocabulary)
    sentences = numbered.sequences(str(root), size, "train.sentences")
    ends = numbered.array(str(root), size, "train.documents")
    if not len(ends) or ends[-1] != len(sentences):
        path = numbered.path_of(str(root), size, "train.documents")
        raise TrainerError("setup_failed", "cannot read %s: it does not fit the sentences beside it" % path)
    order = numbered.shuffled(len(sentences), seed, rank, world_size)
    return _stream(sentences, ends, count, most, seed, order)


def _stream(sentences, ends, count, most, seed, order):
    while True:
        taken = [next(order) for _ in range(count)]
        draws = ["%s/%s/%s" % (seed, epoch, number) for epoch, number in taken]
        yield [_segments(sentences, ends, at[1], most, draw) for at, draw in zip(taken, draws)]


def _segments(sentences, ends, begin, most, draw):
    generator = random.Random(draw)
    if generator.random() < SHORT_RATIO:
        most = generator.randint(2, most)
    stop = _stop(ends, begin)
    first, after = _run(sentences, begin, stop, generator.randint(1, most - 1))
    follows = after < stop and generator.random() < 0.5
    if not follows:
        after = _elsewhere(sentences, ends, stop, generator)
    second, _ = _run(sentences, after, _stop(ends, after), most - len(first))
    return Segments(first, second, follows, draw)


def _stop(ends, sentence):
    """Return where the article of a sentence ends."""
    return int(ends[ends.searchsorted(sentence, side="right")])


def _elsewhere(sentences, ends, stop, generator):
    """Return a sentence of another article than the one that ends at ``stop``, if there is another."""
    while True:
        other = generator.randrange(len(sentences))
        if _stop(ends, other) != stop or len(ends) == 1:
            return other


def _run(sentences, begin, stop, room):
    """Return the tokens of sentences from ``begin`` on, the last one cut where the room ends; and what is next."""
    import numpy

    taken = []
    at = begin
    while at < stop and sum(map(len, taken)) < room:
        taken.append(sentences[at])
        at += 1
    return numpy.concatenate(taken)[:room], at
