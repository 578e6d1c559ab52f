"""When a timed phase is long enough: its length is fixed before the run starts, and this keeps count.

A run that ends itself is biased: it ends when it has been lucky and lasts when it met a spike
(docs/read_results/statistics.md). So nothing here looks at how the durations vary. The job says how many intervals and
how many seconds there are to be; both are reached before the run ends, unless one of the limits that a person set is
reached first.
"""

from __future__ import annotations

import math
from typing import Any


class StoppingRule:
    """Says when the length that was planned is reached, or a limit.

    Args:
        stopping: the job's ``stopping``. ``intervals`` and ``seconds`` are the length, of timed intervals, the warm-up
            among them; without ``intervals`` there is no length and only the limits end the run. ``max_steps`` and
            ``max_duration_s`` are the limits. What is missing or null does not count.
    """

    def __init__(self, stopping: dict[str, Any]) -> None:
        self._planned = stopping.get("intervals")
        self._least_s = stopping.get("seconds") or 0.0
        self._max_steps = stopping.get("max_steps")
        self._max_duration_s = stopping.get("max_duration_s")
        self._intervals = 0
        self._steps = 0
        self._elapsed_s = 0.0
        self._decision: dict[str, Any] | None = None

    def add(self, duration_s: float, work_amount: float, n: int) -> None:
        """Take in one timed interval of ``n`` steps (of the slowest rank, where there are several).

        Raises:
            ValueError: the duration or the work is not a positive finite number.
        """
        if not (duration_s > 0 and work_amount > 0 and math.isfinite(duration_s) and math.isfinite(work_amount)):
            raise ValueError(f"an interval of {duration_s!r} s with work {work_amount!r}")
        self._intervals += 1
        self._steps += n
        self._elapsed_s += duration_s

    def decision(self) -> dict[str, Any] | None:
        """Return None to go on, else ``{"reason", "steps", "detail"}``; once made it stays.

        ``reason`` is ``length``, ``max_steps`` or ``max_duration``; ``detail`` holds what was counted and planned.
        """
        if self._decision is None:
            reason = self._reason()
            if reason is not None:
                detail = {
                    "intervals": self._intervals,
                    "elapsed_s": self._elapsed_s,
                    "planned_intervals": self._planned,
                    "planned_s": self._least_s,
                }
                self._decision = {"reason": reason, "steps": self._steps, "detail": detail}
        return self._decision

    def _reason(self) -> str | None:
        if self._planned is not None and self._intervals >= self._planned and self._elapsed_s >= self._least_s:
            return "length"
        if self._max_steps is not None and self._steps >= self._max_steps:
            return "max_steps"
        if self._max_duration_s is not None and self._elapsed_s >= self._max_duration_s:
            return "max_duration"
        return None
