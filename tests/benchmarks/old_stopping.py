"""The rule that ended runs up to analysis-2, by how they looked: kept to show beside the new ones what it did."""

# ruff: noqa: B905

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import Any

# Judgements. docs/statistics.md has the simulated consequences.
MARGIN = 1.2  # effective intervals asked for, over the least the analysis wants
CHECK_GROWTH = 1.1  # the next look at the data comes when there is a tenth more of it
CHECK_LEAST = 5  # intervals between two looks
LOOKS_IN_A_ROW = 2  # that must find it good enough: the first one to do so is too often a lucky one
WIDENING = 1.1  # by which the analysis widens the interval of a run that this rule ended (analysis.throughput)
EQUIVALENT_RATIO = 0.02  # a change smaller than this does not make a run unsteady (as in analysis.steady)
MAX_BATCHES = 2048  # beyond, neighbours are merged: a batch then holds 2, 4, 8 ... intervals
MAX_ORDER = 24  # of the autoregression
LEAST_TIME = 0.05  # of its autocorrelation (this and the next as in analysis.series)
CREDIT_ERRORS = 0.25
MSER_BATCH = 5
MSER_MARGIN = 1.5  # of the cut, for the tail of a warm-up
ONSET_ERRORS = 3.0  # as in analysis.steady


class StoppingRule:
    """Says when the interval of confidence of the throughput is narrow enough, or a limit is reached.

    Args:
        stopping: the job's ``stopping``: ``max_steps``, ``half_width_ratio`` (of the rate's 95 % interval; 0.01),
            ``min_effective_intervals`` (50) and ``max_duration_s``. A missing or null limit does not limit.
    """

    def __init__(self, stopping: dict[str, Any]) -> None:
        self._max_steps = stopping.get("max_steps")
        self._max_duration_s = stopping.get("max_duration_s")
        self._half_width_ratio = _value(stopping.get("half_width_ratio"), 0.01)
        self._min_effective = _value(stopping.get("min_effective_intervals"), 50)
        self._durations_s: list[float] = []
        self._works: list[float] = []
        self._batch = 1  # intervals in each element of the two lists
        self._open: tuple[int, float, float] = (0, 0.0, 0.0)  # a batch that is still being filled
        self._intervals = 0
        self._steps = 0
        self._elapsed_s = 0.0
        self._next_check = math.ceil(MARGIN * self._min_effective)
        self._passed = 0  # looks in a row that found it good enough
        self._detail: dict[str, Any] = {}
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
        count, duration, work = self._open
        self._open = (count + 1, duration + duration_s, work + work_amount)
        if count + 1 == self._batch:
            self._durations_s.append(self._open[1])
            self._works.append(self._open[2])
            self._open = (0, 0.0, 0.0)
            if len(self._works) >= MAX_BATCHES:
                self._durations_s = _merge_neighbours(self._durations_s)
                self._works = _merge_neighbours(self._works)
                self._batch *= 2

    def decision(self) -> dict[str, Any] | None:
        """Return None to go on, else ``{"reason", "steps", "detail"}``; once made it stays.

        ``reason`` is ``precise``, ``max_steps`` or ``max_duration``; ``detail`` holds the numbers it rests on.
        """
        if self._decision is None:
            reason = self._reason()
            if reason is not None:
                if self._detail.get("intervals") != self._intervals:
                    self._look()
                self._decision = {"reason": reason, "steps": self._steps, "detail": self._detail}
        return self._decision

    def _reason(self) -> str | None:
        if self._intervals >= self._next_check:
            self._next_check = max(self._intervals + CHECK_LEAST, math.ceil(self._intervals * CHECK_GROWTH))
            self._passed = self._passed + 1 if self._look() else 0
            if self._passed >= LOOKS_IN_A_ROW:
                return "precise"
        if self._max_steps is not None and self._steps >= self._max_steps:
            return "max_steps"
        if self._max_duration_s is not None and self._elapsed_s >= self._max_duration_s:
            return "max_duration"
        return None

    def _look(self) -> bool:
        """Compute the statistics of what is there, keep them in ``_detail``, and return whether they suffice."""
        first = first_steady(self._durations_s, self._works)
        residuals, mean_s = _residuals(self._durations_s[first:], self._works[first:])
        effective, half_width = effective_and_half_width(residuals)
        half_width_ratio = half_width / mean_s if mean_s > 0 else math.inf
        change_ratio, change_error = _change(residuals, effective, mean_s)
        self._detail = {
            "intervals": self._intervals,
            "warmup_intervals": first * self._batch,
            "effective_intervals": round(effective, 1),
            "half_width_ratio": half_width_ratio if math.isfinite(half_width_ratio) else None,
            "change_ratio": change_ratio,
            "elapsed_s": self._elapsed_s,
        }
        level = abs(change_ratio) <= max(EQUIVALENT_RATIO, 2.0 * change_error)
        enough = effective >= MARGIN * self._min_effective
        return enough and level and WIDENING * half_width_ratio <= self._half_width_ratio


