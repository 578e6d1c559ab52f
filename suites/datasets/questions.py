"""Batches of questions about texts, in the seed's order; and the questions that a network is judged by."""

from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from suites.datasets import judged as texts
from suites.datasets import numbered
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array

# Of the room that a passage has, how far the next window of it is ahead: ``doc_stride`` of run_squad.py, published with
# BERT, is 128 of some 360 tokens.
STRIDE_RATIO = 1.0 / 3.0


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
    contexts, asked, answers = _arrays(str(root), size, numbered.TRAIN)
    order = numbered.shuffled(len(asked), seed, rank, world_size)
    return _stream(contexts, asked, answers, count, most, order)


def epoch_samples(root: Optional[str], vocabulary: int) -> int:
    """Return how many questions an epoch of ``batches`` has.

    Raises:
        TrainerError: as ``batches``.
    """
    return len(_arrays(str(root), numbered.vocabulary_of(root, vocabulary), numbered.TRAIN)[1])


def _arrays(root, size, split):
    contexts, asked = (numbered.sequences(root, size, "%s.%s" % (split, name)) for name in ("contexts", "questions"))
    answers = numbered.array(root, size, split + ".answers")
    if answers.ndim != 2 or len(answers) != len(asked) or answers[:, 0].max() >= len(contexts):
        _misfit(numbered.path_of(root, size, split + ".answers"))
    return contexts, asked, answers


def _misfit(path):
    raise TrainerError("setup_failed", "cannot read %s: it does not fit the questions beside it" % path)


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


class Window(NamedTuple):
    """A part of the context of the question ``number``; ``begin``: the place of its first token in the whole."""

    number: int
    question: Array
    context: Array
    begin: int


class Judged(object):
    """The questions that a network is judged by.

    ``numbers``: those of this rank. Whole contexts are looked through, in windows: where an answer is may not be known.
    """

    def __init__(self, split: str, arrays: Sequence[Array], found: Dict[str, List], numbers: Sequence[int]) -> None:
        self.split = split
        self.numbers = numbers
        self._contexts, self._asked, self._answers, self._characters = arrays
        self._texts, self._gold = found["contexts"], found["answers"]

    def windows(self, number: int, most: int) -> List[Window]:
        """Return the windows of a question's context, each with the question ``most`` tokens at most."""
        question, context = self._asked[number][: most // 2], self._contexts[self._answers[number][0]]
        room = most - len(question)
        stride = max(1, int(room * STRIDE_RATIO))
        last = max(0, len(context) - room)
        begins = list(range(0, last, stride)) + [last]
        return [Window(number, question, context[begin : begin + room], begin) for begin in begins]

    def answer(self, window: Window) -> Optional[Tuple[int, int]]:
        """Return the first and the last token of the answer within a window, if it is there."""
        first, last = (int(at) - window.begin for at in self._answers[window.number][1:])
        return (first, last) if 0 <= first <= last < len(window.context) else None

    def text(self, number: int, first: int, last: int) -> str:
        """Return the text of the tokens ``first`` to ``last``, both included, of the context of a question."""
        context = int(self._answers[number][0])
        before = int(self._contexts.ends[context - 1]) if context else 0
        begin, end = self._characters[before + first][0], self._characters[before + last][1]
        return self._texts[context][int(begin) : int(end)].strip()

    def gold(self, number: int) -> List[str]:
        """Return all right answers to a question."""
        return self._gold[number]


def judged(root: Optional[str], vocabulary: int, rank: int, world_size: int, split: Optional[str] = None) -> Judged:
    """Return this rank's part of the questions of a split, in their order.

    Args:
        vocabulary: as for ``batches``.
        split: else that of ``numbered.judged_split``.

    Raises:
        TrainerError: ``setup_failed``, a file is missing or damaged; the message names it.
    """
    size = numbered.vocabulary_of(root, vocabulary)
    split = split or numbered.judged_split(str(root), size, "questions")
    contexts, asked, answers = _arrays(str(root), size, split)
    characters = numbered.array(str(root), size, split + ".characters")
    if characters.shape != (len(contexts.tokens), 2):
        _misfit(numbered.path_of(str(root), size, split + ".characters"))
    found = texts.read(str(root), split)
    if [len(found[name]) for name in ("contexts", "answers")] != [len(contexts), len(asked)]:
        _misfit(texts.path_of(str(root), split))
    return Judged(split, (contexts, asked, answers, characters), found, range(rank, len(asked), world_size))
