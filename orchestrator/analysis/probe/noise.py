"""How noisy a machine is: from the interval times of fresh processes that all do the same.

between      standard deviation of the processes' means: what a cell's interval is made of. Its own uncertainty is that
             of a normal sample's deviation (chi-square). ``process_ratio`` is the part that longer runs would not take
             away (``nested.components``)
within       of the intervals around their process's mean, with the autocorrelation that makes n of them worth fewer
levels       changes of the mean inside processes, found as in ``steady`` (``changepoints``); and whether neighbours in
             time are alike, which tells of levels that outlast a process: the lag-1 autocorrelation of the processes'
             means against its normal approximation under independence (Bartlett 1946: mean -1/n, variance 1/n)
runs needed  the fewest for which Student's t times the deviation is within the wanted half-width (the upper side of an
             interval, which is the wider one); and a side for which a true difference is found with 80 % probability
             at two-sided 5 % (noncentral t, two unpaired cells)

Processes are compared by the logarithm of their mean time, as cells are, so the same figures hold for rates.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import fmean, stdev
from typing import Any

import numpy as np
from scipy import special

from orchestrator.analysis.cell import between_runs
from orchestrator.analysis.statistics import nested
from orchestrator.analysis.statistics.autocorrelation import Floats, first_long_run_variance, mean_error, without_spikes
from orchestrator.analysis.statistics.changepoints import change_points, penalty

TARGETS = (0.01, 0.02, 0.05)
LEAST_PROCESSES = 3
LEAST_INTERVALS = 20
MOST_RUNS = 100_000  # more is an answer for nobody

# Judgements, as in ``steady``: how strict the search for levels is, how short one may be, what is no change.
STRICTNESS = 3.0
LEVEL_LEAST = 10
SAME_LEVEL_RATIO = 0.02
# Neighbouring processes are called alike where chance would do so in one case of a hundred.
ALIKE_DEVIATIONS = 2.33


@dataclass(frozen=True)
class Shift:
    """A change of level inside a process: ``ratio`` is the new mean time over the old one."""

    process: int
    interval: int
    ratio: float


@dataclass(frozen=True)
class RunsNeeded:
    """For a ``target_ratio`` (0.01: 1 %): runs for that half-width of a cell's 95 % interval, and of each of two cells
    for finding a difference of that size. The ``at_most`` figures go with the upper end of the deviation's interval.
    None: more than anybody would do."""

    target_ratio: float
    half_width_runs: int | None
    half_width_runs_at_most: int | None
    difference_runs: int | None
    difference_runs_at_most: int | None


@dataclass(frozen=True)
class Noise:
    """How noisy a machine was. Ratios are relative to the mean time; durations in seconds.

    Attributes:
        interval_time_s: mean over the processes of their mean interval.
        between_ratio: deviation of the processes' means, with its 95 % interval (``between_low``, ``between_high``).
        process_ratio: the part of it that the intervals' own noise does not explain.
        within_ratio: deviation of the intervals around the mean of their process.
        autocorrelation: of neighbouring intervals, mean over the processes.
        worth: independent intervals that would tell a process's mean as well; the least of all processes is ``n``.
        spikes_ratio: share of the intervals that stand out alone.
        shifts: changes of level inside processes.
        neighbours: correlation of processes that follow each other; ``alike`` where chance would hardly make it.
    """

    processes: int
    intervals: int
    interval_time_s: float
    between_ratio: float
    between_low: float
    between_high: float
    process_ratio: float | None
    within_ratio: float
    autocorrelation: float
    worth: float
    spikes_ratio: float
    shifts: Sequence[Shift]
    neighbours: float | None
    alike: bool
    runs_needed: Sequence[RunsNeeded]

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def judge(processes: Sequence[Sequence[float]]) -> Noise:
    """Return how noisy the machine was on which these processes ran.

    Args:
        processes: the duration (s) of each interval of each process, in the order in which they ran; the same work in
            each, the warm-up left out.

    Raises:
        ValueError: fewer than three processes, or one of fewer than twenty intervals, or a time that is not positive.
    """
    series = [np.asarray(one, dtype=float) for one in processes]
    if len(series) < LEAST_PROCESSES or min(len(one) for one in series) < LEAST_INTERVALS:
        raise ValueError(f"noise takes {LEAST_PROCESSES} processes of {LEAST_INTERVALS} intervals, or more")
    if not all(np.isfinite(one).all() and (one > 0).all() for one in series):
        raise ValueError("interval times are positive and finite")
    means = [float(one.mean()) for one in series]
    mean = fmean(means)
    between, low, high = deviation_of(means)
    errors = [mean_error(one) for one in series]
    own = [error.standard_error / level for error, level in zip(errors, means, strict=True)]
    neighbours, alike = _neighbours(means)
    return Noise(
        processes=len(series),
        intervals=min(len(one) for one in series),
        interval_time_s=mean,
        between_ratio=between,
        between_low=low,
        between_high=high,
        process_ratio=nested.components([[math.log(one) for one in means]], own).process_ratio,
        within_ratio=math.sqrt(fmean([float(one.var(ddof=1)) for one in series])) / mean,
        autocorrelation=fmean([_lag_one(one) for one in series]),
        worth=fmean([error.effective for error in errors]),
        spikes_ratio=fmean([float(without_spikes(one)[1].mean()) for one in series]),
        shifts=_shifts(series),
        neighbours=neighbours,
        alike=alike,
        runs_needed=[runs_needed(target, between, high) for target in TARGETS],
    )


def deviation_of(means: Sequence[float]) -> tuple[float, float, float]:
    """Return the standard deviation of the logarithms of ``means``, and the ends of its 95 % interval."""
    n, ratio = len(means), stdev(map(math.log, means))
    low, high = (math.sqrt((n - 1) / float(special.chdtri(n - 1, tail))) for tail in (0.025, 0.975))
    return ratio, low * ratio, high * ratio


def runs_needed(target: float, deviation: float, at_most: float) -> RunsNeeded:
    """Return how many runs tell ``target`` where runs deviate by ``deviation``, or by ``at_most`` (all as ratios)."""
    return RunsNeeded(
        target,
        runs_for_half_width(target, deviation),
        runs_for_half_width(target, at_most),
        runs_for_difference(target, deviation),
        runs_for_difference(target, at_most),
    )


def runs_for_half_width(target: float, deviation: float) -> int | None:
    """Return the fewest runs (two or more) whose 95 % interval by Student's t is expected to be within ``target``."""
    return _fewest(lambda n: nested.quantile(n - 1) * deviation / math.sqrt(n) <= math.log1p(target))


