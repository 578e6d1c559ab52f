"""The figure of a series night by night: what its plot in a terminal shows, with colours for places."""

import textwrap
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from orchestrator.reports.drawing import plot
from orchestrator.reports.figures import vega
from orchestrator.reports.tables import history

Json = Mapping[str, Any]
NOTE = 110  # signs of a line below the title


def figure(found: Json) -> vega.Json:
    """``found``: what REST answers of one series.

    Raises:
        ValueError: no point has a number.
    """
    shown = history.shown(found)
    if not shown.marks:
        raise ValueError("no night has a number")
    low, high = plot.span(shown)
    places = {plot.marker(place["id"]): place["name"] for place in found["places"]}
    rows = [
        {
            "at": _instant(mark.x),
            "value": mark.y,
            "place": places.get(mark.marker, "?"),
            # An interval that reaches far beyond all values ends where the drawing does.
            "low": None if mark.low is None else max(mark.low, low),
            "high": None if mark.high is None else min(mark.high, high),
        }
        for mark in shown.marks
    ]
    x = vega.instant("at")
    title = f"{found['unit'] or 'throughput'} (95 % intervals)"
    y = vega.quantity("value", title, domain=[low, high])
    colour = vega.named("place", list(dict.fromkeys(row["place"] for row in rows)))
    points = {
        "data": vega.data(rows),
        "mark": {"type": "point", "filled": True, "size": 45},
        "encoding": {"x": x, "y": y, "color": colour},
    }
    layers = [_levels(found, shown, x, y, colour), vega.intervals(rows, x, y, color=colour), points]
    return vega.chart(
        history.workload_text(found["workload"], ())[:88],
        *layers,
        *_borders(shown.borders),
        notes=_notes(found),
    )


def _levels(found: Json, shown: plot.Plot, x: vega.Json, y: vega.Json, colour: vega.Json) -> vega.Json:
    """The baselines, as long as they hold."""
    names = {place["id"]: place["name"] for place in found["places"]}
    rows = [
        {"at": _instant(level.first), "until": _instant(level.last), "value": level.y, "place": names[one["place"]]}
        for level, one in zip(shown.levels, found["baselines"], strict=True)
    ]
    encoding = {"x": x, "x2": {"field": "until"}, "y": y, "color": colour}
    return {"data": vega.data(rows), "mark": {"type": "rule", "strokeWidth": 2}, "encoding": encoding}


def _borders(borders: Sequence[plot.Border]) -> list[vega.Json]:
    if not borders:
        return []
    rows = vega.data([{"at": _instant(one.x), "name": one.text} for one in borders])
    rule = {"mark": {"type": "rule", "color": vega.FAINT, "strokeDash": [3, 3]}}
    name = {
        "mark": {"type": "text", "dy": -7, "color": vega.FAINT},
        "encoding": {"y": {"value": 0}, "text": {"field": "name"}},
    }
    return [{"data": rows, "encoding": {"x": vega.instant("at")}, "layer": [rule, name]}]


def _notes(found: Json) -> list[str]:
    levels = ["line: level of a baseline"] if found["baselines"] else []
    borders = [line for text in history.border_lines(found) for line in textwrap.wrap(text, NOTE)]
    return levels + borders


def _instant(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
