"""Batches of sentences with their translations for a job: synthetic ones, or those of a dataset.

A batch is (sources_NS, mask_NS, targets_NT, following_NT, shares_NT): the tokens of the sentences, filled up with
``PADDING``; 1 for tokens and 0 for padding; the translations behind ``BEGIN``, for each place the token that comes
after it, and the share of each place in a mean over all tokens of the batch's translations, 0 for padding. Sentences
and translations end with ``END``, which counts. The work is counted in sentences and in target tokens that are no
padding.
"""

import itertools
from typing import Any, Callable, Iterator, List, Sequence, Tuple

from suites.datasets import numbered
from suites.datasets import sentence_pairs as dataset
from suites.inputs import Field, evaluated_root
from suites.inputs.texts import PADDING, POOL, Drawing
from suites.quality import Examples
from suites.quality.translations import Wanted
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Batch, Size, Work

# The first numbers of the vocabulary.
BEGIN, END, SPECIAL = numbered.BEGIN, numbered.END, 3
# Judgements: lengths of sentences are log-normal with this deviation of their logarithm, as sentences of news are
# (Sichel, "On a distribution representing sentence-length in written prose", 1974); that of a translation differs from
# its source's by this deviation of their ratio's logarithm.
LENGTH_DEVIATION = 0.5
RATIO_DEVIATION = 0.15


def fields(size: Size) -> List[Field]:
    sources, targets = (size["source_tokens"],), (size["target_tokens"],)
    found = [Field("sources", "tokens", sources), Field("mask", "numbers", sources)]
    found += [Field("targets", "tokens", targets), Field("following", "tokens", targets, True)]
    return found + [Field("shares", "numbers", targets, True)]


def work(sources_NS: Array, mask_NS: Array, targets_NT: Array, following_NT: Array, shares_NT: Array) -> Work:
    return {"sentences": len(sources_NS), "target_tokens": int((shares_NT > 0).sum())}


def batches(job: Job, rank: int, size: Size, framework: str, to_tensors: Callable[..., Any]) -> Iterator[Batch]:
    """See ``suites.inputs``."""
    count, seed = job.plan.per_device_batch_size, job.plan.seed
    if job.dataset is not None:
        most = min(size["source_tokens"], size["target_tokens"]) - 1
        found = dataset.batches(job.dataset.root, count, most, known(size), seed, rank, job.world_size)
        laid_out = (of_pairs(pairs, size) for pairs in found)
        return ((to_tensors(*arrays), work(*arrays)) for arrays in laid_out)
    pool = synthetic(count, size, (seed, rank))
    return itertools.cycle([(to_tensors(*arrays), work(*arrays)) for arrays in pool])


def evaluation(job: Job, size: Size) -> Iterator[Examples]:
    """See ``suites.inputs``: whole sentences; of those for which the network has no places the end is cut off, and the
    reference is whole.

    Raises:
        TrainerError: ``setup_failed``, there are none.
    """
    found = dataset.judged(evaluated_root(job), known(size), 0, 1)
    for first in range(0, len(found.pairs), job.plan.per_device_batch_size):
        some = slice(first, first + job.plan.per_device_batch_size)
        cut = [(source[: size["source_tokens"] - 1], target) for source, target in found.pairs[some]]
        arrays = of_pairs(cut, size)
        yield Examples(arrays[:3], arrays[3:], Wanted(found.references[some], found.pieces))


def epoch_samples(job: Job, size: Size) -> int:
    """See ``suites.inputs``: the pairs that fit the size, but for those that fill no batch.

    Raises:
        TrainerError: ``setup_failed``, there is no dataset, or it cannot be read.
    """
    together = job.plan.per_device_batch_size * job.world_size
    most = min(size["source_tokens"], size["target_tokens"]) - 1
    return dataset.epoch_samples(evaluated_root(job), together, most, known(size))


def known(size: Size) -> dataset.Known:
    """Return how many tokens a model of this size knows: sub-words of one ``vocabulary`` for both sides, or words, of
    a ``source_vocabulary`` and a ``target_vocabulary``."""
    if "vocabulary" in size:
        return int(size["vocabulary"])
    return dataset.Words(size["source_vocabulary"], size["target_vocabulary"])


def synthetic(count: int, size: Size, seed: Sequence[int]) -> Iterator[Tuple[Array, ...]]:
    """Yield ``POOL`` batches of random sentences, whose tokens come as often as those of a language.

    ``size`` has ``source_tokens``, ``target_tokens``, ``tokens_mean`` and what ``known`` reads. The rest is cut.
    """
    import numpy

    generator = numpy.random.RandomState(seed)
    counts = known(size)
    sides = counts if isinstance(counts, dataset.Words) else (counts, counts)
    source, target = (Drawing(generator, count - SPECIAL) for count in sides)
    # The mean of a log-normal distribution is exp(its location + half its variance).
    location = numpy.log(size["tokens_mean"]) - 0.5 * LENGTH_DEVIATION**2
    for _ in range(POOL):
        lengths_N = generator.lognormal(location, LENGTH_DEVIATION, count)
        translated_N = lengths_N * generator.lognormal(0.0, RATIO_DEVIATION, count)
        sources_NS, mask_NS = _sentences(source, lengths_N, size["source_tokens"])
        following_NT, within_NT = _sentences(target, translated_N, size["target_tokens"])
        targets_NT = numpy.concatenate([numpy.full((count, 1), BEGIN), following_NT[:, :-1]], axis=1)
        targets_NT = numpy.where(within_NT > 0, targets_NT, PADDING)
        yield sources_NS, mask_NS, targets_NT, following_NT, within_NT / within_NT.sum()


def of_pairs(pairs: Sequence[Tuple[Array, Array]], size: Size) -> Tuple[Array, ...]:
    """Return the arrays of a batch of pairs (source, target) of tokens, without what begins and ends them."""
    import numpy

    sources_NS = numbered.padded([list(source) + [END] for source, _ in pairs], size["source_tokens"])
    targets_NT = numbered.padded([[BEGIN] + list(target) for _, target in pairs], size["target_tokens"])
    following_NT = numbered.padded([list(target) + [END] for _, target in pairs], size["target_tokens"])
    within_NT = (following_NT != PADDING).astype(numpy.float32)
    mask_NS = (sources_NS != PADDING).astype(numpy.float32)
    return sources_NS, mask_NS, targets_NT, following_NT, within_NT / within_NT.sum()


def _sentences(drawing, lengths_N, most):
    """Return (tokens, 1 where there are any) of sentences with so many tokens, ``END`` and padding."""
    import numpy

    lengths_N = numpy.clip(numpy.rint(lengths_N), 2, most).astype(numpy.int64)
    within_NT = numpy.arange(most) < lengths_N[:, None]
    tokens_NT = numpy.where(within_NT, drawing((len(lengths_N), most)) + SPECIAL, PADDING).astype(numpy.int64)
    tokens_NT[numpy.arange(len(lengths_N)), lengths_N - 1] = END
    return tokens_NT, within_NT.astype(numpy.float32)
