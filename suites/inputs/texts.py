"""Batches of labelled texts for a job: synthetic ones.

A batch is (tokens_NT, shares_NT, labels_N): the numbers of the words, filled up with ``PADDING`` to T words; each
word's share in a mean over its text, 1 / length for words and 0 for the padding; the classes. The work is counted in
texts and in the words that are no padding.
"""

import itertools
from typing import Any, Callable, Iterator, List, Sequence, Tuple

from suites.inputs import Field
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Batch, Size, Work

# Judgement: enough batches that a network does not see the same one at each step, few enough to stay in memory.
POOL = 4
PADDING = 0
# Mandelbrot's law: a word of rank r comes in proportion to 1 / (r + SHIFT). Source: Piantadosi, "Zipf's word frequency
# law in natural language", 2014, equation 2 and its fit of English.
SHIFT = 2.7
# Judgement: a headline and a sentence or two of news; lengths are normal with this deviation, in parts of the mean.
LENGTH_DEVIATION_RATIO = 0.3


def fields(size: Size) -> List[Field]:
    words = size["words"]
    return [
        Field("tokens", "tokens", (words,)),
        Field("shares", "numbers", (words,)),
        Field("labels", "label", (), True),
    ]


def work(tokens_NT: Array, shares_NT: Array, labels_N: Array) -> Work:
    return {"texts": len(labels_N), "words": int((tokens_NT != PADDING).sum())}


def batches(job: Job, rank: int, size: Size, framework: str, to_tensors: Callable[..., Any]) -> Iterator[Batch]:
    """See ``suites.inputs``."""
    pool = synthetic(job.plan.per_device_batch_size, size, (job.plan.seed, rank))
    return itertools.cycle([(to_tensors(*arrays), work(*arrays)) for arrays in pool])


def synthetic(count: int, size: Size, seed: Sequence[int]) -> Iterator[Tuple[Array, Array, Array]]:
    """Yield ``POOL`` batches of random texts with the frequencies of words and the spread of lengths of real ones.

    ``size`` has ``vocabulary`` (the padding and the words by falling frequency), ``words`` (T), ``words_mean`` and
    ``classes``. Frequent words matter: they make the gradient of an embedding touch few rows again and again.
    """
    import numpy

    generator = numpy.random.RandomState(seed)
    drawing = Drawing(generator, size["vocabulary"] - 1)
    for _ in range(POOL):
        lengths_N = generator.normal(size["words_mean"], LENGTH_DEVIATION_RATIO * size["words_mean"], count)
        lengths_N = numpy.clip(numpy.rint(lengths_N), 1, size["words"])
        drawn_NT = drawing((count, size["words"]))
        within_NT = numpy.arange(size["words"]) < lengths_N[:, None]
        tokens_NT = numpy.where(within_NT, drawn_NT + 1, PADDING)
        shares_NT = (within_NT / lengths_N[:, None]).astype(numpy.float32)
        yield tokens_NT.astype(numpy.int64), shares_NT, generator.randint(0, size["classes"], count).astype(numpy.int64)


class Drawing(object):
    """Draws words, numbered from 0 by falling frequency, as often as they come in a language.

    Args:
        generator: numpy's ``RandomState``.
        count: how many words there are.
    """

    def __init__(self, generator: Any, count: int) -> None:
        import numpy

        frequencies = 1.0 / (numpy.arange(1, count + 1) + SHIFT)
        self._generator = generator
        self._cumulated = numpy.cumsum(frequencies) / frequencies.sum()
        # It may fall short of 1 by rounding.
        self._cumulated[-1] = 1.0

    def __call__(self, shape: Sequence[int]) -> Array:
        """Return an int64 array of ``shape``."""
        return self._cumulated.searchsorted(self._generator.random_sample(shape), side="right")
