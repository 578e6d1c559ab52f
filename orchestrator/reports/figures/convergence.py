"""The figure of runs to convergence: quality over the time of training (TBD, figure 2)."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.reports.figures import vega

Json = Mapping[str, Any]


def figure(runs: Sequence[Json]) -> vega.Json:
    """The curves of ``runs``, as REST answers them: one line a run, those of a cell in one colour.

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
    rows = [
        {"trained_s": trained_s, "quality": quality, "cell": _cell(run), "run": _run(run)}
        for run, found in told
        for trained_s, quality in _points(found)
    ]
    cells = list(dict.fromkeys(_cell(run) for run, _ in told))
    axes = {"x": vega.quantity("trained_s", "seconds of training, without evaluations", zero=True)}
    axes["y"] = vega.quantity("quality", metrics[0])
    curves = {
        "data": vega.data(rows),
        "mark": {"type": "line", "point": {"size": 30}},
        "encoding": axes | {"color": vega.named("cell", cells, "stroke"), "detail": {"field": "run"}},
    }
    targets = sorted({found["target"] for _, found in told if found["target"] is not None})
    title = f"{metrics[0]} on samples that are kept apart"
    return vega.chart(title, curves, *(_target(one, metrics[0]) for one in targets))


def _target(value: float, metric: str) -> vega.Json:
    return {
        "data": vega.data([{"quality": value, "text": f"target {value:g}"}]),
        "encoding": {"y": vega.quantity("quality", metric)},
        "layer": [
            {"mark": {"type": "rule", "color": vega.FAINT, "strokeDash": [4, 4]}},
            {
                "mark": {"type": "text", "align": "left", "dy": -6, "color": vega.FAINT},
                "encoding": {"x": {"value": 4}, "text": {"field": "text"}},
            },
        ],
    }


def _points(found: Json) -> list[tuple[float, float]]:
    return [(one["trained_s"], one["quality"]) for one in found["curve"] if one["quality"] is not None]


def _cell(run: Json) -> str:
    plan = run["plan"]
    return f"{plan['model']} {plan['framework']}"


def _run(run: Json) -> str:
    return f"{_cell(run)} {run['plan']['repetition']}"
