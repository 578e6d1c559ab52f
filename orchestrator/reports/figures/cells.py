"""The figures that TBD shows of cells, for what there is: 4 to 7 by batch size, 8 by GPU, 9 of memory by class.

Zhu et al., "Benchmarking and Analyzing Deep Neural Network Training" (IISWC 2018), section 4.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.domain.asked.fields import BY_NAME
from orchestrator.domain.value.profile import PAPER_CLASSES
from orchestrator.reports.figures import vega
from orchestrator.reports.numbers import comparable, ends_of, plain, value_of
from orchestrator.reports.tables.results_table import cell_text, differing_axes, differing_options

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
FEWEST_IN_A_MAP, MOST_LINES = 4, 60  # cells; lines. A table tells of fewer: judgements


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


def gpus_figure(rows: Sequence[Json]) -> vega.Json:
    """The throughput of the same cells on different GPUs, as a multiple of that on the first one (TBD's Figure 8).

    Raises:
        ValueError: no cell has a number on two models of GPUs.
    """
    by_cell: dict[str, dict[str, float]] = {}
    for row in rows:
        gpu = row["axes"]["nodes"]["gpu_model"]
        if gpu and row["throughput"] and isinstance(row["throughput"]["value"], int | float):
            by_cell.setdefault(cell_name(row, rows, but=("nodes",)), {})[gpu] = row["throughput"]["value"]
    gpus = list(dict.fromkeys(gpu for rates in by_cell.values() for gpu in rates))
    values = [
        {"cell": name, "gpu": gpu, "times": rate / rates[gpus[0]]}
        for name, rates in by_cell.items()
        if len(rates) > 1 and gpus[0] in rates
        for gpu, rate in rates.items()
    ]
    if not values:
        raise ValueError("no cell was measured on two models of GPUs")
    y = {"field": "cell", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 240}}
    x = vega.quantity("times", f"throughput, as a multiple of that on {gpus[0]}", zero=True)
    marks = {"y": y, "x": x, "color": vega.named("gpu", gpus)}
    points = {"data": vega.data(values), "mark": {"type": "point", "filled": True, "size": 60}, "encoding": marks}
    return vega.chart("the same cells on different GPUs", points) | {"height": {"step": 26}}


def heat_map(rows: Sequence[Json]) -> vega.Json:
    """The throughput of each cell beside the best of its line: one axis across, all others down the side.

    Raises:
        ValueError: fewer than two axes have several values, too few cells have a number, or too many.
    """
    known = [row for row in rows if row["throughput"] and isinstance(row["throughput"]["value"], int | float)]
    several = {axis: len({repr(row["axes"][axis]) for row in known}) for axis in differing_axes(known)} if known else {}
    if len(several) < 2 or len(known) < FEWEST_IN_A_MAP:
        raise ValueError("a heat map takes two axes with several values each")
    across = max(several, key=lambda axis: several[axis])
    differing = differing_options([row["axes"]["options"] for row in known])
    cells = [(cell_name(row, known, but=(across,)), cell_text(row["axes"], across, differing), row) for row in known]
    best: dict[str, float] = {}
    for line, _, row in cells:
        best[line] = max(best.get(line, 0.0), row["throughput"]["value"])
    if len(best) > MOST_LINES:
        raise ValueError(f"a heat map has {MOST_LINES} lines at most")
    values = [
        {"line": line, "across": text, "share": row["throughput"]["value"] / best[line], "rate": _short(row)}
        for line, text, row in cells
    ]
    order = list(
        dict.fromkeys(text for _, text, _ in sorted(cells, key=lambda cell: comparable(cell[2]["axes"][across])))
    )
    place = {
        "x": {
            "field": "across",
            "type": "nominal",
            "title": BY_NAME[across].word,
            "sort": order,
            "axis": {"orient": "top"},
        },
        "y": {"field": "line", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 240}},
    }
    share = vega.quantity("share", "of the best in its line", domain=[0, 1], scheme="blues")
    label = {"condition": {"test": "datum.share > 0.6", "value": "white"}, "value": "black"}
    return vega.chart(
        "throughput of all cells",
        {"data": vega.data(values), "mark": "rect", "encoding": place | {"color": share}},
        {"data": vega.data(values), "mark": "text", "encoding": place | {"text": {"field": "rate"}, "color": label}},
        notes=[f"in {', '.join(sorted({row['throughput']['unit'] for row in known}))}"],
    ) | {"height": {"step": 26}}


def _short(row: Json) -> str:
    return plain(row["throughput"]["value"], 3)


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
