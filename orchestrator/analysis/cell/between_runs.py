"""Error bars over runs: fresh processes are the independent repetitions, iterations of one process are not.

interval        Student's t of the runs' values, nodes apart (``nested``), on the scale of their metric (``Scale``): of
                what is positive on the logarithms, so that the mean is the geometric one and no interval reaches 0. No
                bootstrap: of three runs with normal noise its 95 % interval holds the mean in two cases of three.
                Stein's two stages where the variance of runs decided how many there are. A cell of few runs may be
                lent its deviation by history (``lending``). A single run has no interval: what it knows of itself is
                how its steps differ, not how runs differ
comparison      Welch's t on the logarithms, so that what is compared is a ratio. Welch, not pooled: two frameworks
                need not be equally noisy, and the price at three runs a side is small
detectable      noncentral t with the pooled deviation: what would be found with 80 % probability at 5 % two-sided
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from scipy import special

from orchestrator.analysis.cell.lending import FEW, Lent
from orchestrator.analysis.statistics import blocks, nested
from orchestrator.domain.runs import wanted_precision
from orchestrator.domain.value.measurement import METRICS, Measurement, Scale
from orchestrator.domain.value.variation import Components, Movement

CONFIDENCE = 0.95
THESE_DEVICES = "these devices"
BY_NODES = "over nodes of the means over runs, Student's t"
METHOD = "Welch's t on logarithms of the runs' rates"


@dataclass(frozen=True)
class Comparison:
    """B against A.

    Attributes:
        ratio: B / A of the mean rates; above 1, B is faster. ``ci_low`` and ``ci_high`` bound it; None below two runs
            a side.
        detectable_ratio: smallest difference (0.03: 3 %) that these numbers of runs find with 80 % probability.
        verdict: ``faster``, ``slower``, ``no_difference_found`` or ``too_few_runs``.
        text: the verdict in words.
        p: of no difference, two-sided; None below two runs a side.
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
    method: str = METHOD
    p: float | None = None


def over_runs(
    runs: Sequence[Measurement],
    scope: str = THESE_DEVICES,
    places: Sequence[str] | None = None,
    first_stage: int | None = None,
    lent: Lent | None = None,
) -> Measurement:
    """Return the measurement of a cell from those of its runs (one metric, one unit).

    Runs without a value are left out. The mean is over runs, unweighted: long runs are no better witnesses of how
    processes differ. Of a positive metric it is the geometric mean (``Scale``). A single run gives a value without an
    interval. With two or more the interval comes from the variance between runs; where they ran on several nodes from
    that within nodes, each node counting the same.

    Args:
        places: the node (or nodes) of each run; None where that does not matter or is not known.
        first_stage: of runs whose variance decided how many there had to be, how many of them (with a value, at the
            beginning) told. The interval is then Stein's.
        lent: a deviation from history on the node (``lending.lend``), for a cell of fewer than ``lending.FEW`` runs on
            one node.

    Raises:
        ValueError: no runs, or their metrics or units differ.
    """
    if not runs or len({(run.metric, run.unit) for run in runs}) != 1:
        raise ValueError("over_runs wants measurements of one metric in one unit")
    where = list(places) if places is not None else ["" for _ in runs]
    known = [(run, float(run.value), place) for run, place in zip(runs, where, strict=True) if run.value is not None]
    values, of_known = [value for _, value, _ in known], [place for _, _, place in known]
    scale = _scale(runs[0].metric, values)
    numbers = scaled(scale, values)
    found = (_lent(numbers, of_known, lent) if scale is Scale.POSITIVE else None) or _staged(numbers, first_stage)
    if found is None and len(known) < 2:
        return _alone(known[0][0] if known else runs[0], scope)
    found = found or _nested(numbers, of_known)
    value, low, high = unscaled(scale, found.mean)
    return Measurement(
        metric=runs[0].metric,
        value=value,
        unit=runs[0].unit,
        unit_definition=runs[0].unit_definition,
        ci_low=low,
        ci_high=high,
        confidence=CONFIDENCE,
        n=float(len(values)),
        scope=f"{scope}; {found.scope}",
        method=f"{_METHODS[scale].format(found.method)}; each run: {known[0][0].method}",
        subject=runs[0].subject,
    )


