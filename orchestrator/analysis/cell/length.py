"""How long a run is: fixed before it starts, from runs that are over.

A run that ends itself is biased: it ends when it has been lucky, and lasts when it met a spike. So the length comes
from history, or from the cell's first two runs pooled. Above the least that an interval
needs, variance and cost choose it: Kalibera & Jones 2013 (ISMM, "Rigorous benchmarking in reasonable time"), equation
for the optimal number of iterations of a process

    n = sqrt(c2 / c1 x T1^2 / T2^2)

with c1 the cost of an interval, c2 that of a fresh process (start-up and warm-up), T1^2 the variance within and T2^2
that between processes. How many processes there are is a question of money, not of their noise
(``orchestrator.domain.runs.wanted_precision`` has the other case).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.analysis.statistics.autocorrelation import LEAST_VALUES, Floats, mean_error, without_spikes
from orchestrator.analysis.statistics.settling import SCOUT

# Judgements. docs/read_results/statistics.md has the simulated consequences.
LEAST_INTERVALS = 60  # after the cut
LEAST_SPIKY = 100  # where spikes are not rare: shorter runs that met none know nothing of them
LEAST_S = 3.0  # after the cut
LEAST_UNKNOWN = 100  # of a workload of which nothing is known, the warm-up among them
SPIKY = 0.01  # share of the intervals that are spikes
MOST_BY_COST = 5  # times the least


@dataclass(frozen=True)
class Length:
    """How long a run is to be: until it has both.

    Attributes:
        intervals: in all, the warm-up among them.
        seconds: of timed intervals, in all; 0 where ``intervals`` says everything.
        reason: one sentence with the numbers.
        bounded: whether ``max_measure_s`` made it shorter than it should be.
    """

    intervals: int
    seconds: float
    reason: str
    bounded: bool = False


@dataclass(frozen=True)
class Noise:
    """What runs that are over say about the next one.

    Attributes:
        interval_s: mean duration of an interval after the cut.
        cut: intervals of warm-up.
        within: relative variance of one independent interval: over n it is that of a run's mean (T1^2).
        between: relative variance of processes beyond that (T2^2); None from a single run.
        spikes_ratio: share of the intervals after the cut that stand out.
        intervals: of the longest run, the warm-up among them: the next are no shorter. 0 where they may be, because
            these were long for want of knowledge.
        runs: how many there were.
    """

    interval_s: float
    cut: int
    within: float
    between: float | None
    spikes_ratio: float
    intervals: int
    runs: int


def noise_of(series: Sequence[Floats], cut: int, interval_s: float) -> Noise:
    """Return the noise of a cell's pilots (its first two runs), or of a session of history.

    Args:
        series: for each run its time per unit of work by interval, the warm-up among them.
        cut: index of the first that counts (``settling.cut_of``).
        interval_s: mean duration of an interval after the cut.

    Raises:
        ValueError: no run has an interval after the cut.
    """
    rests = [np.asarray(run, float)[cut:] for run in series if len(run) > cut]
    if not rests:
        raise ValueError("no run is longer than the cut")
    means = np.array([rest.mean() for rest in rests])
    within = float(np.mean([within_variance(rest) for rest in rests]))
    own = float(np.mean([within_variance(rest) / len(rest) for rest in rests]))
    between = None
    if len(rests) > 1:
        between = max(0.0, float(means.var(ddof=1) / means.mean() ** 2) - own)
    spikes = sum(int(without_spikes(rest)[1].sum()) for rest in rests) / sum(len(rest) for rest in rests)
    return Noise(interval_s, cut, within, between, spikes, max(len(run) for run in series), len(rests))


def within_variance(rest: Floats) -> float:
    """Return the relative variance of one independent interval of a run: its long-run variance over its squared mean.

    Divided by the number of intervals it is the relative variance of the run's mean, its autocorrelation taken into
    account. Infinite below ``series.LEAST_VALUES`` intervals.
    """
    if len(rest) < LEAST_VALUES:
        return math.inf
    return float(len(rest) * (mean_error(rest).standard_error / rest.mean()) ** 2)


def planned_length(noise: Noise, start_up_s: float, max_measure_s: float | None = None) -> Length:
    """Return the length of the next runs of a cell.

    Args:
        noise: of its first two runs pooled, or of history on this node. Later runs of the cell are not to be asked.
        start_up_s: from the start of a process to its first timed interval.
        max_measure_s: timed seconds of a run at most.
    """
    least, why = _least(noise)
    wanted = _by_cost(noise, start_up_s, least)
    if wanted > least:
        why = (
            f"{wanted} intervals after a warm-up of {noise.cut}: processes differ by {_percent(noise.between)} and cost"
            f" {start_up_s + noise.cut * noise.interval_s:.1f} s to start, intervals vary by {_percent(noise.within)}"
            f" and take {noise.interval_s:.3g} s"
        )
    total = max(noise.cut + wanted, SCOUT * noise.cut)
    if total < noise.intervals:
        total, why = noise.intervals, f"{noise.intervals} intervals, no fewer than the first runs had"
    return _bounded(total, noise.interval_s, why, max_measure_s)


def first_length(
    remembered: int | None = None, interval_s: float | None = None, max_measure_s: float | None = None
) -> Length:
    """Return the length of a cell's first runs, of which there is no pilot.

    Args:
        remembered: the workload's cut on this node; None where it is not known.
        interval_s: how long an interval took before; None where that is not known.
    """
    if remembered is None:
        total, why = LEAST_UNKNOWN, f"{LEAST_UNKNOWN} intervals: nothing is known of this workload's warm-up here"
    else:
        total = max(remembered + LEAST_INTERVALS, SCOUT * remembered)
        why = f"{total} intervals, with a remembered warm-up of {remembered}"
    if interval_s is None:
        # How long the warm-up takes is not known: the same share of the seconds as of the intervals.
        seconds = LEAST_S * total / max(1, total - (remembered or 0))
        return Length(total, min(seconds, max_measure_s or math.inf), f"{why}; {seconds:.1f} s or more")
    total = max(total, (remembered or 0) + math.ceil(LEAST_S / interval_s))
    return _bounded(total, interval_s, why, max_measure_s)


def _least(noise: Noise) -> tuple[int, str]:
    """(intervals after the cut that an interval of confidence needs, why)."""
    spiky = noise.spikes_ratio > SPIKY
    least = LEAST_SPIKY if spiky else LEAST_INTERVALS
    by_time = math.ceil(LEAST_S / noise.interval_s)
    if by_time > least:
        return by_time, f"{LEAST_S:g} s after a warm-up of {noise.cut} intervals"
    because = f": {noise.spikes_ratio:.1%} are spikes" if spiky else ""
    return least, f"{least} intervals after a warm-up of {noise.cut}{because}"


def _by_cost(noise: Noise, start_up_s: float, least: int) -> int:
    """Kalibera & Jones' optimum between ``least`` and ``MOST_BY_COST`` times that.

    Two runs that happen to agree do not show that processes never differ. So one more degree of freedom speaks for the
    guess that they differ by as much as the intervals of a run of the least length leave open (judgement).
    """
    if noise.between is None or not 0.0 < noise.within < math.inf:
        return least
    between = ((noise.runs - 1) * noise.between + noise.within / least) / noise.runs
    process_s = start_up_s + noise.cut * noise.interval_s
    best = math.sqrt(process_s / noise.interval_s * noise.within / between)
    return min(max(least, math.ceil(best)), MOST_BY_COST * least)


def _bounded(total: int, interval_s: float, why: str, max_measure_s: float | None) -> Length:
    if max_measure_s is None or total * interval_s <= max_measure_s:
        return Length(total, 0.0, why)
    fits = max(1, int(max_measure_s / interval_s))
    return Length(fits, 0.0, f"max_measure_s: {fits} intervals fit into {max_measure_s:g} s, {total} are wanted", True)


def _percent(variance: float | None) -> str:
    return f"{math.sqrt(variance or 0.0):.1%}"
