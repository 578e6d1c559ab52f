"""Whether a run reached a steady state, and from which interval on.

Judged on time per unit of work, so that batches of unequal work are no unsteadiness. Three published methods, each for
what it is good at:

    levels    change points of the mean (``changepoints``), read as in Barrett et al. 2017 (OOPSLA, "Virtual machine
              warmup blows hot and cold"): the segments at the end that are equivalent to each other are the steady
              part, those before are warm-up
    onset     MSER-5 (White 1997, Simulation 69:323) cuts what is left of a smooth start
    drift     Theil-Sen slope (Sen 1968, JASA 63:1379) with the error of an autocorrelated series

No number of warm-up steps is fixed anywhere. Isolated spikes are clipped for the judgement only: the mean keeps them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import special

from orchestrator.analysis.run.conditions import Trend
from orchestrator.analysis.statistics.autocorrelation import (
    LEAST_VALUES,
    Floats,
    MeanError,
    first_long_run_variance,
    long_run_variance,
    mean_error,
    without_spikes,
)
from orchestrator.analysis.statistics.changepoints import change_points, penalty

# Judgements. docs/read_results/statistics.md has the simulated consequences.
EQUIVALENT_RATIO = 0.02  # levels that differ by less, or a change over the run of less, are one level
MIN_EFFECTIVE = 50  # independent intervals: of fewer the error of the mean is itself not known well
MIN_INTERVALS = 20  # fewer are not looked at
MAX_WARMUP = 0.5  # a run that settles later than half way did not show that it settled
SEGMENT_SHARE = 12  # a level lasts a twelfth of the run or more: shorter waves are part of the noise
SEGMENT_LEAST = 8
STRICTNESS = 3.0  # of the search for levels; 2 is Schwarz's, more allows for heavy tails
FIRST_STRICTNESS = 1.0
DRIFT_CONFIDENCE = 0.99
MAX_SPIKES = 0.10  # share of the intervals: more are not isolated, and are not clipped
MAX_SPIKES_TIME = 0.05  # share of the time: a run whose many spikes cost more is not steady
MAX_POINTS = 600  # longer series are averaged down to this for the search of levels
MAX_SLOPE_POINTS = 200  # and to this for the slope, which looks at all pairs
MSER_BATCH = 5
ONSET_ERRORS = 3.0  # standard errors by which what is cut must differ from the rest


class SteadyClass(StrEnum):
    STEADY = "steady"
    DRIFTING = "drifting"
    UNSTEADY = "unsteady"
    TOO_SHORT = "too_short"


@dataclass(frozen=True)
class SteadyState:
    """What became of the question.

    Attributes:
        state: the class.
        first: index of the first steady interval (0 where there is no steady part: see ``state``).
        warmup_steps: timed steps before it; ``warmup_s`` their duration.
        error: effective intervals and autocorrelation time of the part from ``first`` on.
        change_ratio: change of time per work over a length of the whole run, as the slope has it, over the mean.
        change_error: standard error of that.
        outliers: number of intervals taken for isolated spikes; they stay in the mean.
        outlier_time_ratio: their excess, over the time of the run.
        reason: one sentence with the numbers.
    """

    state: SteadyClass
    first: int
    warmup_steps: int
    warmup_s: float
    error: MeanError
    change_ratio: float
    change_error: float
    outliers: int
    outlier_time_ratio: float
    reason: str


@dataclass(frozen=True)
class _Verdict:
    state: SteadyClass
    first: int
    reason: str
    change_ratio: float = 0.0
    change_error: float = math.inf


def judge(
    durations_s: Sequence[float] | Floats,
    works: Sequence[float] | Floats,
    steps: Sequence[int],
) -> SteadyState:
    """Classify the timed phase.

    Args:
        durations_s: of each world interval, in order.
        works: work of each, in one unit; positive.
        steps: steps of each.
    """
    duration, work = np.asarray(durations_s, dtype=float), np.asarray(works, dtype=float)
    per_work = duration / work
    smooth, spikes = without_spikes(per_work)
    excess = float(((per_work - smooth) * work).sum() / duration.sum()) if len(duration) else 0.0
    verdict = _verdict(smooth) if spikes.sum() <= MAX_SPIKES * len(spikes) else _restless(per_work, spikes, excess)
    error = mean_error(residuals(duration[verdict.first :], work[verdict.first :]))
    state, reason = _settle(verdict, error, len(duration))
    return SteadyState(
        state=state,
        first=verdict.first,
        warmup_steps=int(sum(steps[: verdict.first])),
        warmup_s=float(duration[: verdict.first].sum()),
        error=error,
        change_ratio=verdict.change_ratio,
        change_error=verdict.change_error,
        outliers=int(spikes.sum()),
        outlier_time_ratio=excess,
        reason=reason,
    )


def beside(state: SteadyState, growth: Trend | None) -> SteadyState:
    """Return the state that remains when memory is looked at too: a run whose memory still grows is not at rest."""
    if growth is None or state.state is not SteadyClass.STEADY:
        return state
    text = f"the memory of {growth.subject} on {growth.node} grew by {growth.change_ratio:.0%} and still grows"
    return replace(state, state=SteadyClass.DRIFTING, reason=f"{text}; {state.reason}")


def residuals(duration_s: Floats, work: Floats) -> Floats:
    """Return what each interval took beyond (total time / total work) x its work: the ratio's linear residuals."""
    if not len(duration_s):
        return duration_s
    return duration_s - duration_s.sum() / work.sum() * work