_METHODS = {
    Scale.POSITIVE: "geometric mean {} on logarithms",
    Scale.FROM_ZERO: "mean {}, no interval below 0",
    Scale.ANY: "mean {}",
}


def _scale(metric: str, values: Sequence[float]) -> Scale:
    """The scale of a metric, for these values of it: a logarithm takes no 0."""
    scale = METRICS[metric][2] if metric in METRICS else Scale.ANY
    if scale is Scale.POSITIVE and not all(value > 0 for value in values):
        scale = Scale.FROM_ZERO
    return Scale.ANY if any(value < 0 for value in values) else scale


def scaled(scale: Scale, values: Sequence[float]) -> list[float]:
    """The numbers of which a mean and its interval are made."""
    return [math.log(value) for value in values] if scale is Scale.POSITIVE else list(values)


def unscaled(scale: Scale, mean: nested.Mean) -> tuple[float, float, float]:
    """(mean, lower and upper end of its interval) in the unit of the values."""
    ends = mean.value, mean.value - mean.half_width, mean.value + mean.half_width
    if scale is Scale.POSITIVE:
        value, low, high = map(wanted_precision.power, ends)
        return value, low, high
    return ends if scale is Scale.ANY else (ends[0], max(0.0, ends[1]), ends[2])


@dataclass(frozen=True)
class _Estimate:
    mean: nested.Mean
    scope: str
    method: str


def _lent(values: Sequence[float], places: Sequence[str], lent: Lent | None) -> _Estimate | None:
    """The interval of a few runs on one node from history's deviation, of their logarithms; None where that is not to
    be used."""
    if lent is None or not 0 < len(values) < FEW or len(set(places)) > 1:
        return None
    found = nested.Mean(fmean(values), lent.half_width(len(values)), lent.sessions)
    runs = "1 run" if len(values) == 1 else f"{len(values)} runs"
    return _Estimate(found, f"{runs}, {lent.text}", "over runs, deviation from history")


def _staged(values: Sequence[float], first: int | None) -> _Estimate | None:
    """Stein's interval; None where there was no first stage of two or more."""
    if first is None or min(first, len(values)) < 2:
        return None
    first = min(first, len(values))
    half = wanted_precision.scale_of(values, first) / math.sqrt(len(values))
    scope = f"{len(values)} runs, variance between the first {first}"
    return _Estimate(nested.Mean(fmean(values), half, first - 1), scope, "over runs, Stein's two stages")


def _nested(values: Sequence[float], places: Sequence[str]) -> _Estimate:
    groups = nested.grouped(values, places)
    n, k = len(values), len(groups)
    of_nodes = nested.of_these_devices(groups) if k > 1 else None
    if of_nodes is not None:
        scope = f"{n} runs on {k} nodes, variance between runs of one node"
        return _Estimate(of_nodes, scope, BY_NODES)
    mean = nested.of_these_devices([values])
    assert mean is not None, "two values or more"
    scope = f"{n} runs, variance between runs" + ("; each on a node of its own" if k > 1 else "")
    return _Estimate(mean, scope, "over runs, Student's t")


def variation(runs: Sequence[Measurement], places: Sequence[str]) -> Components | None:
    """Return how much intervals, processes and nodes vary, of a positive metric; None without two runs that have a
    value above 0."""
    known = [
        (run, float(run.value), place)
        for run, place in zip(runs, places, strict=True)
        if run.value is not None and run.value > 0
    ]
    if len(known) < 2:
        return None
    errors = [
        math.log(run.ci_high / run.ci_low) / 2 / nested.quantile(max((run.n or 2.0) - 1, 3.0))
        for run, _, _ in known
        if run.ci_low is not None and run.ci_high is not None and run.ci_low > 0
    ]
    groups = nested.grouped([math.log(value) for _, value, _ in known], [place for _, _, place in known])
    return nested.components(groups, errors if len(errors) == len(known) else ())


