"""The figure of runs to convergence: quality over the time of training (TBD, figure 2)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.reports.drawing.svg import Chart, Line, Point, drawn

Json = Mapping[str, Any]
_STEPS = 5  # of an axis, at most so many


def figure(runs: Sequence[Json]) -> str:
    """The curves of ``runs``, as REST answers them, as SVG: one line a run, those of a cell in one colour.

    Raises:
        ValueError: no run has two evaluations or more, or they are judged by different metrics.
    """
    told = [(run, run["summary"]["convergence"]) for run in runs if (run["summary"] or {}).get("convergence")]
    told = [(run, found) for run, found in told if len(_points(found)) > 1]
    if not told:
        raise ValueError("no run has been evaluated twice: there is no curve")
    metrics = sorted({found["metric"] for _, found in told})
    if len(metrics) > 1:
        raise ValueError(f"the runs are judged by different metrics ({', '.join(metrics)}): draw them one by one")
    cells = list(dict.fromkeys(_cell(run) for run, _ in told))
    lines = [
        Line(f"{_cell(run)} {run['plan']['repetition']}", _points(found), colour=cells.index(_cell(run)))
        for run, found in told
    ]
    points = [point for line in lines for point in line.points]
    end = max(point.x for point in points)
    targets = sorted({found["target"] for _, found in told if found["target"] is not None})
    lines += [Line(f"target {one:g}", [Point(0.0, one), Point(end, one)], faint=True) for one in targets]
    values = [point.y for point in points] + targets
    return drawn(
        Chart(
            title=f"{metrics[0]} on samples that are kept apart",
            x_label="seconds of training, without evaluations",
            y_label=metrics[0],
            x_ticks=ticks(0.0, end),
            y_ticks=ticks(min(values), max(values)),
            lines=lines,
        )
    )


def ticks(low: float, high: float) -> list[float]:
    """Round values of equal distance (1, 2 or 5 times a power of ten) that span ``low`` to ``high``."""
    span = high - low if high > low else max(abs(high), 1.0)
    least = span / _STEPS
    power = 10.0 ** math.floor(math.log10(least))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, max(last, first + 1) + 1)]


def _points(found: Json) -> list[Point]:
    return [Point(one["trained_s"], one["quality"]) for one in found["curve"] if one["quality"] is not None]


def _cell(run: Json) -> str:
    plan = run["plan"]
    return f"{plan['model']} {plan['framework']}"
