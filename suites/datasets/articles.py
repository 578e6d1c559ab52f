"""Pairs of text segments for BERT's pre-training: the second follows the first, or is from another article.

Source: Devlin et al., "BERT", 2019, section 3.1 (next sentence prediction) and appendix A.2: a segment is a run of
whole sentences, and the second is the true one every other time.
"""

import random
from typing import Iterator, List, NamedTuple, Optional

from suites.datasets import numbered
from workers.trainer.failure import TrainerError
from workers.trainer.signatures import Array


class Segments(NamedTuple):
    """``draw`` seeds what else a sample needs, such as which tokens are hidden."""

    first: Array
    second: Array
    follows: bool
    draw: str


def batches(
    root: Optional[str], count: int, most: int, vocabulary: int, seed: int, rank: int, world_size: int
) -> Iterator[List[Segments]]:
    """Return an endless iterator of lists of ``count`` ``Segments`` with ``most`` tokens together at most.

    Each epoch begins once at every article, in another order, at a sentence that is drawn.

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
    starts = [0] + [int(end) for end in ends[:-1]]
    order = numbered.shuffled(len(ends), seed, rank, world_size)
    return _stream(sentences, [range(*span) for span in zip(starts, ends)], count, most, seed, order)


def _stream(sentences, articles, count, most, seed, order):
    while True:
        taken = [next(order) for _ in range(count)]
        draws = ["%s/%s/%s" % (seed, epoch, number) for epoch, number in taken]
        yield [_segments(sentences, articles, at[1], most, draw) for at, draw in zip(taken, draws)]


def _segments(sentences, articles, number, most, draw):
    generator = random.Random(draw)
    article = articles[number]
    begin = generator.choice(article)
    room = generator.randint(most // 4, most - most // 4)
    first, after = _run(sentences, article, begin, room)
    follows = after < article.stop and generator.random() < 0.5
    where = article
    if not follows:
        other = generator.randrange(max(1, len(articles) - 1))
        where = articles[other + (other >= number) if len(articles) > 1 else 0]
        after = generator.choice(where)
    second, _ = _run(sentences, where, after, most - len(first))
    return Segments(first, second, follows, draw)


def _run(sentences, article, begin, room):
    """Return the tokens of whole sentences from ``begin`` on that find room, one at least and cut if need be, and the
    sentence after them."""
    import numpy

    taken = [sentences[begin]]
    at = begin + 1
    while at < article.stop and sum(map(len, taken)) + len(sentences[at]) <= room:
        taken.append(sentences[at])
        at += 1
    return numpy.concatenate(taken)[:room], at
