"""Error bars over runs: fresh processes are the independent repetitions, iterations of one process are not.

interval        Student's t of the runs' rates. No bootstrap: with three runs it covers 67 % (DESIGN.md section 4)
comparison      Welch's t on the logarithms, so that what is compared is a ratio. Welch, not pooled: two frameworks
                need not be equally noisy, and the price at three runs a side is small
detectable      noncentral t with the pooled deviation: what would be found with 80 % probability at 5 % two-sided
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from scipy import optimize, stats

from orchestrator.domain.measurement import Measurement

CONFIDENCE = 0.95
POWER = 0.80
THESE_DEVICES = "these devices"


@dataclass(frozen=True)
class Comparison:
    """B against A.

    Attributes:
        ratio: B / A of the mean rates; above 1, B is faster. ``ci_low`` and ``ci_high`` bound it; None below two runs
            a side.
        detectable_ratio: smallest difference (0.03: 3 %) that these numbers of runs find with 80 % probability.
        verdict: ``faster``, ``slower``, ``no_difference_found`` or ``too_few_runs``.
        text: the verdict in words.
    """

    ratio: float
    ci_low: float | None
    ci_high: float | None
    detectable_ratio: float | None
    n_baseline: int
    n_candidate: int
    verdict: str
    text: str
    confidence: float = CONFIDENCE
    method: str = "Welch's t on logarithms of the runs' rates"

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


def over_runs(runs: Sequence[Measurement], scope: str = THESE_DEVICES) -> Measurement:
    """Return the measurement of a cell from those of its runs (one metric, one unit).

    Runs without a value are left out. One run keeps its own interval and is labelled: that interval knows nothing of
    how runs differ. With two or more the interval comes from the variance between runs.

    Raises:
        ValueError: no runs, or their metrics or units differ.
    """
    if not runs or len({(run.metric, run.unit) for run in runs}) != 1:
        raise ValueError("over_runs wants measurements of one metric in one unit")
    known = [run for run in runs if run.value is not None]
    if len(known) < 2:
        return _alone(known[0] if known else runs[0], scope)
    values = [float(run.value) for run in known if run.value is not None]
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    mean = fmean(values)
    return Measurement(
        metric=known[0].metric,
        value=mean,
        unit=known[0].unit,
        unit_definition=known[0].unit_definition,
        ci_low=mean - half,
        ci_high=mean + half,
        confidence=CONFIDENCE,
        n=float(len(values)),
        scope=f"{scope}; {len(values)} runs, variance between runs",
        method=f"mean over runs, Student's t; each run: {known[0].method}",
        subject=known[0].subject,
    )


def _alone(run: Measurement, scope: str) -> Measurement:
    fields = run.to_json()
    fields["scope"] = f"{scope}; a single run, variance within the run only" if run.value is not None else run.scope
    return Measurement.from_json(fields)


def compare(baseline: Sequence[float], candidate: Sequence[float]) -> Comparison:
    """Compare the rates of two cells' runs.

    Raises:
        ValueError: a side is empty or a rate is not positive.
    """
    if not baseline or not candidate or min(*baseline, *candidate) <= 0:
        raise ValueError("compare wants positive rates on both sides")
    a, b = [math.log(rate) for rate in baseline], [math.log(rate) for rate in candidate]
    ratio = math.exp(fmean(b) - fmean(a))
    n_a, n_b = len(a), len(b)
    if min(n_a, n_b) < 2:
        text = f"{_percent(ratio)}, but a side has a single run: cannot tell"
        return Comparison(ratio, None, None, None, n_a, n_b, "too_few_runs", text)
    low, high = _welch(a, b)
    smallest = math.expm1(detectable(pooled_deviation([a, b]), n_a, n_b))
    verdict, text = _verdict(ratio, low, high, smallest)
    return Comparison(ratio, low, high, smallest, n_a, n_b, verdict, text)


def _welch(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    part_a, part_b = stdev(a) ** 2 / len(a), stdev(b) ** 2 / len(b)
    difference, error = fmean(b) - fmean(a), math.sqrt(part_a + part_b)
    if error == 0:
        return math.exp(difference), math.exp(difference)
    degrees = (part_a + part_b) ** 2 / (part_a**2 / (len(a) - 1) + part_b**2 / (len(b) - 1))  # Welch-Satterthwaite
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, degrees)) * error
    return math.exp(difference - half), math.exp(difference + half)


def _verdict(ratio: float, low: float, high: float, smallest: float) -> tuple[str, str]:
    bounds = f"(95 % interval {_percent(low)} to {_percent(high)})"
    if low <= 1.0 <= high:
        return (
            "no_difference_found",
            f"cannot tell: {_percent(ratio)} {bounds}; differences below {smallest:.1%} are not seen",
        )
    word = "faster" if ratio > 1 else "slower"
    return word, f"{word}: {_percent(ratio)} {bounds}"


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"


def pooled_deviation(groups: Sequence[Sequence[float]]) -> float:
    """Return the pooled standard deviation of groups of two or more values each."""
    usable = [group for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in usable)
    return math.sqrt(sum((len(group) - 1) * stdev(group) ** 2 for group in usable) / freedom)


def detectable(deviation: float, n_baseline: int, n_candidate: int, power: float = POWER) -> float:
    """Return the smallest true difference, in ``deviation``'s unit, that a two-sided 5 % test finds with ``power``."""
    degrees = n_baseline + n_candidate - 2
    if degrees < 1:
        return math.inf
    if deviation == 0:
        return 0.0
    scale = deviation * math.sqrt(1 / n_baseline + 1 / n_candidate)
    critical = float(stats.t.ppf(0.5 + CONFIDENCE / 2, degrees))

    def shortfall(noncentrality: float) -> float:
        upper, lower = stats.nct.sf(critical, degrees, noncentrality), stats.nct.cdf(-critical, degrees, noncentrality)
        return float(upper + (lower if math.isfinite(lower) else 0.0)) - power

    return scale * float(optimize.brentq(shortfall, 0.01, 20.0 * max(1.0, critical)))
