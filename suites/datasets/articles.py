"""Pairs of text segments for BERT's pre-training: the second follows the first, or is from another article.

Source: Devlin et al., "BERT", 2019, section 3.1 (next sentence prediction) and appendix A.2: a segment is a run of
whole sentences, and the second is the true one every other time.
"""

import random
from typing import Iterator, List, NamedTuple, Optional

from suites.datasets import numbered
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array

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
    sentences, ends = _arrays(str(root), size, numbered.TRAIN)
    order = numbered.shuffled(len(sentences), seed, rank, world_size)
    return _stream(sentences, ends, count, most, seed, order)


def epoch_samples(root: Optional[str], vocabulary: int) -> int:
    """Return how many pairs an epoch of ``batches`` has: as many as there are sentences.

    Raises:
        TrainerError: as ``batches``.
    """
    return len(_arrays(str(root), numbered.vocabulary_of(root, vocabulary), numbered.TRAIN)[0])


def judged(
    root: Optional[str], most: int, vocabulary: int, rank: int, world_size: int, split: Optional[str] = None
) -> Iterator[Segments]:
    """Yield this rank's part of the pairs that a network is judged by: they begin in the order of the text, one every
    ``most`` tokens or where an article ends.

    Args:
        split: else that of ``numbered.judged_split``.

    Raises:
        TrainerError: as ``batches``.
    """
    size = numbered.vocabulary_of(root, vocabulary)
    split = split or numbered.judged_split(str(root), size, "sentences")
    sentences, ends = _arrays(str(root), size, split)
    begin = number = 0
    while begin < len(sentences):
        if number % world_size == rank:
            yield _segments(sentences, ends, begin, most, "judged/%d" % number)
        begin = _run(sentences, begin, _stop(ends, begin), most)[1]
        number += 1


def _arrays(root, size, split):
    sentences = numbered.sequences(root, size, split + ".sentences")
    ends = numbered.array(root, size, split + ".documents")
    if not len(ends) or ends[-1] != len(sentences):
        path = numbered.path_of(root, size, split + ".documents")
        raise TrainerError("setup_failed", "cannot read %s: it does not fit the sentences beside it" % path)
    return sentences, ends


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
