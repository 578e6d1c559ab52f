"""Where the searches for the largest batch stand, for who waits for an experiment."""

from collections.abc import Iterable
from typing import Any

from orchestrator.domain.expansion.bisection import Answer, most_left, step

# What differs between the tries of one search.
_OF_A_TRY = ("key", "cell_key", "per_device_batch_size", "global_batch_size", "repetition")


class Searches:
    """What the tries that have ended have answered, by search."""

    def __init__(self, runs: Iterable[dict[str, Any]]) -> None:
        self._answers: dict[str, dict[int, Answer]] = {}
        for run in runs:
            self.take(run)

    def take(self, run: dict[str, Any]) -> str | None:
        """Take note of a run that has ended; where it was a try, what its search does next, in words."""
        answer = answer_of(run)
        if answer is None:
            return None
        plan = run["plan"]
        answers = self._answers.setdefault(_search_of(plan), {})
        answers[plan["per_device_batch_size"]] = answer
        stand = step(answers)
        if stand.next is None:
            return stand.reason or f"{stand.found} is the largest that fits"
        more = most_left(answers)
        return f"next {stand.next}, at most {more} {'tries' if more > 1 else 'try'} more"


def answer_of(run: dict[str, Any]) -> Answer | None:
    """What a try came to; None of any other run, and of one that has not ended."""
    if not run["plan"]["search"] or run["state"] not in ("completed", "failed", "cancelled"):
        return None
    if run["state"] == "completed":
        return Answer.FITS
    short = run["failure"] and run["failure"]["kind"] == "out_of_memory"
    return Answer.TOO_LARGE if short else Answer.NONE


def _search_of(plan: dict[str, Any]) -> str:
    return repr(sorted((name, value) for name, value in plan.items() if name not in _OF_A_TRY))
