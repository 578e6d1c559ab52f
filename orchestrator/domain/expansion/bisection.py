"""The search for the largest batch as arithmetic: from the answers so far to the next batch. Imports nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

# Judgements. A batch of so many samples is no batch any more.
MOST = 2**19
# What two processes of one batch differ by is a part of what they take: whether 1000 samples fit or 1001, who can tell?
# The search ends when what is too large is larger than what fits by this part, or by one sample.
PART = 64


class Answer(StrEnum):
    FITS = "fits"
    TOO_LARGE = "too_large"
    PENDING = "pending"
    NONE = "none"  # it failed otherwise, or was cancelled: nobody knows


@dataclass(frozen=True)
class Search:
    """``found`` is the largest batch; else ``next`` is the one to be tried now, or the search waits for a try, or
    ``reason`` says why it came to nothing."""

    found: int | None = None
    next: int | None = None
    reason: str | None = None


def step(answers: Mapping[int, Answer]) -> Search:
    """Where a search stands: ``answers`` by batch."""
    fits, too_large = _bounds(answers)
    unknown = [batch for batch, answer in answers.items() if answer is Answer.NONE]
    if unknown:
        known = f"; one of {fits} fits" if fits else ""
        return Search(reason=f"the try of a batch of {unknown[0]} failed, and not for want of memory{known}")
    if Answer.PENDING in answers.values():
        return Search()
    if too_large is None:
        return Search(next=2 * fits or 1) if fits < MOST else Search(found=fits)
    if too_large - fits > _close(fits):
        return Search(next=(too_large + fits) // 2)
    return Search(found=fits) if fits else Search(reason="not even a batch of 1 fits into the memory")


def most_left(answers: Mapping[int, Answer]) -> int:
    """The most tries that a search can still take after ``answers``, none of which is pending."""
    fits, too_large = _bounds(answers)
    if too_large is not None:
        return _halvings(fits, too_large)
    doublings = MOST.bit_length() - fits.bit_length()
    # The longest one fails at the last doubling, and halves what lies below it.
    return doublings + _halvings(MOST // 2, MOST) if doublings else 0


def _halvings(fits: int, too_large: int) -> int:
    parts = -(-(too_large - fits) // _close(fits))
    return (parts - 1).bit_length()


def _close(fits: int) -> int:
    """How much larger than ``fits`` a batch may be to be the same."""
    return max(1, fits // PART)


def _bounds(answers: Mapping[int, Answer]) -> tuple[int, int | None]:
    """(the largest batch that is known to fit, 0 for none; the smallest that is too large)."""
    too_large = min((batch for batch, answer in answers.items() if answer is Answer.TOO_LARGE), default=None)
    fitting = (batch for batch, answer in answers.items() if answer is Answer.FITS)
    return max((batch for batch in fitting if too_large is None or batch < too_large), default=0), too_large