def runs_for_difference(target: float, deviation: float) -> int | None:
    """Return the fewest runs of each of two cells that find a difference of ``target`` with 80 % probability."""
    wanted = math.log1p(target)  # cells are compared on logarithms
    if deviation == 0:
        return 2
    return _fewest(lambda n: deviation * _unit_difference(n) <= wanted)


def _unit_difference(runs: int) -> float:
    return between_runs.detectable(1.0, runs, runs)


def _fewest(enough: Callable[[int], bool]) -> int | None:
    """The least n from 2 on for which ``enough(n)`` holds; it goes on holding for every larger one."""
    high = 2
    while not enough(high):
        high *= 2
        if high > MOST_RUNS:
            return None
    low = max(1, high // 2)  # is not enough, or less than two
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _neighbours(means: Sequence[float]) -> tuple[float | None, bool]:
    n, correlation = len(means), _lag_one(np.asarray(means))
    if n < 8:  # too few to say anything
        return None, False
    return correlation, correlation > -1 / n + ALIKE_DEVIATIONS / math.sqrt(n)


def _lag_one(values: Floats) -> float:
    centred = values - values.mean()
    square = float(centred @ centred)
    return float(centred[1:] @ centred[:-1]) / square if square > 0 else 0.0


def _shifts(series: Sequence[Floats]) -> list[Shift]:
    """The changes of level inside the processes. Their noise is pooled, and a change has to be dear enough for a search
    through all of them."""
    smooth = [without_spikes(one)[0] for one in series]
    noise = fmean([first_long_run_variance(one) for one in smooth])
    if noise <= 0:
        return []
    dear = penalty(noise, sum(map(len, smooth)), STRICTNESS)
    found = [shift for number, one in enumerate(smooth) for shift in _shifts_of(number, one, dear)]
    return [shift for shift in found if abs(shift.ratio - 1) > SAME_LEVEL_RATIO]


def _shifts_of(process: int, smooth: Floats, dear: float) -> list[Shift]:
    inner = change_points(smooth, dear, LEVEL_LEAST)
    levels = [float(part.mean()) for part in np.split(smooth, inner)]
    return [Shift(process, at, after / before) for at, (before, after) in zip(inner, pairwise(levels), strict=True)]
