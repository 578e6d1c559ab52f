"""Batches of questions about texts, in the seed's order."""

from typing import Iterator, List, NamedTuple, Optional

from suites.datasets import numbered
from workers.trainer.failure import TrainerError
from workers.trainer.signatures import Array


class Asked(NamedTuple):
    """``first`` and ``last``: the answer's tokens within the context, both included."""

    context: Array
    question: Array
    first: int
    last: int


def batches(
    root: Optional[str], count: int, most: int, vocabulary: int, seed: int, rank: int, world_size: int
) -> Iterator[List[Asked]]:
    """Return an endless iterator of lists of ``count`` questions with ``most`` tokens, context included, at most.

    A context that is too long is cut to a window about the answer, which lies as far into it as into the whole.

    Args:
        vocabulary: how many tokens the model knows: the largest vocabulary within that is used.

    Raises:
        TrainerError: ``setup_failed``, a file is missing or damaged; the message names it.
    """
    size = numbered.vocabulary_of(root, vocabulary)
    contexts, asked = (numbered.sequences(str(root), size, "train." + name) for name in ("contexts", "questions"))
    answers = numbered.array(str(root), size, "train.answers")
    if answers.ndim != 2 or len(answers) != len(asked) or answers[:, 0].max() >= len(contexts):
        path = numbered.path_of(str(root), size, "train.answers")
        raise TrainerError("setup_failed", "cannot read %s: it does not fit the questions beside it" % path)
    order = numbered.shuffled(len(asked), seed, rank, world_size)
    return _stream(contexts, asked, answers, count, most, order)


def _stream(contexts, asked, answers, count, most, order):
    while True:
        numbers = [next(order)[1] for _ in range(count)]
        found = [(contexts[answers[at][0]], asked[at], int(answers[at][1]), int(answers[at][2])) for at in numbers]
        yield [fitted(context, question, first, last, most) for context, question, first, last in found]


def fitted(context: Array, question: Array, first: int, last: int, most: int) -> Asked:
    """Return an ``Asked`` of ``most`` tokens at most: half of them, at most, are the question's."""
    question = question[: most // 2]
    room = most - len(question)
    last = min(last, first + room - 1)
    if len(context) > room:
        begin = min(len(context) - room, first * (len(context) - room) // len(context))
        begin = max(0, min(first, max(begin, last - room + 1)))
        context, first, last = context[begin : begin + room], first - begin, last - begin
    return Asked(context, question, first, last)
