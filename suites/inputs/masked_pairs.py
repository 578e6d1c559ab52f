"""Batches of pairs of texts for the pre-training of BERT, for a job: synthetic ones, or those of a dataset.

A batch is (tokens_NT, segments_NT, mask_NT, places_NP, originals_NP, shares_NP, following_N): [CLS] text [SEP] text
[SEP], filled up with ``PADDING`` to T tokens; 0 for the first text and 1 for the second; 1 for tokens and 0 for
padding; the places of hidden tokens, what stood there, and the share of each in a mean over all that the batch hides, 0
where a sequence hides fewer than P; whether the second text is the one that followed. The work is counted in sequences,
in tokens that are no padding and in hidden tokens.

Source: Devlin et al., "BERT", 2019, section 3.1 and appendix A.2, and ``create_pretraining_data.py`` of the code
published with it (https://github.com/google-research/bert).
"""

import itertools
from typing import Any, Callable, Iterator, List, Sequence, Tuple

from suites.datasets import articles
from suites.inputs import Field, evaluated_root
from suites.inputs.texts import PADDING, POOL, Drawing
from suites.quality import Examples
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Batch, Size, Work

# The first numbers of the vocabulary.
BEGIN, END, HIDDEN, SPECIAL = 1, 2, 3, 4
# What stands in a pair beside its texts, and one token of each.
LEAST = 5
# Of the sequences, those that are drawn shorter, with any length (``short_seq_prob``).
SHORT_RATIO = 0.1
# Of the tokens, those that are hidden; and of these, those that become [MASK], and those that become another token.
HIDDEN_RATIO, MASKED_RATIO, OTHER_RATIO = 0.15, 0.8, 0.1


def fields(size: Size) -> List[Field]:
    tokens, hidden = (size["tokens"],), (size["predictions"],)
    found = [Field(name, "tokens", tokens) for name in ("tokens", "segments")]
    found.append(Field("mask", "numbers", tokens))
    found += [Field("places", "tokens", hidden), Field("originals", "tokens", hidden, True)]
    return found + [Field("shares", "numbers", hidden, True), Field("following", "label", (), True)]


def work(
    tokens_NT: Array,
    segments_NT: Array,
    mask_NT: Array,
    places_NP: Array,
    originals_NP: Array,
    shares_NP: Array,
    following_N: Array,
) -> Work:
    return {"sequences": len(tokens_NT), "tokens": int((mask_NT > 0).sum()), "predictions": int((shares_NP > 0).sum())}


def batches(job: Job, rank: int, size: Size, framework: str, to_tensors: Callable[..., Any]) -> Iterator[Batch]:
    """See ``suites.inputs``."""
    count, seed = job.plan.per_device_batch_size, job.plan.seed
    if job.dataset is not None:
        # [CLS] and twice [SEP] stand beside the texts.
        options = (count, size["tokens"] - 3, size["vocabulary"], seed, rank, job.world_size)
        made = of_articles(articles.batches(job.dataset.root, *options), size, (seed, rank))
        return ((to_tensors(*arrays), work(*arrays)) for arrays in made)
    pool = synthetic(count, size, (seed, rank))
    return itertools.cycle([(to_tensors(*arrays), work(*arrays)) for arrays in pool])


def epoch_samples(job: Job, size: Size) -> int:
    """See ``suites.inputs``: as many pairs as there are sentences, with each of which one begins.

    Raises:
        TrainerError: ``setup_failed``, there is no dataset, or it cannot be read.
    """
    return articles.epoch_samples(evaluated_root(job), size["vocabulary"])


def synthetic(count: int, size: Size, seed: Sequence[int]) -> Iterator[Tuple[Array, ...]]:
    """Yield ``POOL`` batches of random pairs, as long as real ones, whose tokens come as often as those of a language.

    ``size`` has ``vocabulary``, ``tokens`` (T) and ``predictions`` (P).
    """
    import numpy

    generator = numpy.random.RandomState(seed)
    drawing = Drawing(generator, size["vocabulary"] - SPECIAL)
    for _ in range(POOL):
        lengths_N = numpy.where(
            generator.random_sample(count) < SHORT_RATIO,
            generator.randint(LEAST, size["tokens"] + 1, count),
            size["tokens"],
        )
        # Where the second text begins, behind [CLS], the first one's token or more, and [SEP].
        borders_N = 3 + (generator.random_sample(count) * (lengths_N - LEAST + 1)).astype(numpy.int64)
        tokens_NT, segments_NT, mask_NT = laid_out(drawing((count, size["tokens"])) + SPECIAL, borders_N, lengths_N)
        hidden = _hide(generator, drawing, tokens_NT, size["predictions"])
        following_N = generator.randint(0, 2, count).astype(numpy.int64)
        yield (tokens_NT, segments_NT, mask_NT) + hidden + (following_N,)


