"""How long the next interval is: the decisions of rank 0, as functions of what was measured so far. No clock.

The warm-up here is no measurement of steady state, which the analysis finds for itself in the timed intervals. It only
keeps out the first steps, in which a framework compiles and allocates, and finds how many steps make an interval.
"""

import fractions
import math
from typing import Optional

from workers.trainer.base.signatures import Proposal

# Judgement: an interval may at most grow tenfold at once, because the first steps are slower than those that follow.
LARGEST_GROWTH = 10.0
# Judgement: aim a little beyond the least duration, so that the next interval is not just too short again.
MARGIN = 1.1


def steps_of(epochs: float, samples: int, batch: int) -> int:
    """Return how many steps ``epochs`` are at least, where an epoch has ``samples`` and a step of all ranks ``batch``.

    ``epochs`` counts as it is written in decimals: 0.07 of 100 samples are 7, and in binary a little more.
    """
    return int(math.ceil(fractions.Fraction(repr(epochs)) * samples / batch))


class Pace(object):
    """Proposes (phase, n) for each interval.

    Args:
        interval_s: how long an interval is at least.
        max_steps: None is no limit. What only warms up is not counted.
        multiple: every interval is a multiple of so many steps.
        done: steps before all of its.
        warm_up_s: how long untimed steps go on at least, the first one left out: a device that was idle computes
            faster, or slower, than one that has reached its temperature.
    """

    def __init__(
        self, interval_s: float, max_steps: Optional[int], multiple: int = 1, done: int = 0, warm_up_s: float = 0.0
    ) -> None:
        self._interval_s = interval_s
        self._warm_up_s = warm_up_s
        self._warmed_s = 0.0
        self._fits = False
        # The last interval too.
        self._multiple = multiple
        self._max_steps = None if max_steps is None else max(max_steps // multiple, 1) * multiple
        self._steps = self._begun_at = done
        self._n = multiple
        self._warm = False

    def next(self) -> Proposal:
        """Return ``("warmup" | "timed", n)``, or None when the plan's steps are done."""
        phase = "timed" if self._warm else "warmup"
        if self._max_steps is None:
            return (phase, self._n)
        left = self._max_steps - self._steps
        return (phase, min(self._n, left)) if left > 0 else None

    def note(self, n: int, duration_s: float) -> None:
        """Take in how long the interval of ``n`` steps was."""
        first = self._steps == self._begun_at
        if self._warm or not self._fits:
            self._steps += n
        if self._warm:
            return
        # The first step compiles; its duration says nothing about those that follow.
        if not first:
            self._warmed_s += duration_s
        if self._interval_s <= 0:
            self._fits = True
        elif first:
            return
        elif duration_s >= self._interval_s:
            self._fits = True
        elif not self._fits:
            growth = self._interval_s * MARGIN / duration_s if duration_s > 0 else LARGEST_GROWTH
            wanted = n * min(max(growth, 1.0), LARGEST_GROWTH)
            self._n = int(math.ceil(wanted / self._multiple)) * self._multiple
        self._warm = self._fits and self._warmed_s >= self._warm_up_s
