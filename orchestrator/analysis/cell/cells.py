"""A cell's runs, measured from one common cut on.

The analysis of a run (``analyse``) knows that run only, and what was remembered when its job was made. Here all runs of
a cell are at hand. So one cut is found for all of them (``settling``), and what depends on it is measured anew from the
series that each run keeps. A run without a series (its analysis is older) stays as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from orchestrator.analysis.run import throughput
from orchestrator.analysis.statistics import settling
from orchestrator.analysis.statistics.autocorrelation import Floats
from orchestrator.domain.value.measurement import Analysis, Measurement
from orchestrator.domain.value.timed_intervals import Series
from orchestrator.domain.value.variation import Cut


@dataclass(frozen=True)
class Recut:
    """The runs of a cell after their common cut.

    Attributes:
        analyses: in the order given, with what depends on the cut measured anew.
        cut: in intervals; None where no run keeps its series.
        scouts: indices of runs that are too short for the cut and give no number.
    """

    analyses: tuple[Analysis, ...]
    cut: Cut | None
    scouts: frozenset[int]


def recut(analyses: Sequence[Analysis]) -> Recut:
    """Return the runs of a cell from their common cut on."""
    joined = _joined(analyses)
    cut = _cut(analyses, joined)
    if cut is None:
        return Recut(tuple(analyses), None, frozenset())
    lengths = [len(series) for series in joined.values()]
    scouts = frozenset(list(joined)[index] for index in settling.scouts(lengths, cut.first))
    measured = [_measured(one, joined.get(index), cut.first) for index, one in enumerate(analyses)]
    return Recut(tuple(measured), cut, scouts)


def cut_and_rates(analyses: Sequence[Analysis]) -> tuple[Cut | None, list[float]]:
    """Return the cut of ``recut`` and, of runs that keep their series, the rates after it: without all that is measured
    anew besides, which takes much longer."""
    joined = _joined(analyses)
    cut = _cut(analyses, joined)
    if cut is None:
        return None, []
    parts = [(analyses[index], _rest(series, cut.first)) for index, series in joined.items()]
    rated = [part for one, part in parts if one.measurement("throughput") is not None]
    return cut, [float(part.works.sum()) / float(part.durations_s.sum()) for part in rated]


def _joined(analyses: Sequence[Analysis]) -> dict[int, Series]:
    """Index -> the series of a run that keeps one, all with intervals of one width."""
    kept = {index: one.series for index, one in enumerate(analyses) if one.series is not None and len(one.series)}
    width = max((series.width for series in kept.values()), default=1)
    return {index: series.joined(width) for index, series in kept.items()}


def _cut(analyses: Sequence[Analysis], joined: Mapping[int, Series]) -> Cut | None:
    if not joined:
        return None
    width = next(iter(joined.values())).width
    return settling.cut_of([per_work(series) for series in joined.values()], _remembered(analyses, width))


def per_work(series: Series) -> Floats:
    """Time per unit of work, in seconds, by interval."""
    return np.array(series.durations_s) / np.array(series.works)


def _remembered(analyses: Sequence[Analysis], width: int) -> int | None:
    """What was remembered when the cell's first job was made: later history never changes a number."""
    known = [(one.summary.get("steady") or {}).get("remembered_cut") for one in analyses]
    first = next((cut for cut in known if cut is not None), None)
    return None if first is None else int(first) // width


def _measured(analysis: Analysis, series: Series | None, first: int) -> Analysis:
    if series is None:
        return analysis
    first = min(first, len(series) // 2)
    fresh = _from_the_cut(analysis, _rest(series, first), series, first)
    return replace(analysis, measurements=tuple(_renewed(one, fresh) for one in analysis.measurements))


def _rest(series: Series, first: int) -> throughput.WorldIntervals:
    """What comes after the cut, half of the run at least."""
    first = min(first, len(series) // 2)
    return throughput.WorldIntervals(
        np.array(series.durations_s[first:]),
        np.array(series.works[first:]),
        tuple(round(steps) for steps in series.steps[first:]),
        (),
    )


def _from_the_cut(
    analysis: Analysis, part: throughput.WorldIntervals, series: Series, first: int
) -> Mapping[str, float]:
    """metric -> its value over the intervals after the cut."""
    seconds = float(part.durations_s.sum())
    fresh = throughput.percentiles(part) | {
        "throughput": float(part.works.sum()) / seconds,
        "step_time_s": seconds / sum(part.steps),
    }
    own = (analysis.summary.get("steady") or {}).get("first_interval", first)
    known = {one.metric: one.value for one in analysis.measurements if one.subject is None}
    for metric, column in (("warmup_steps", series.steps), ("warmup_s", series.durations_s)):
        before = known.get(metric)
        if before is not None:
            # What was run before the timed phase stays; what the run's own cut added is replaced by the cell's.
            fresh[metric] = before - sum(column[: own // series.width]) + sum(column[:first])
    return fresh


def _renewed(measurement: Measurement, fresh: Mapping[str, float]) -> Measurement:
    """The interval within the run stays as its own analysis made it: only its width is asked for, and not here."""
    if measurement.subject is not None or measurement.metric not in fresh:
        return measurement
    return replace(measurement, value=fresh[measurement.metric])
