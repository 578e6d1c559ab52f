"""Which of many subjects in a row was the first to be slower: a binary search whose questions are confirmations.

The first of the row is known to be fast and the last one to be slow; that is asked first, and tells how much slower.
Then the one in the middle of those that may be the first is held against the fast one, for most of that loss.
Each question has one right answer, and is told another one in at most ``level`` of cases: so a search is wrong in at
most ``WRONG``, by Bonferroni's inequality, whatever its questions have to do with each other. It supposes that one of
them made it slower, and none fast again.
"""

from dataclasses import dataclass, replace

from orchestrator.analysis.gate.confirmation import LEAST_ASKED

MOST = 1000  # in a row: a judgement
WRONG = 0.05  # of searches, at most
MOST_WRONG = 0.01  # of a question, however few there are
# Of the loss of the whole row, by simulation (``bench/gate.py``): a confirmation of a candidate, which was chosen for
# its loss, asks for less.
ASKED_SHARE = 0.85


@dataclass(frozen=True)
class Search:
    """Where a search stands, by places in the row.

    Attributes:
        fast: the last that is no slower; ``slow``: the first that is known to be.
        passed_over: those that gave no numbers, or did not tell.
    """

    fast: int
    slow: int
    passed_over: frozenset[int] = frozenset()

    def next(self) -> int | None:
        """The place to be asked next, nearest the middle; None where none is left."""
        middle = (self.fast + self.slow) / 2
        left = [one for one in range(self.fast + 1, self.slow) if one not in self.passed_over]
        return min(left, key=lambda one: (abs(one - middle), one), default=None)

    def after(self, place: int, answer: str) -> "Search":
        """The search after ``place`` was held against the fast one with that answer (``confirmation.Answer``)."""
        if answer == "slower":
            return replace(self, slow=place)
        if answer == "no_such_loss":
            return replace(self, fast=place)
        return replace(self, passed_over=self.passed_over | {place})

    def suspects(self) -> range:
        """Those that may be the first slower one: one of them, unless some between were passed over."""
        return range(self.fast + 1, self.slow + 1)


def begin(count: int) -> Search:
    """A search in a row of ``count`` subjects.

    Raises:
        ValueError: there are fewer than two, or more than ``MOST``.
    """
    if not 2 <= count <= MOST:
        raise ValueError(f"a search is among 2 to {MOST} subjects, not among {count}")
    return Search(0, count - 1)


def questions(count: int) -> int:
    """How many confirmations a search among ``count`` takes at most, where none is passed over."""
    return 1 + (count - 2).bit_length()


def level(count: int) -> float:
    """In how many cases a question of a search among ``count`` may be answered wrongly, either way."""
    return min(WRONG / questions(count), MOST_WRONG)


def asked(effect: float) -> float:
    """The loss to ask for, as a ratio, where the slow end is ``effect`` (new / old - 1) against the fast one."""
    return min(max(ASKED_SHARE * -effect, LEAST_ASKED), 0.99)
