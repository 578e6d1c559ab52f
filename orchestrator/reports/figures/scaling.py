"""The figure of how an experiment scales: speed-up over the number of devices, with what would be ideal."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.reports.figures import vega
from orchestrator.reports.tables.comparison import heading
from orchestrator.reports.tables.results_table import axis_text

Json = Mapping[str, Any]
LOG = {"type": "log", "base": 2}


def figure(found: Json, title: str) -> vega.Json:
    """Both axes are logarithmic: what scales ideally is a straight line.

    Raises:
        ValueError: no cell of several devices has a speed-up.
    """
    rows = _rows(found["items"])
    if not rows:
        raise ValueError("no cell of several devices has a speed-up yet")
    largest = max(row["devices"] for row in rows)
    ticks = [2**power for power in range((largest - 1).bit_length() + 1)]
    x = vega.quantity("devices", "devices", **LOG) | {"axis": {"values": ticks}}
    y = vega.quantity("speedup", "speed-up (95 % intervals)", **LOG) | {"axis": {"values": ticks}}
    names = list(dict.fromkeys(row["line"] for row in rows))
    colour, dash = vega.named("line", names, "stroke"), vega.dashed("line", names)
    strokes = {"x": x, "y": y, "color": colour, "strokeDash": dash}
    ideal = {
        "data": vega.data([{"devices": one, "speedup": one} for one in (1, largest)]),
        "mark": {"type": "line", "color": vega.FAINT, "strokeDash": [4, 4]},
        "encoding": {"x": x, "y": y},
    }
    lines = {"data": vega.data(rows), "mark": "line", "encoding": strokes}
    points = {
        "data": vega.data(rows),
        "mark": {"type": "point", "filled": True, "size": 45},
        "encoding": {"x": x, "y": y, "color": colour},
    }
    text = f"{title}: {found['kind']} scaling"
    bars = vega.intervals(rows, x, y, color=colour)
    return vega.chart(text, ideal, lines, bars, points, notes=["grey: ideal, a device's rate for each device"])


def _rows(items: Sequence[Json]) -> list[dict[str, Any]]:
    """The points of each group that has several."""
    grouped: dict[str, list[dict[str, Any]]] = {}
    for item in items:
        if (ratio := item["speedup"]) is not None:
            line = _label(item["group"]) or "measured"
            row = {"line": line, "devices": item["world_size"], "speedup": ratio["value"]}
            grouped.setdefault(line, []).append(row | {"low": ratio["ci_low"], "high": ratio["ci_high"]})
    return [row for rows in grouped.values() if len(rows) > 1 for row in rows]


def _label(group: Json) -> str:
    return ", ".join(
        axis_text(value) if isinstance(value, str) else f"{heading(axis)} {axis_text(value)}"
        for axis, value in group.items()
    )
