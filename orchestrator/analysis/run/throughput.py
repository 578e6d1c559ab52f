"""How fast a run was: work over time of the part that counts, and how well that one run knows it.

The rate is total work over total time, not the mean of rates (which is biased upwards, and weighs short intervals as
much as long ones). Its error is that of a ratio, by the delta method on the residuals (duration - R x work), whose
autocorrelation is taken into account (``series.mean_error``). The interval is made on the logarithm: no time of a step,
and no rate, is below 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.analysis.log.events import Interval
from orchestrator.analysis.statistics.autocorrelation import Floats, mean_error, residuals
from orchestrator.domain.value.measurement import Measurement

CONFIDENCE = 0.95
PERCENTILES = (50, 90, 95, 99)
METHOD = (
    "total work / total time of the part that counts; interval from an autoregressive estimate of the ratio's error"
)


@dataclass(frozen=True)
class WorldIntervals:
    """The timed intervals of all ranks together: an interval lasts as long as its slowest rank.

    Attributes:
        durations_s: longest over ranks.
        works: sum over ranks, in the model's unit.
        steps: steps of each; the same on every rank.
        first_steps: number of each interval's first step.
    """

    durations_s: Floats
    works: Floats
    steps: tuple[int, ...]
    first_steps: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.steps)

    def since(self, first: int) -> "WorldIntervals":
        """The part from interval ``first`` on."""
        return WorldIntervals(
            self.durations_s[first:], self.works[first:], self.steps[first:], self.first_steps[first:]
        )


def world_intervals(intervals: Sequence[Interval], unit: str, phase: str = "timed") -> WorldIntervals:
    """Join the intervals of all ranks by their first step.

    Raises:
        ValueError: a rank lacks an interval, ranks disagree on its steps, or the work is not counted in ``unit``.
    """
    by_rank: dict[int, dict[int, Interval]] = {}
    for item in intervals:
        if item.phase == phase:
            by_rank.setdefault(item.rank, {})[item.first_step] = item
    starts = sorted({start for own in by_rank.values() for start in own})
    durations, works, steps = [], [], []
    for start in starts:
        row = [own.get(start) for own in by_rank.values()]
        there = [item for item in row if item is not None]
        if len(there) < len(row) or len({item.n for item in there}) > 1:
            raise ValueError(f"the ranks do not agree on the interval at step {start}")
        durations.append(max(item.duration_s for item in there))
        works.append(sum(item.work[unit] for item in there))
        steps.append(there[0].n)
    return WorldIntervals(np.array(durations, float), np.array(works, float), tuple(steps), tuple(starts))


def rate_measurement(part: WorldIntervals, unit: str, definition: str | None, scope: str) -> Measurement:
    """Return the throughput of the intervals that count, with the interval of this one run: it knows how steps vary
    within it, and nothing of how processes differ."""
    seconds, error, n = _ratio(part.durations_s, part.works)
    slow, fast = _ends(1.0 / seconds, error)
    return Measurement(
        metric="throughput",
        value=1.0 / seconds,
        unit=f"{unit}/s",
        unit_definition=definition,
        ci_low=slow,
        ci_high=fast,
        confidence=None if slow is None else CONFIDENCE,
        n=n,
        scope=scope,
        method=METHOD,
    )


def step_time_measurements(part: WorldIntervals, scope: str) -> list[Measurement]:
    """Return the mean time of a step with its interval, and percentiles over intervals of the time of a step."""
    steps = np.array(part.steps, dtype=float)
    mean, error, n = _ratio(part.durations_s, steps)
    low, high = _ends(mean, error)
    found = [
        Measurement(
            metric="step_time_s",
            value=mean,
            unit="s",
            ci_low=low,
            ci_high=high,
            confidence=None if low is None else CONFIDENCE,
            n=n,
            scope=scope,
            method="total time / total steps of the part that counts",
        )
    ]
    for metric, value in percentiles(part).items():
        found.append(
            Measurement(
                metric=metric,
                value=value,
                unit="s",
                n=float(len(part)),
                scope=scope,
                method="percentile over the intervals of the part that counts, linear interpolation",
            )
        )
    return found


def percentiles(part: WorldIntervals) -> dict[str, float]:
    """Return metric -> percentile over intervals of the time of a step."""
    per_step = part.durations_s / np.array(part.steps, dtype=float)
    return {f"step_time_p{percent}_s": float(np.percentile(per_step, percent)) for percent in PERCENTILES}


def _ratio(durations_s: Floats, amounts: Floats) -> tuple[float, float, float]:
    """Return seconds per amount, the half-width of its logarithm's interval, and the effective number of intervals."""
    error = mean_error(residuals(durations_s, amounts), CONFIDENCE)
    return float(durations_s.sum() / amounts.sum()), error.half_width / float(durations_s.mean()), error.effective


def _ends(value: float, error: float) -> tuple[float, float] | tuple[None, None]:
    """The ends of the interval of a value whose logarithm has the half-width ``error``; none beyond a factor of e: such
    a series is too short to know its own error."""
    return (value * math.exp(-error), value * math.exp(error)) if error < 1.0 else (None, None)
