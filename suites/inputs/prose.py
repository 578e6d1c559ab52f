"""Batches of running text for a job: synthetic ones, or those of a dataset.

A batch is (tokens_NT, following_NT): the numbers of T tokens in a row, and for each place the one that comes after it.
Texts are packed one behind the other, as for the training of GPT-2, so that there is no padding. The work is counted in
tokens, each of which is predicted once, and in sequences.
"""

import itertools
from typing import Any, Callable, Iterator, List, Sequence, Tuple

from suites.datasets import running_text
from suites.inputs import Field, evaluated_root
from suites.inputs.texts import POOL, Drawing
from suites.quality import Examples
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Batch, Size, Work


def fields(size: Size) -> List[Field]:
    return [Field("tokens", "tokens", (size["tokens"],)), Field("following", "tokens", (size["tokens"],), True)]


def work(tokens_NT: Array, following_NT: Array) -> Work:
    return {"tokens": int(following_NT.size), "sequences": len(following_NT)}


def batches(job: Job, rank: int, size: Size, framework: str, to_tensors: Callable[..., Any]) -> Iterator[Batch]:
    """See ``suites.inputs``."""
    count, seed = job.plan.per_device_batch_size, job.plan.seed
    if job.dataset is not None:
        options = (count, size["tokens"], size["vocabulary"], seed, rank, job.world_size)
        pieces = running_text.batches(job.dataset.root, *options)
        return ((to_tensors(*arrays), work(*arrays)) for arrays in pieces)
    pool = synthetic(count, size, (seed, rank))
    return itertools.cycle([(to_tensors(*arrays), work(*arrays)) for arrays in pool])


def evaluation(job: Job, size: Size) -> Iterator[Examples]:
    """See ``suites.inputs``: every token of the text once, but the first and what fills no piece at its end; each
    foreseen from those of its piece before it.

    Raises:
        TrainerError: ``setup_failed``, there is no such text.
    """
    import numpy

    pieces = running_text.judged(evaluated_root(job), size["tokens"], size["vocabulary"], 0, 1)
    while True:
        some = list(itertools.islice(pieces, job.plan.per_device_batch_size))
        if not some:
            return
        tokens_NT, following_NT = (numpy.concatenate(arrays) for arrays in zip(*some))
        yield Examples((tokens_NT,), (following_NT,))


def epoch_samples(job: Job, size: Size) -> int:
    """See ``suites.inputs``: the pieces.

    Raises:
        TrainerError: ``setup_failed``, there is no dataset, or it cannot be read.
    """
    return running_text.epoch_samples(evaluated_root(job), size["tokens"], size["vocabulary"])


def synthetic(count: int, size: Size, seed: Sequence[int]) -> Iterator[Tuple[Array, Array]]:
    """Yield ``POOL`` batches of random tokens that come as often as those of a language.

    ``size`` has ``vocabulary`` and ``tokens`` (T). Frequent tokens matter: they make the gradient of an embedding touch
    few rows again and again.
    """
    import numpy

    generator = numpy.random.RandomState(seed)
    drawing = Drawing(generator, size["vocabulary"])
    for _ in range(POOL):
        drawn_NT = drawing((count, size["tokens"] + 1)).astype(numpy.int64)
        yield numpy.ascontiguousarray(drawn_NT[:, :-1]), numpy.ascontiguousarray(drawn_NT[:, 1:])