def over_the_fleet(runs: Sequence[Measurement], places: Sequence[str]) -> Measurement | None:
    """Return the measurement for nodes like those of the runs, whose differences are in its interval; None for fewer
    than five nodes."""
    known = [(run, float(run.value), place) for run, place in zip(runs, places, strict=True) if run.value is not None]
    values = [value for _, value, _ in known]
    scale = _scale(known[0][0].metric, values)
    groups = nested.grouped(scaled(scale, values), [place for _, _, place in known])
    found = nested.of_the_fleet(groups)
    if found is None:
        return None
    value, low, high = unscaled(scale, found)
    return replace(
        known[0][0],
        value=value,
        ci_low=low,
        ci_high=high,
        confidence=CONFIDENCE,
        n=float(len(groups)),
        scope=f"fleet: nodes like these {len(groups)}; variance between nodes",
        method=f"{_METHODS[scale].format(BY_NODES)}; each run: {known[0][0].method}",
    )


def _alone(run: Measurement, scope: str) -> Measurement:
    """A single run says how fast that run was: its own interval, within the run, is not handed on."""
    alone = replace(run, ci_low=None, ci_high=None, confidence=None)
    return alone if run.value is None else replace(alone, scope=f"{scope}; a single run: no interval", n=1.0)


def compare(
    baseline: Sequence[float],
    candidate: Sequence[float],
    places: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
    first_stages: tuple[int | None, int | None] = (None, None),
    apart: bool = False,
    movement: Movement | None = None,
) -> Comparison:
    """Compare the rates of two cells' runs. Where both ran on the same several nodes, node by node.

    Args:
        places: the nodes of each side's runs.
        first_stages: of a side that was repeated for a wanted precision, how many runs at its beginning told how many
            there had to be. They alone say how noisy it is (``over_runs``); then nodes are not told apart.
        apart: whether the sides come from two sessions; a session is then one draw of where the series stands.
        movement: how far it moves between sessions (``lending.movement_of``); None where that is not known.

    Raises:
        ValueError: a side is empty or a rate is not positive.
    """
    if not baseline or not candidate or min(*baseline, *candidate) <= 0:
        raise ValueError("compare wants positive rates on both sides")
    sides = [_logarithms(rates, where) for rates, where in zip((baseline, candidate), places, strict=True)]
    staged = any(stage is not None for stage in first_stages)
    blocked = not staged and len(sides[0]) > 1 and sides[0].keys() == sides[1].keys()
    if not blocked:
        sides = [_logarithms(rates, None) for rates in (baseline, candidate)]
    a, b = ([side[place] for place in sorted(side)] for side in sides)
    difference = fmean([fmean(theirs) - fmean(mine) for mine, theirs in zip(a, b, strict=True)])
    noise = [
        [group[:stage] for group in groups] if stage is not None and stage > 1 else groups
        for groups, stage in zip((a, b), first_stages, strict=True)
    ]
    ratio, n_a, n_b = math.exp(difference), len(baseline), len(candidate)
    if any(_freedom(groups) < 1 for groups in noise):
        text = f"{_percent(ratio)}, but a side has a single run{' on each node' if blocked else ''}: cannot tell"
        return Comparison(ratio, None, None, None, n_a, n_b, "too_few_runs", text)
    moved = movement if apart else None
    error, degrees = _welch((a, b), noise, staged, moved)
    half = nested.quantile(degrees) * error
    low, high = wanted_precision.power(difference - half), wanted_precision.power(difference + half)
    smallest = wanted_precision.upper_side(_smallest((a, b), noise, moved))
    verdict, text = _verdict(ratio, low, high, smallest)
    if apart and movement is None:
        text += "; how far this series moves between sessions is not known, and not in the interval"
    method = f"{METHOD}{', node by node' if blocked else ''}{', noise of the first stage' if staged else ''}"
    method += ", with the series' movement between sessions" if moved else ""
    p = _p(difference, error, degrees)
    return Comparison(ratio, low, high, smallest, n_a, n_b, verdict, text, method=method, p=p)