def evaluation(job: Job, size: Size) -> Iterator[Examples]:
    """See ``suites.inputs``: what is hidden of a pair depends on the pair alone, and not on the others of its batch.

    Raises:
        TrainerError: ``setup_failed``, there are no texts for it.
    """
    import numpy

    pairs = articles.judged(evaluated_root(job), size["tokens"] - 3, size["vocabulary"], 0, 1)
    numbers = itertools.count()
    while True:
        some = list(itertools.islice(pairs, job.plan.per_device_batch_size))
        if not some:
            return
        laid = in_order([(pair.first, pair.second) for pair in some], size["tokens"])
        hidden = []
        for row_1T in numpy.split(laid[0], len(some)):
            generator = numpy.random.RandomState(next(numbers))
            drawing = Drawing(generator, size["vocabulary"] - SPECIAL)
            hidden.append(_hide(generator, drawing, row_1T, size["predictions"]))
        places_NP, originals_NP, shares_NP = (numpy.concatenate(arrays) for arrays in zip(*hidden))
        following_N = numpy.array([pair.follows for pair in some], numpy.int64)
        shares_NP = (shares_NP > 0) / numpy.float32((shares_NP > 0).sum())
        yield Examples(laid + (places_NP,), (originals_NP, shares_NP, following_N))


def of_articles(
    lists: Iterator[List[articles.Segments]], size: Size, seed: Sequence[int]
) -> Iterator[Tuple[Array, ...]]:
    """Yield a batch for each list of pairs of texts; ``seed`` decides what is hidden."""
    import numpy

    generator = numpy.random.RandomState(seed)
    drawing = Drawing(generator, size["vocabulary"] - SPECIAL)
    for pairs in lists:
        laid = in_order([(pair.first, pair.second) for pair in pairs], size["tokens"])
        hidden = _hide(generator, drawing, laid[0], size["predictions"])
        yield laid + hidden + (numpy.array([pair.follows for pair in pairs], numpy.int64),)


def in_order(pairs: Sequence[Tuple[Array, Array]], most: int) -> Tuple[Array, Array, Array]:
    """Return ``laid_out`` of pairs of texts, which have ``most`` - 3 tokens together at most."""
    import numpy

    placed_NT = numpy.full((len(pairs), most), PADDING, numpy.int64)
    borders_N = numpy.array([len(first) + 2 for first, _ in pairs])
    lengths_N = borders_N + numpy.array([len(second) + 1 for _, second in pairs])
    for row_T, border, (first, second) in zip(placed_NT, borders_N, pairs):
        row_T[1 : border - 1] = first
        row_T[border : border + len(second)] = second
    return laid_out(placed_NT, borders_N, lengths_N)


def laid_out(drawn_NT: Array, borders_N: Array, lengths_N: Array) -> Tuple[Array, Array, Array]:
    """Return (tokens_NT, segments_NT, mask_NT) of pairs: ``drawn_NT``, with what stands before, between and behind."""
    import numpy

    places_T, rows_N = numpy.arange(drawn_NT.shape[1]), numpy.arange(len(drawn_NT))
    within_NT = places_T < lengths_N[:, None]
    tokens_NT = numpy.where(within_NT, drawn_NT, PADDING).astype(numpy.int64)
    tokens_NT[:, 0] = BEGIN
    tokens_NT[rows_N, borders_N - 1] = END
    tokens_NT[rows_N, lengths_N - 1] = END
    segments_NT = (within_NT & (places_T >= borders_N[:, None])).astype(numpy.int64)
    return tokens_NT, segments_NT, within_NT.astype(numpy.float32)


def _hide(generator, drawing, tokens_NT, most):
    """Hide tokens in ``tokens_NT``; return (places_NP, originals_NP, shares_NP)."""
    import numpy

    places_NP = numpy.zeros((len(tokens_NT), most), numpy.int64)
    originals_NP, shares_NP = numpy.zeros_like(places_NP), numpy.zeros(places_NP.shape, numpy.float32)
    for row, tokens_T in enumerate(tokens_NT):
        offered = numpy.flatnonzero(tokens_T >= SPECIAL)
        wanted = max(1, int(round((tokens_T != PADDING).sum() * HIDDEN_RATIO)))
        chosen = numpy.sort(generator.permutation(offered)[: min(most, wanted)])
        places_NP[row, : len(chosen)], originals_NP[row, : len(chosen)] = chosen, tokens_T[chosen]
        shares_NP[row, : len(chosen)] = 1.0
        drawn = generator.random_sample(len(chosen))
        tokens_T[chosen[drawn < MASKED_RATIO]] = HIDDEN
        other = chosen[drawn >= 1.0 - OTHER_RATIO]
        tokens_T[other] = drawing(other.shape) + SPECIAL
    return places_NP, originals_NP, shares_NP / shares_NP.sum()