def _settle(verdict: _Verdict, error: MeanError, n: int) -> tuple[SteadyClass, str]:
    if verdict.state is SteadyClass.STEADY and error.effective < MIN_EFFECTIVE:
        kept = n - verdict.first
        return SteadyClass.TOO_SHORT, (
            f"{kept} intervals after the warm-up are worth {error.effective:.0f} independent ones "
            f"(autocorrelation time {error.autocorrelation_time:.1f}), fewer than {MIN_EFFECTIVE}"
        )
    return verdict.state, verdict.reason


def _verdict(smooth: Floats) -> _Verdict:
    n = len(smooth)
    if n < MIN_INTERVALS:
        return _Verdict(SteadyClass.TOO_SHORT, 0, f"{n} intervals, fewer than {MIN_INTERVALS}")
    borders, cost = _levels(smooth)
    first = _first_of_the_last_level(smooth, borders)
    disturbed = _returns(smooth, borders, first)
    if first > 0 and _steps_cost(smooth, borders, cost) > _line_cost(smooth) + 0.5 * cost:
        return _drifting(smooth, 0, n)
    if first > MAX_WARMUP * n or disturbed:
        return _not_level(smooth, borders, first)
    cut = onset(smooth[first:])
    if _is_straight(smooth[first:], cut):
        cut = 0
    first += cut
    first += _tail(smooth, first)
    change, error = _change(smooth[first:], n)
    if abs(change) > EQUIVALENT_RATIO and abs(change) > error * _quantile(smooth[first:]):
        return _drifting(smooth, first, n)
    reason = f"level from interval {first} of {n} on; change over the run {change:+.1%} ± {error:.1%}"
    return _Verdict(SteadyClass.STEADY, first, reason, change, error)


def _restless(per_work: Floats, spikes: NDArray[np.bool_], excess: float) -> _Verdict:
    """Judge a series with spikes too many to be isolated: unsteady where they cost much, else taken as it is."""
    if excess <= MAX_SPIKES_TIME:
        return _verdict(per_work)
    reason = (
        f"{spikes.sum()} of {len(spikes)} intervals stand out from those around them and cost {excess:.0%} of the time"
    )
    return _Verdict(SteadyClass.UNSTEADY, 0, reason)


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


def _not_level(smooth: Floats, borders: list[int], first: int) -> _Verdict:
    levels = [float(smooth[a:b].mean()) for a, b in pairwise(borders)]
    spread = (max(levels) - min(levels)) / float(smooth.mean())
    reason = f"{len(levels)} levels, {spread:.1%} apart; the last one begins at interval {first} of {len(smooth)}"
    return _Verdict(SteadyClass.UNSTEADY, 0, reason, *_change(smooth, len(smooth)))


def _drifting(smooth: Floats, first: int, n: int) -> _Verdict:
    change, error = _change(smooth[first:], n)
    reason = f"time per work changes by {change:+.1%} ± {error:.1%} over the run"
    return _Verdict(SteadyClass.DRIFTING, first, reason, change, error)


def onset(smooth: Floats) -> int:
    """Return how many intervals at the start are not yet at the level of the rest: MSER-5.

    White's rule: cut where the standard error of the mean of what is left is least, in batches of five, in the first
    half. On a stationary series that cuts at random; a cut is taken where what it removes differs from the rest.
    """
    k = len(smooth) // MSER_BATCH
    if k < 4:
        return 0
    batches = smooth[: k * MSER_BATCH].reshape(k, MSER_BATCH).mean(axis=1)
    errors = [batches[d:].var() / (k - d) for d in range(k // 2 + 1)]
    cut = int(np.argmin(errors))
    return cut * MSER_BATCH if cut and _differs(batches[:cut], batches[cut:]) else 0


def _tail(smooth: Floats, first: int) -> int:
    """Return how many more intervals after a warm-up still belong to it.

    A border lies where a transient is lost in the noise of single intervals; in their mean its tail would still be
    seen. So half as many intervals more are cut as long as these lean to the side of the warm-up by more than one
    standard error: where there is no tail that costs a little data now and then, and no truth.
    """
    cut = first
    while cut and cut + max(MSER_BATCH, cut // 2) <= MAX_WARMUP * len(smooth):
        piece = max(MSER_BATCH, cut // 2)
        rest = smooth[cut + piece :]
        side = math.copysign(1.0, float(smooth[:first].mean() - rest.mean()))
        lean = side * float(smooth[cut : cut + piece].mean() - rest.mean())
        tau = mean_error(rest).autocorrelation_time if len(rest) >= LEAST_VALUES else 1.0
        if lean <= float(rest.std(ddof=1)) * math.sqrt(tau / piece + tau / len(rest)):
            break
        cut += piece
    return cut - first


def _is_straight(smooth: Floats, cut: int) -> bool:
    """Whether one line through all describes the series better than a line up to ``cut`` and a level after it."""
    if cut == 0:
        return True
    return _line_cost(smooth) < _line_cost(smooth[:cut]) + float(((smooth[cut:] - smooth[cut:].mean()) ** 2).sum())


def _line_cost(values: Floats) -> float:
    position = np.arange(len(values))
    line = np.polynomial.Polynomial.fit(position, values, 1)(position)
    return float(((values - line) ** 2).sum())


def _differs(before: Floats, after: Floats) -> bool:
    """Whether the means are ``ONSET_ERRORS`` standard errors or more apart, autocorrelation taken into account."""
    tau = mean_error(after).autocorrelation_time if len(after) >= LEAST_VALUES else 1.0
    error = float(after.std(ddof=1)) * math.sqrt(tau / len(before) + tau / len(after))
    return abs(float(before.mean() - after.mean())) > ONSET_ERRORS * error


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
