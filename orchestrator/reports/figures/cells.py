"""The figures that TBD shows of cells, for what there is: by batch size its figures 4 to 7, and memory by class, 9.

Zhu et al., "Benchmarking and Analyzing Deep Neural Network Training" (IISWC 2018), section 4.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.domain.asked.fields import BY_NAME
from orchestrator.domain.value.profile import PAPER_CLASSES
from orchestrator.reports.figures import vega
from orchestrator.reports.numbers import ends_of, value_of
from orchestrator.reports.results_table import cell_text, differing_axes, differing_options

Json = Mapping[str, Any]
BATCH = "per_device_batch_size"
# What is drawn of each model: metric, what it is called, its unit on the axis (None: the model's own), and by how much
# its values are multiplied for that.
DRAWN = (
    ("throughput", "throughput", None, 1.0),
    ("compute_utilization_ratio", "compute utilisation", "%", 100.0),
    ("fp32_utilization_ratio", "FP32 utilisation", "%", 100.0),
    ("cpu_utilization_ratio", "CPU utilisation", "%", 100.0),
    ("peak_memory_bytes", "peak memory", "GiB", 2.0**-30),
)
RESIDUAL = "residual"


def figures(rows: Sequence[Json]) -> Iterator[vega.Json]:
    """One for each model and metric that two cells or more have: over the batch size, or where all have the same, of
    each cell. ``rows``: results as REST answers them."""
    for model in dict.fromkeys(row["axes"]["model"] for row in rows):
        mine = [row for row in rows if row["axes"]["model"] == model]
        for metric, name, unit, factor in DRAWN:
            known = [row for row in mine if isinstance(value_of(row[metric]), int | float)]
            if len(known) > 1:
                yield _figure(f"{model}: {name}", known, metric, f"{name} ({unit or known[0][metric]['unit']})", factor)


def memory_figure(profiles: Sequence[tuple[str, Json]]) -> vega.Json:
    """Memory by class when the whole was greatest, a bar for each of ``profiles``: (its name, REST's answer).

    Raises:
        ValueError: there is none.
    """
    if not profiles:
        raise ValueError("no run was profiled: --profile memory")
    rows = [
        {"cell": name, "class": kind.replace("_", " "), "place": place, "gib": size / 2**30}
        for name, found in profiles
        for place, (kind, size) in enumerate(_sizes(found))
    ]
    names = [kind.replace("_", " ") for kind in (*PAPER_CLASSES, RESIDUAL)]
    bars = {
        "data": vega.data(rows),
        "mark": "bar",
        "encoding": {
            "y": {"field": "cell", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 240}},
            "x": vega.quantity("gib", "memory at the peak (GiB)", zero=True),
            "color": vega.named("class", names, "square"),
            "order": {"field": "place"},
        },
    }
    return vega.chart("memory by class", bars) | {"height": {"step": 26}}


def _sizes(found: Json) -> Iterator[tuple[str, float]]:
    for kind in PAPER_CLASSES:
        yield kind, found["classes"][kind]["at_peak_bytes"]
    yield RESIDUAL, max(0, found["residual_bytes"])


def _figure(text: str, rows: Sequence[Json], metric: str, title: str, factor: float) -> vega.Json:
    points = [_point(row, rows, metric, factor) for row in rows]
    told = vega.quantity("value", title, zero=True)
    if title.endswith("(%)"):  # no share is more than all: an interval that reaches beyond it ends there
        points = [point | {"high": point["high"] and min(point["high"], 100.0)} for point in points]
        told = vega.quantity("value", title, domain=[0, 100])
    if len({point["batch"] for point in points}) == 1:
        return _of_each_cell(text, points, told)
    return _over_batches(text, points, told)


def _over_batches(text: str, points: Sequence[Json], y: vega.Json) -> vega.Json:
    batches = sorted({point["batch"] for point in points})
    x = vega.quantity("batch", "batch of a device", type="log", base=2, padding=12, nice=False) | {
        "axis": {"values": batches}
    }
    lines = list(dict.fromkeys(point["line"] for point in points))
    colour = vega.named("line", lines, "stroke")
    marks = {"x": x, "y": y, "color": colour}
    stroke = marks | {"strokeDash": vega.dashed("line", lines)}
    return vega.chart(
        text,
        {"data": vega.data(points), "mark": "line", "encoding": stroke},
        vega.intervals(points, x, y, color=colour),
        {"data": vega.data(points), "mark": {"type": "point", "filled": True, "size": 45}, "encoding": marks},
    )


def _of_each_cell(text: str, points: Sequence[Json], x: vega.Json) -> vega.Json:
    y = {"field": "line", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 240}}
    known = [point for point in points if point["low"] is not None]
    bars = {
        "data": vega.data(known),
        "mark": vega.BAR,
        "encoding": {"y": y, "x": x | {"field": "low"}, "x2": {"field": "high"}},
    }
    marks = {"mark": {"type": "point", "filled": True, "size": 45}, "encoding": {"y": y, "x": x}}
    drawn = vega.chart(text, bars, {"data": vega.data(points)} | marks, notes=["with 95 % intervals over runs"])
    return drawn | {"height": {"step": 26}}


def _point(row: Json, rows: Sequence[Json], metric: str, factor: float) -> dict[str, Any]:
    low, high = ends_of(row[metric]) or (None, None)
    return {
        "batch": row["axes"][BATCH],
        "line": cell_name(row, rows),
        "value": row[metric]["value"] * factor,
        "low": None if low is None else low * factor,
        "high": None if high is None else high * factor,
    }


def cell_name(row: Json, rows: Sequence[Json], but: Sequence[str] = ("model", BATCH)) -> str:
    """By what a cell differs from the others of ``rows``, without the axes ``but``."""
    axes = [axis for axis in differing_axes(rows) if axis not in but] or ["framework"]
    differing = differing_options([one["axes"]["options"] for one in rows])
    return ", ".join(f"{BY_NAME[axis].word} {cell_text(row['axes'], axis, differing)}".strip() for axis in axes)
