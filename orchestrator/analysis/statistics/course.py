"""How the times of one run look by themselves: level, in several levels, drifting, or too few to tell.

Findings, which grade nothing: where the intervals begin that count is the cut's decision (``settling``). Judged on time
per unit of work, so that batches of unequal work are no unsteadiness. Two published methods:

    levels    change points of the mean (``changepoints``), read as in Barrett et al. 2017 (OOPSLA, "Virtual machine
              warmup blows hot and cold"): the segments at the end that are equivalent to each other are one level
    drift     Theil-Sen slope (Sen 1968, JASA 63:1379) with the error of an autocorrelated series

Isolated spikes are clipped for the judgement only: the mean keeps them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
from scipy import special

from orchestrator.analysis.statistics.autocorrelation import (
    Floats,
    MeanError,
    first_long_run_variance,
    long_run_variance,
    mean_error,
    residuals,
    without_spikes,
)
from orchestrator.analysis.statistics.changepoints import change_points, penalty

# Judgements. docs/read_results/statistics.md has the simulated consequences.
EQUIVALENT_RATIO = 0.02  # levels that differ by less, or a change over the run of less, are one level
MIN_EFFECTIVE = 50  # independent intervals: of fewer the error of the mean is itself not known well
MIN_INTERVALS = 20  # fewer are not looked at
LATEST_LEVEL = 0.5  # of the run: a level that begins later is another one, and what was before no warm-up
SEGMENT_SHARE = 12  # a level lasts a twelfth of the run or more: shorter waves are part of the noise
SEGMENT_LEAST = 8
STRICTNESS = 3.0  # of the search for levels; 2 is Schwarz's, more allows for heavy tails
FIRST_STRICTNESS = 1.0
DRIFT_CONFIDENCE = 0.99
MAX_SPIKES = 0.10  # share of the intervals: more are not isolated, and are not clipped
MAX_SPIKES_TIME = 0.05  # share of the time: a run whose many spikes cost more is not steady
MAX_POINTS = 600  # longer series are averaged down to this for the search of levels
MAX_SLOPE_POINTS = 200  # and to this for the slope, which looks at all pairs


class CourseState(StrEnum):
    STEADY = "steady"
    DRIFTING = "drifting"
    UNSTEADY = "unsteady"
    TOO_SHORT = "too_short"


@dataclass(frozen=True)
class Course:
    """What the times look like.

    Attributes:
        state: in a word.
        error: effective intervals and autocorrelation time of the part that counts.
        change_ratio: change of time per work over a length of the whole run, as the slope has it, over the mean.
        outliers: number of intervals taken for isolated spikes; they stay in the mean.
        outlier_time_ratio: their excess, over the time of the run.
        reason: one sentence with the numbers.
    """

    state: CourseState
    error: MeanError
    change_ratio: float
    outliers: int
    outlier_time_ratio: float
    reason: str


@dataclass(frozen=True)
class _Verdict:
    state: CourseState
    reason: str
    change_ratio: float = 0.0


def judge(durations_s: Sequence[float] | Floats, works: Sequence[float] | Floats, first: int) -> Course:
    """Say what the timed phase looks like.

    Args:
        durations_s: of each world interval, in order.
        works: work of each, in one unit; positive.
        first: where the intervals begin that count.
    """
    duration, work = np.asarray(durations_s, dtype=float), np.asarray(works, dtype=float)
    per_work = duration / work
    smooth, spikes = without_spikes(per_work)
    excess = float(((per_work - smooth) * work).sum() / duration.sum()) if len(duration) else 0.0
    error = mean_error(residuals(duration[first:], work[first:]))
    if spikes.sum() <= MAX_SPIKES * len(spikes):
        verdict = _verdict(smooth, first)
    elif excess <= MAX_SPIKES_TIME:  # too many to be isolated, but cheap: the series is taken as it is
        verdict = _verdict(per_work, first)
    else:
        standing = f"{spikes.sum()} of {len(spikes)} intervals stand out from those around them"
        verdict = _Verdict(CourseState.UNSTEADY, f"{standing} and cost {excess:.0%} of the time")
    state, reason = verdict.state, verdict.reason
    if state is CourseState.STEADY and error.effective < MIN_EFFECTIVE:
        state = CourseState.TOO_SHORT
        reason = (
            f"{len(duration) - first} intervals after the warm-up are worth {error.effective:.0f} independent ones "
            f"(autocorrelation time {error.autocorrelation_time:.1f}), fewer than {MIN_EFFECTIVE}"
        )
    return Course(state, error, verdict.change_ratio, int(spikes.sum()), excess, reason)


def _verdict(smooth: Floats, first: int) -> _Verdict:
    n = len(smooth)
    if n < MIN_INTERVALS:
        return _Verdict(CourseState.TOO_SHORT, f"{n} intervals, fewer than {MIN_INTERVALS}")
    borders, cost = _levels(smooth)
    last = _first_of_the_last_level(smooth, borders)
    if last > 0 and _steps_cost(smooth, borders, cost) > _line_cost(smooth) + 0.5 * cost:
        return _drifting(*_change(smooth, n))
    if last > LATEST_LEVEL * n or _returns(smooth, borders, last):
        return _not_level(smooth, borders, last)
    since = max(last, first)
    change, error = _change(smooth[since:], n)
    if abs(change) > EQUIVALENT_RATIO and abs(change) > error * _quantile(smooth[since:]):
        return _drifting(change, error)
    reason = f"level from interval {since} of {n} on; change over the run {change:+.1%} ± {error:.1%}"
    return _Verdict(CourseState.STEADY, reason, change)


def _levels(smooth: Floats) -> tuple[list[int], float]:
    """Return the borders [0, ..., n] of the levels, and the cost of one more level.

    Twice: a generous search first, so that what is left is noise without shifts, whose long-run variance sets the
    cost of the search that counts.
    """
    borders, _ = _search(smooth, first_long_run_variance(smooth), FIRST_STRICTNESS)
    return _search(smooth, long_run_variance(smooth, borders), STRICTNESS)


def _search(smooth: Floats, long_run: float, strictness: float) -> tuple[list[int], float]:
    n = len(smooth)
    width = max(1, math.ceil(n / MAX_POINTS))
    points = smooth[: n // width * width].reshape(-1, width).mean(axis=1)
    cost = penalty(long_run / width, len(points), strictness)
    least = max(SEGMENT_LEAST, len(points) // SEGMENT_SHARE)
    borders = [0, *(width * point for point in change_points(points, cost, least)), n]
    return borders, cost * width


def _first_of_the_last_level(smooth: Floats, borders: list[int]) -> int:
    """Walk back from the end while the level before is equivalent to all after it."""
    first = borders[-2]
    for start, end in reversed(list(pairwise(borders[:-1]))):
        if not _equivalent(smooth[start:end].mean(), smooth[first:].mean()):
            break
        first = start
    return first


def _returns(smooth: Floats, borders: list[int], first: int) -> bool:
    """Whether the run was on its last level before, and left it: a disturbance, not a warm-up."""
    before = [smooth[a:b].mean() for a, b in pairwise(borders) if b <= first]
    return any(_equivalent(level, smooth[first:].mean()) for level in before)


def _equivalent(level: float, reference: float) -> bool:
    return abs(level - reference) <= EQUIVALENT_RATIO * reference


def _steps_cost(smooth: Floats, borders: list[int], cost: float) -> float:
    """Return what the levels leave unexplained, and their number; a drift is a line that leaves less."""
    pieces = [smooth[a:b] for a, b in pairwise(borders)]
    return cost * (len(pieces) - 1) + sum(float(((piece - piece.mean()) ** 2).sum()) for piece in pieces)


def _line_cost(values: Floats) -> float:
    position = np.arange(len(values))
    line = np.polynomial.Polynomial.fit(position, values, 1)(position)
    return float(((values - line) ** 2).sum())


def _not_level(smooth: Floats, borders: list[int], last: int) -> _Verdict:
    levels = [float(smooth[a:b].mean()) for a, b in pairwise(borders)]
    spread = (max(levels) - min(levels)) / float(smooth.mean())
    reason = f"{len(levels)} levels, {spread:.1%} apart; the last one begins at interval {last} of {len(smooth)}"
    return _Verdict(CourseState.UNSTEADY, reason, _change(smooth, len(smooth))[0])


def _drifting(change: float, error: float) -> _Verdict:
    reason = f"time per work changes by {change:+.1%} ± {error:.1%} over the run"
    return _Verdict(CourseState.DRIFTING, reason, change)


def _change(smooth: Floats, length: int) -> tuple[float, float]:
    """Return the change over ``length`` intervals, by the Theil-Sen slope, over the mean, and its standard error.

    The variance of a least-squares slope with n/tau independent residuals; Theil-Sen's own is 5 % larger on normal
    noise and smaller on heavy tails.
    """
    n = len(smooth)
    width = max(1, math.ceil(n / MAX_SLOPE_POINTS))
    points = smooth[: n // width * width].reshape(-1, width).mean(axis=1)
    before, after = np.triu_indices(len(points), 1)
    slope = float(np.median((points[after] - points[before]) / (after - before))) / width
    rest = smooth - slope * np.arange(n)
    effective = max(mean_error(rest).effective, 1.0)
    error = float(rest.std(ddof=1)) * math.sqrt(12.0 / effective) / n
    mean = float(smooth.mean())
    return slope * length / mean, error * length / mean


def _quantile(smooth: Floats) -> float:
    effective = mean_error(smooth).effective
    return float(special.stdtrit(max(effective - 2, 3.0), 0.5 + DRIFT_CONFIDENCE / 2))