def _smallest(
    sides: tuple[nested.Groups, nested.Groups], noise: Sequence[nested.Groups], moved: Movement | None
) -> float:
    """What would be found, as a difference of logarithms: noise pooled, the movement of two sessions added."""
    both = [*noise[0], *noise[1]]
    n_a, n_b = (sum(len(group) for group in side) for side in sides)
    deviation, degrees = pooled_deviation(both), float(_freedom(both))
    if moved is None or moved.deviation_ratio == 0.0:
        return detectable(deviation, n_a, n_b, degrees=degrees)
    runs, sessions = deviation**2 * (1 / n_a + 1 / n_b), 2 * moved.deviation_ratio**2
    total = runs + sessions
    degrees = total**2 / (runs**2 / degrees + sessions**2 / moved.degrees)
    return detectable(math.sqrt(total / (1 / n_a + 1 / n_b)), n_a, n_b, degrees=degrees)


def _logarithms(rates: Sequence[float], places: Sequence[str] | None) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for rate, place in zip(rates, places or [""] * len(rates), strict=True):
        found.setdefault(place, []).append(math.log(rate))
    return found


def _welch(
    sides: tuple[nested.Groups, nested.Groups],
    noise: Sequence[nested.Groups],
    staged: bool,
    moved: Movement | None = None,
) -> tuple[float, float]:
    """(standard error of the difference of two means over the same nodes (one, where there is but one), its degrees of
    freedom).

    ``noise`` has those runs of each side that tell how noisy it is. Where their noise decided how many runs there are
    (``staged``), both sides' errors are made alike, and each is a Student's t of its own (Chapman 1950, Annals of
    Mathematical Statistics 21:601). Welch-Satterthwaite is too narrow then; the fewer degrees of the two are not.
    """
    parts, freedom = [], []
    if moved is not None:
        parts, freedom = [2 * moved.deviation_ratio**2], [moved.degrees]  # each side is one session
    for groups, telling in zip(sides, noise, strict=True):
        parts.append(pooled_deviation(telling) ** 2 * sum(1 / len(group) for group in groups) / len(groups) ** 2)
        freedom.append(_freedom(telling))
    variance = sum(parts)
    if variance == 0:
        return 0.0, min(freedom)
    welch = variance**2 / sum(part**2 / free for part, free in zip(parts, freedom, strict=True))
    return math.sqrt(variance), min(freedom) if staged else welch


def _p(difference: float, error: float, degrees: float) -> float:
    """Of the hypothesis that there is no difference, two-sided."""
    if error == 0.0:
        return 1.0 if difference == 0.0 else 0.0
    return float(2.0 * special.stdtr(degrees, -abs(difference) / error))


def _freedom(groups: nested.Groups) -> int:
    return sum(len(group) - 1 for group in groups)


def _verdict(ratio: float, low: float, high: float, smallest: float) -> tuple[str, str]:
    bounds = f"(95 % interval {_percent(low)} to {_percent(high)})"
    if low <= 1.0 <= high:
        return "no_difference_found", f"cannot tell below {smallest:.1%}: {_percent(ratio)} {bounds}"
    word = "faster" if ratio > 1 else "slower"
    return word, f"{word}: {_percent(ratio)} {bounds}"


def _percent(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"


def pooled_deviation(groups: Sequence[Sequence[float]]) -> float:
    """Return the pooled standard deviation of groups of two or more values each."""
    usable = [group for group in groups if len(group) > 1]
    freedom = sum(len(group) - 1 for group in usable)
    return math.sqrt(sum((len(group) - 1) * stdev(group) ** 2 for group in usable) / freedom)


def detectable(deviation: float, n_baseline: int, n_candidate: int, degrees: float | None = None) -> float:
    """Return the smallest true difference, in ``deviation``'s unit, that a two-sided 5 % test finds with 80 %
    probability.

    ``degrees`` of freedom behind the deviation are two fewer than the runs where it is not said otherwise.
    """
    degrees = n_baseline + n_candidate - 2 if degrees is None else degrees
    if degrees < 1:
        return math.inf
    return blocks.detectable(deviation * math.sqrt(1 / n_baseline + 1 / n_candidate), degrees, blocks.FAMILY_ERROR)
