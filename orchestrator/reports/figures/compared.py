"""The figure of several things against one: how much faster or slower each is, cell by cell, with intervals."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.reports.figures import vega
from orchestrator.reports.figures.cells import cell_name
from orchestrator.reports.tables.results_table import differing_axes

Json = Mapping[str, Any]
LINE = 18  # pixels from one to the next
VERDICTS = ("faster", "slower", "cannot tell")


def figure(first: str, compared: Sequence[tuple[str, Json]]) -> vega.Json:
    """A line of each cell of each of them.

    Args:
        first: the name of what they are held against.
        compared: the name of each, and REST's answer for the two.

    Raises:
        ValueError: no cell of any of them has a rate on both sides.
    """
    rows = _rows(compared)
    if not rows:
        raise ValueError("no cell has a rate on both sides")
    x = vega.quantity("value", "faster or slower (%, 95 % intervals)")
    labels = [row["line"] for row in rows]
    y = {"field": "line", "type": "nominal", "title": None, "sort": labels, "axis": {"labelLimit": 260}}
    colour = vega.named("verdict", [one for one in VERDICTS if any(row["verdict"] == one for row in rows)])
    same = {
        "data": vega.data([{"value": 0.0}]),
        "mark": {"type": "rule", "color": vega.FAINT, "strokeDash": [4, 4]},
        "encoding": {"x": x},
    }
    points = {
        "data": vega.data(rows),
        "mark": {"type": "point", "filled": True, "size": 45},
        "encoding": {"x": x, "y": y, "color": colour},
    }
    known = [row for row in rows if row["low"] is not None and row["high"] is not None]
    bars = {
        "data": vega.data(known),
        "mark": vega.BAR,
        "encoding": {"x": x | {"field": "low"}, "x2": {"field": "high"}, "y": y, "color": colour},
    }
    layers = [same, points, *([bars] if known else [])]
    return vega.chart(f"against {first}", *layers) | {"height": max(3, len(rows)) * LINE}


def _rows(compared: Sequence[tuple[str, Json]]) -> list[dict[str, Any]]:
    items = [item for _, found in compared for item in found["items"]]
    several = bool(differing_axes(items))
    rows = []
    for name, found in compared:
        for item in found["items"]:
            told = item["difference"]
            if told is None or not isinstance(told["value"], int | float):
                continue
            value, low, high = (
                None if told[end] is None else 100 * told[end] for end in ("value", "ci_low", "ci_high")
            )
            line = f"{name}: {cell_name(item, items, but=())}" if several else name
            verdict = item["verdict"].replace("_", " ")
            rows.append({"line": line, "value": value, "low": low, "high": high, "verdict": verdict})
    return rows
