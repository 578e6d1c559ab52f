"""The figure of a run: the time of its steps, and how busy its machines were, on one clock, its phases apart."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.reports.figures import vega

Json = Mapping[str, Any]
PHASES = ("warm-up", "timed", "after")
_SHADES = ("#f3e3c3", "#dcebf7", "#eeeeee")
POINTS = 800  # of a series, twice: more than there are pixels to tell them apart
_BUSY = {"cpu_cores_busy": "CPU cores busy", "gpus_busy": "GPUs busy"}


def figure(run_id: str, found: Json, from_s: float = 0.0, to_s: float | None = None) -> vega.Json:
    """``found``: what REST answers of the run over its time, from ``from_s`` to ``to_s`` (None: its end).

    Raises:
        ValueError: no step was reported.
    """
    steps = [one for one in found["items"] if one["metric"] == "step_time_s"]
    if not steps:
        raise ValueError("no step was reported")
    end_s = found["end_s"] if to_s is None else min(to_s, found["end_s"])
    busy = [one for one in found["items"] if one["metric"] in _BUSY]
    several = len({one["subject"] for one in busy}) > 1
    names = [_BUSY[one["metric"]] + (f", {one['subject']}" if several else "") for one in busy]
    shades = list(_shades(found["phases"], from_s, end_s))
    # Clamped: lines come from a point before and lead to one behind.
    x = vega.quantity("s", None, nice=False, clamp=True, domain=[from_s, max(end_s, from_s + 1e-9)])
    millis = vega.quantity("value", "step (ms)", zero=True)
    drawn = [_panel(shades, _line(steps, [one["subject"] for one in steps], x, millis, 1e3))]
    if busy:
        x = x | {"title": "seconds since the first step began"}
        drawn.append(_panel(shades, _line(busy, names, x, vega.quantity("value", "busy", zero=True), 1.0)))
        drawn[-1]["height"] = vega.HEIGHT // 3
    return vega.below_each_other(f"{run_id}: steps, and what was busy", drawn)


def _shades(phases: Json, from_s: float, end_s: float) -> Iterator[dict[str, Any]]:
    """When each phase was, of what is drawn; what follows the last step is profiles and the end."""
    ends = [0.0, phases.get("warm-up", 0.0), phases.get("timed", end_s), end_s]
    for phase, low, high in zip(PHASES, ends, ends[1:], strict=False):
        low, high = max(low, from_s), min(high, end_s)
        if high > low:
            yield {"from": low, "to": high, "phase": phase}


def _line(series: Sequence[Json], names: Sequence[str], x: vega.Json, y: vega.Json, factor: float) -> vega.Json:
    rows = [
        {"s": at, "value": factor * value, "what": name}
        for one, name in zip(series, names, strict=True)
        for at, least, greatest in one["points"]
        for value in ((least,) if least == greatest else (least, greatest))
    ]
    encoding = {"x": x, "y": y, "color": vega.named("what", names, "stroke")}
    return {"data": vega.data(rows), "mark": {"type": "line", "strokeWidth": 1}, "encoding": encoding}


def _panel(shades: Sequence[dict[str, Any]], line: vega.Json) -> vega.Json:
    x = line["encoding"]["x"]
    scale = {"domain": list(PHASES), "range": list(_SHADES)}
    phase = {"field": "phase", "type": "nominal", "title": None, "scale": scale}
    encoding = {"x": x | {"field": "from"}, "x2": {"field": "to"}, "fill": phase}
    back = {"data": vega.data(shades), "mark": {"type": "rect"}, "encoding": encoding}
    return {"width": vega.WIDTH, "height": vega.HEIGHT // 2, "layer": [back, line]}