def first_steady(durations_s: Sequence[float], works: Sequence[float]) -> int:
    """Return the index after the warm-up, by MSER-5 on time per unit of work; 0 where there is none to speak of.

    MSER (White 1997, Simulation 69:323) cuts where the standard error of the mean of the rest is least; the 5 is for
    batches of five. It is applied to values clipped at quantiles, so that one late spike does not make it cut
    everything before it. On a stationary series it cuts at random: a cut is only taken where what it removes differs.
    """
    per_work = _clipped([duration / work for duration, work in zip(durations_s, works)])
    batches = [
        sum(per_work[i : i + MSER_BATCH]) / MSER_BATCH for i in range(0, len(per_work) - MSER_BATCH + 1, MSER_BATCH)
    ]
    if len(batches) < 4:
        return 0
    cut, least = 0, math.inf
    total = squares = 0.0
    centre = batches[-1]  # numbers near 0 keep the sums of squares exact
    for d in range(len(batches) - 1, -1, -1):
        total += batches[d] - centre
        squares += (batches[d] - centre) ** 2
        rest = len(batches) - d
        if d <= len(batches) // 2 and (squares - total * total / rest) / rest**2 <= least:
            cut, least = d, (squares - total * total / rest) / rest**2
    if not cut or not _differs(batches[:cut], batches[cut:]):
        return 0
    return min(math.ceil(cut * MSER_MARGIN), len(batches) // 2) * MSER_BATCH


def effective_and_half_width(residuals: Sequence[float]) -> tuple[float, float]:
    """Return the effective sample size of a series and the half-width of its mean's 95 % interval.

    The variance of the mean is the spectral density at frequency 0 of an autoregression, fitted by Levinson's
    recursion, its order chosen by AICc (at least 1), its coefficients' sum corrected for the bias of a short series
    (Kendall 1954). The same is in ``orchestrator.analysis.statistics.autocorrelation``; a test holds the two equal.
    """
    n = len(residuals)
    if n < 8:
        return 0.0, math.inf
    mean = sum(residuals) / n
    centred = [value - mean for value in residuals]
    highest = max(1, min(MAX_ORDER, n // 20))
    gamma = [sum(map(mul, centred, centred[lag:])) / n for lag in range(highest + 1)]
    if gamma[0] <= (1e-9 * max(abs(value) for value in residuals)) ** 2:
        return float(n), 0.0
    time, degrees = _autoregression(gamma, n)
    return n / max(1.0, time), student_975(degrees) * math.sqrt(gamma[0] / (n - 1) * time)


def student_975(degrees: float) -> float:
    """Return the 97.5 % quantile of Student's t: Abramowitz & Stegun 26.7.5 (three digits from 5 degrees on)."""
    z, v = 1.959963984540054, max(degrees, 3.0)
    z3, z5, z7, z9 = z**3, z**5, z**7, z**9
    g1 = (z3 + z) / 4
    g2 = (5 * z5 + 16 * z3 + 3 * z) / 96
    g3 = (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / 384
    g4 = (79 * z9 + 776 * z7 + 1482 * z5 - 1920 * z3 - 945 * z) / 92160
    return z + g1 / v + g2 / v**2 + g3 / v**3 + g4 / v**4


def _autoregression(gamma: Sequence[float], n: int) -> tuple[float, float]:
    """Return (sum of all autocorrelations, degrees of freedom) from autocovariances of ``n`` values.

    ``orchestrator.analysis.statistics.autocorrelation.autoregression`` has the sources.
    """
    coefficients: list[float] = []
    variance = gamma[0]
    inverse = 1.0 / variance
    best, chosen = math.inf, (0.0, variance, 1, inverse)
    for order in range(1, len(gamma)):
        reflection = (gamma[order] - sum(map(mul, coefficients, gamma[order - 1 : 0 : -1]))) / variance
        coefficients = [a - reflection * b for a, b in zip(coefficients, reversed(coefficients))] + [reflection]
        variance *= 1.0 - reflection * reflection
        if variance <= 0:
            break
        k = order + 1
        criterion = n * math.log(variance) + 2.0 * k * n / (n - k - 1)
        total = sum(coefficients)
        if criterion < best:
            best, chosen = criterion, (total, variance, order, inverse)
        inverse += (1.0 - total) ** 2 / variance
    total, variance, order, inverse = chosen
    total = min(total + (order + 3.0 * total) / n, 0.99)
    long_run = variance * n / (n - order - 1) / (1.0 - total) ** 2
    degrees = n / (1.0 + 2.0 * inverse * variance / (1.0 - total) ** 2)
    time = long_run / (gamma[0] * n / (n - 1))
    if time < 1.0:
        time = max(LEAST_TIME, min(1.0, time * (1.0 + CREDIT_ERRORS * math.sqrt(2.0 / degrees))))
    return time, degrees


def _residuals(durations_s: Sequence[float], works: Sequence[float]) -> tuple[list[float], float]:
    """Return duration - (seconds per work) x work for each interval, and the mean duration."""
    total_s, total_work = sum(durations_s), sum(works)
    if not works:
        return [], 0.0
    per_work = total_s / total_work
    return [duration - per_work * work for duration, work in zip(durations_s, works)], total_s / len(works)


def _change(residuals: Sequence[float], effective: float, mean_s: float) -> tuple[float, float]:
    """Return how much the last third differs from the first, over the mean, and the standard error of that."""
    third = len(residuals) // 3
    if third < 3 or effective < 3:
        return 0.0, math.inf
    clipped = _clipped(residuals)
    first, last = clipped[:third], clipped[-third:]
    change = (sum(last) - sum(first)) / third
    mean = sum(clipped) / len(clipped)
    variance = sum((value - mean) ** 2 for value in clipped) / (len(clipped) - 1)
    return change / mean_s, math.sqrt(variance * 2.0 * 3.0 / effective) / mean_s


def _differs(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether the mean of ``before`` is ``ONSET_ERRORS`` standard errors or more from that of ``after``."""
    mean = sum(after) / len(after)
    variance = sum((value - mean) ** 2 for value in after) / max(1, len(after) - 1)
    error = math.sqrt(variance * (1.0 / len(before) + 1.0 / len(after)))
    return abs(sum(before) / len(before) - mean) > ONSET_ERRORS * error


def _clipped(values: Sequence[float]) -> list[float]:
    """Return the values with all beyond four standard deviations (from the quartiles) of the last half clipped.

    The last half, because there the warm-up is over; the first tenth is left as it is: it is what MSER looks for.
    """
    ordered = sorted(values[len(values) // 2 :])
    if len(ordered) < 4:
        return list(values)
    quarter, middle, three = (ordered[len(ordered) * k // 4] for k in (1, 2, 3))
    reach = 4.0 * (three - quarter) / 1.349  # 1.349: quartile distance of a normal distribution, in deviations
    if reach <= 0:
        return list(values)
    low, high = middle - reach, middle + reach
    start = len(values) // 10
    return list(values[:start]) + [min(max(value, low), high) for value in values[start:]]


def _merge_neighbours(values: Sequence[float]) -> list[float]:
    return [a + b for a, b in zip(values[::2], values[1::2])]


def _value(given: Any, default: float) -> float:
    return default if given is None else float(given)
