"""Batches of questions whose answers stand in a passage, for the fine-tuning of BERT: synthetic ones, or a dataset's.

A batch is (tokens_NT, segments_NT, mask_NT, begins_N, ends_N): [CLS] question [SEP] passage [SEP] as in
``masked_pairs``, with nothing hidden; the places of the first and of the last token of the answer. The work is counted
in sequences and in tokens that are no padding.

Source: Devlin et al., "BERT", 2019, section 4.2, and ``run_squad.py`` of the code published with it.
"""

import itertools
from typing import Any, Callable, Iterator, List, Sequence, Tuple

from suites.datasets import questions as asked
from suites.inputs import Field, evaluated_root
from suites.inputs.masked_pairs import SPECIAL, in_order, laid_out
from suites.inputs.texts import POOL, Drawing
from suites.quality import Examples
from suites.quality.spans import Passages, Round
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Batch, Size, Work

# Judgement: lengths are normal with this deviation, in parts of the mean; an answer has three tokens on average
# (Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text", 2016: mostly names, dates, numbers).
LENGTH_DEVIATION_RATIO = 0.35
ANSWER_MEAN = 3.0


def fields(size: Size) -> List[Field]:
    tokens = (size["tokens"],)
    found = [Field(name, "tokens", tokens) for name in ("tokens", "segments")]
    found.append(Field("mask", "numbers", tokens))
    return found + [Field(name, "label", (), True) for name in ("begins", "ends")]


def work(tokens_NT: Array, segments_NT: Array, mask_NT: Array, begins_N: Array, ends_N: Array) -> Work:
    return {"sequences": len(tokens_NT), "tokens": int((mask_NT > 0).sum())}


def batches(job: Job, rank: int, size: Size, framework: str, to_tensors: Callable[..., Any]) -> Iterator[Batch]:
    """See ``suites.inputs``."""
    count, seed = job.plan.per_device_batch_size, job.plan.seed
    if job.dataset is not None:
        # [CLS] and twice [SEP] stand beside the texts.
        options = (count, size["tokens"] - 3, size["vocabulary"], seed, rank, job.world_size)
        made = of_asked(asked.batches(job.dataset.root, *options), size["tokens"])
        return ((to_tensors(*arrays), work(*arrays)) for arrays in made)
    pool = synthetic(count, size, (seed, rank))
    return itertools.cycle([(to_tensors(*arrays), work(*arrays)) for arrays in pool])


def of_asked(lists: Iterator[List[asked.Asked]], most: int) -> Iterator[Tuple[Array, ...]]:
    """Yield a batch of ``most`` tokens a sequence for each list of questions."""
    import numpy

    for questions in lists:
        pairs = in_order([(one.question, one.context) for one in questions], most)
        borders_N = numpy.array([len(one.question) + 2 for one in questions])
        begins_N = borders_N + numpy.array([one.first for one in questions])
        ends_N = borders_N + numpy.array([one.last for one in questions])
        yield pairs + (begins_N.astype(numpy.int64), ends_N.astype(numpy.int64))


def evaluation(job: Job, size: Size) -> Iterator[Examples]:
    """See ``suites.inputs``: questions with the windows of their passages. The batch itself has the first window of
    each; where the answer is not in it, its loss is that of an answer at [CLS], as in ``run_squad.py``.

    Raises:
        TrainerError: ``setup_failed``, there are none.
    """
    found = asked.judged(evaluated_root(job), size["vocabulary"], 0, 1)
    # By how many windows they have: else most questions of a batch would wait for the longest passage.
    all_windows = sorted((found.windows(number, size["tokens"] - 3) for number in found.numbers), key=len)
    for first in range(0, len(all_windows), job.plan.per_device_batch_size):
        windows = all_windows[first : first + job.plan.per_device_batch_size]
        rounds = []
        for at in range(max(map(len, windows))):
            some = [of_one[min(at, len(of_one) - 1)] for of_one in windows]
            rounds.append(Round(some, in_order([(one.question, one.context) for one in some], size["tokens"])))
        targets = _ends([found.answer(window) for window in rounds[0].windows], rounds[0].windows)
        yield Examples(rounds[0].inputs, targets, Passages(found, rounds))


def _ends(answers, windows):
    """Return (begins_N, ends_N): the places of the answers, or that of [CLS]."""
    import numpy

    borders_N = [len(window.question) + 2 for window in windows]
    places = [[border + at for at in one] if one else [0, 0] for one, border in zip(answers, borders_N)]
    begins_N, ends_N = numpy.array(places, numpy.int64).T
    return begins_N.copy(), ends_N.copy()


def epoch_samples(job: Job, size: Size) -> int:
    """See ``suites.inputs``: the questions.

    Raises:
        TrainerError: ``setup_failed``, there is no dataset, or it cannot be read.
    """
    return asked.epoch_samples(evaluated_root(job), size["vocabulary"])


def synthetic(count: int, size: Size, seed: Sequence[int]) -> Iterator[Tuple[Array, ...]]:
    """Yield ``POOL`` batches of random questions and passages.

    ``size`` has ``vocabulary``, ``tokens`` (T; what is longer is cut), ``question_mean`` and ``passage_mean``.
    """
    import numpy

    generator = numpy.random.RandomState(seed)
    drawing = Drawing(generator, size["vocabulary"] - SPECIAL)

    def lengths(mean, most):
        drawn_N = generator.normal(mean, LENGTH_DEVIATION_RATIO * mean, count)
        return numpy.clip(numpy.rint(drawn_N), 1, most).astype(numpy.int64)

    for _ in range(POOL):
        borders_N = 2 + lengths(size["question_mean"], size["tokens"] // 2)
        lengths_N = borders_N + lengths(size["passage_mean"], size["tokens"] - borders_N - 1) + 1
        pairs = laid_out(drawing((count, size["tokens"])) + SPECIAL, borders_N, lengths_N)
        begins_N = borders_N + (generator.random_sample(count) * (lengths_N - 1 - borders_N)).astype(numpy.int64)
        ends_N = numpy.minimum(begins_N + generator.geometric(1.0 / ANSWER_MEAN, count) - 1, lengths_N - 2)
        yield pairs + (begins_N, ends_N.astype(numpy.int64))
