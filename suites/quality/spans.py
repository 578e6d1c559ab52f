"""How well the answers to questions are found in passages: SQuAD's exact match and F1.

Source of both: Rajpurkar et al., "SQuAD: 100,000+ Questions for Machine Comprehension of Text", 2016, section 6.1, and
its official evaluation script, version 1.1, whose normalisation of answers is written anew here. The answer that is
judged is the best one over all windows of a passage, as Devlin et al., "BERT", 2019, section 4.2, choose it: the
greatest sum of both ends' logits, the end not before the begin, and not longer than ``run_squad.py`` allows.

Dimensions: N windows, T tokens of each.
"""

import collections
import re
import string
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from suites.datasets.questions import Judged, Window
from suites.quality import Examples
from workers.trainer.base.signatures import Array

# ``max_answer_length`` of run_squad.py, published with BERT.
MOST_TOKENS = 30

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = {ord(character): None for character in string.punctuation}


def normalised(text: str) -> str:
    """Return ``text`` in lower case, without punctuation and articles, its words one space apart."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact(answer: str, gold: Sequence[str]) -> float:
    """Return 1 if ``answer`` is one of the ``gold`` answers once both are normalised, else 0."""
    return float(any(normalised(answer) == normalised(one) for one in gold))


def f1(answer: str, gold: Sequence[str]) -> float:
    """Return the greatest F1 of the words of ``answer`` against those of a ``gold`` one, 0 to 1."""
    return max(_f1(normalised(answer).split(), normalised(one).split()) for one in gold)


def _f1(found: List[str], wanted: List[str]) -> float:
    common = sum((collections.Counter(found) & collections.Counter(wanted)).values())
    if not common:
        return 0.0
    precision, recall = common / len(found), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def counted(answers: Iterable[Tuple[str, Sequence[str]]]) -> Dict[str, float]:
    """Return {n, exact, f1} of pairs (answer, gold answers): sums over questions."""
    found = {"n": 0.0, "exact": 0.0, "f1": 0.0}
    for answer, gold in answers:
        found["n"] += 1
        found["exact"] += exact(answer, gold)
        found["f1"] += f1(answer, gold)
    return found


class Round(NamedTuple):
    """A window of each question of a batch, and what the network is given of them."""

    windows: Sequence[Window]
    inputs: Tuple[Array, ...]


class Passages(NamedTuple):
    """What a batch of questions is judged by. ``rounds``: the first has the batch's own inputs, the others what more
    windows there are; a question that has fewer has its last one again."""

    judged: Judged
    rounds: Sequence[Round]


def sums(outputs: Sequence[Any], examples: Examples, compute: Callable[..., Any]) -> Dict[str, float]:
    """Return {n, exact, f1} of the questions of a batch; ``examples.references`` is an ``Passages``.

    ``outputs`` has logits_NT2: for each token, that the answer begins there, and that it ends there.
    """
    asked = examples.references  # type: Any
    found = {}  # type: Dict[int, Tuple[Span, int]]
    for number, one in enumerate(asked.rounds):
        logits_NT2 = (compute(one.inputs) if number else outputs)[0]
        # Behind [CLS], the question and [SEP].
        firsts = [len(window.question) + 2 for window in one.windows]
        lasts = [first + len(window.context) - 1 for first, window in zip(firsts, one.windows)]
        spans = best_spans(logits_NT2[:, :, 0], logits_NT2[:, :, 1], firsts, lasts)
        for window, first, span in zip(one.windows, firsts, spans):
            if window.number not in found or span.score > found[window.number][0].score:
                found[window.number] = span, window.begin - first
    return counted(
        (asked.judged.text(number, span.begin + shift, span.end + shift), asked.judged.gold(number))
        for number, (span, shift) in found.items()
    )


def value(sums: Mapping[str, float]) -> float:
    """Return the mean F1 of the questions, 0 to 1."""
    return sums["f1"] / sums["n"]


class Span(NamedTuple):
    """``score``: the sum of both logits. ``begin`` and ``end``: places in the window, both included."""

    score: float
    begin: int
    end: int


def best_spans(
    begins_NT: Array, ends_NT: Array, firsts_N: Sequence[int], lasts_N: Sequence[int], most: int = MOST_TOKENS
) -> List[Span]:
    """Return the best span of each window: of ``most`` tokens at most, from its place ``first`` to ``last``, where the
    passage lies.

    Args:
        begins_NT: logits that the answer begins at a place; ``ends_NT``: that it ends there.
    """
    import numpy

    rows_N, places_T = numpy.arange(len(begins_NT)), numpy.arange(begins_NT.shape[1])
    inside_NT = (places_T >= numpy.asarray(firsts_N)[:, None]) & (places_T <= numpy.asarray(lasts_N)[:, None])
    begins_NT, ends_NT = (
        numpy.where(inside_NT, logits_NT.astype(numpy.float64), -numpy.inf) for logits_NT in (begins_NT, ends_NT)
    )
    scores_N = numpy.full(len(rows_N), -numpy.inf)
    found_N = numpy.array(firsts_N)
    more_N = numpy.zeros_like(found_N)
    for more in range(min(most, len(places_T))):
        sums_NT = begins_NT[:, : len(places_T) - more] + ends_NT[:, more:]
        at_N = sums_NT.argmax(axis=1)
        better_N = sums_NT[rows_N, at_N] > scores_N
        scores_N[better_N], found_N[better_N] = sums_NT[rows_N, at_N][better_N], at_N[better_N]
        more_N[better_N] = more
    return [Span(float(score), int(at), int(at + more)) for score, at, more in zip(scores_N, found_N, more_N)]
