"""The figure of a run: the time of its steps, and how busy its machine was, on one clock, its phases apart."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from orchestrator.reports.figures import vega

Json = Mapping[str, Any]
PHASES = ("warm-up", "timed", "after")
_SHADES = ("#f3e3c3", "#dcebf7", "#eeeeee")
MOST_POINTS = 800  # of a rank, twice: more than there are pixels to tell them apart
# What is drawn of a metric, added up over cores or GPUs: seconds are divided by those of the window.
_BUSY = {"core_active_s": "CPU cores busy", "busy_ratio": "GPUs busy"}


def figure(run: Json, intervals: Sequence[Json], readings: Sequence[Json]) -> vega.Json:
    """``run``, and its intervals and readings, as REST answers them; x is seconds since its first step began.

    Raises:
        ValueError: no interval was reported.
    """
    timed = [one for one in intervals if one["n"] > 0]
    if not timed:
        raise ValueError("no interval was reported")
    began = min(_at(one) - one["duration_s"] for one in timed)
    steps = [
        {"s": _at(one) - began, "ms": 1e3 * one["duration_s"] / one["n"], "rank": f"rank {one['rank']}"}
        for one in timed
    ]
    several = len({one["node"] for one in readings}) > 1
    busy = [
        {"s": _at(one) - began, "busy": value, "what": f"{what}, {one['node']}" if several else what}
        for one in readings
        for what, value in _values(one)
    ]
    shades = _shades(run, timed, began, max([row["s"] for row in (*steps, *busy)]))
    ranks = sorted({row["rank"] for row in steps})
    x = vega.quantity("s", None, nice=False)
    drawn = [
        _panel(shades, _line(_thinned(steps, ranks), x, vega.quantity("ms", "step (ms)", zero=True), "rank", ranks)),
    ]
    if busy:
        told = vega.quantity("busy", "busy", zero=True)
        kinds = sorted({row["what"] for row in busy})
        x = vega.quantity("s", "seconds since the first step began", nice=False)
        drawn.append(_panel(shades, _line(busy, x, told, "what", kinds)) | {"height": vega.HEIGHT // 3})
    return vega.below_each_other(f"{run['id']}: steps, and what was busy", drawn)


def _at(one: Json) -> float:
    return datetime.fromisoformat(one["at"]).timestamp()


def _values(reading: Json) -> Iterator[tuple[str, float]]:
    """What was busy in the window of a reading: cores, and GPUs."""
    found: dict[str, float] = {}
    for one in reading["values"]:
        if one["metric"] in _BUSY and one["value"] is not None:
            share = one["value"] / (reading["window_s"] if one["metric"].endswith("_s") else 1.0)
            found[_BUSY[one["metric"]]] = found.get(_BUSY[one["metric"]], 0.0) + share
    yield from found.items()


def _shades(run: Json, timed: Sequence[Json], began: float, end_s: float) -> list[dict[str, Any]]:
    """When each phase was: the warm-up as it was detected, and what follows the last step (profiles)."""
    steady = (run["summary"] or {}).get("steady") or {}
    steps = steady.get("warmup_steps") or 0
    warm_s = max([_at(one) - began for one in timed if one["first_step"] + one["n"] - 1 <= steps], default=0.0)
    last_s = max(_at(one) - began for one in timed)
    bounds = ((0.0, warm_s), (warm_s, last_s), (last_s, end_s))
    return [
        {"from": low, "to": high, "phase": phase}
        for phase, (low, high) in zip(PHASES, bounds, strict=True)
        if high > low
    ]


def _thinned(rows: Sequence[dict[str, Any]], ranks: Sequence[str]) -> list[dict[str, Any]]:
    """Of each rank no more than can be told apart: of neighbours the least and the greatest, so that outliers stay."""
    kept: list[dict[str, Any]] = []
    for rank in ranks:
        mine = sorted((row for row in rows if row["rank"] == rank), key=lambda row: row["s"])
        size = -(-len(mine) // MOST_POINTS)
        for first in range(0, len(mine), size):
            some = mine[first : first + size]
            ends = {id(one): one for one in (min(some, key=_ms), max(some, key=_ms))}
            kept += sorted(ends.values(), key=lambda row: row["s"])
    return kept


def _ms(row: Mapping[str, Any]) -> float:
    return float(row["ms"])


def _line(rows: Sequence[dict[str, Any]], x: vega.Json, y: vega.Json, field: str, names: Sequence[str]) -> vega.Json:
    encoding = {"x": x, "y": y, "color": vega.named(field, names, "stroke")}
    return {"data": vega.data(rows), "mark": {"type": "line", "strokeWidth": 1}, "encoding": encoding}


def _panel(shades: Sequence[dict[str, Any]], line: vega.Json) -> vega.Json:
    x = line["encoding"]["x"]
    scale = {"domain": list(PHASES), "range": list(_SHADES)}
    phase = {"field": "phase", "type": "nominal", "title": None, "scale": scale}
    encoding = {"x": x | {"field": "from"}, "x2": {"field": "to"}, "fill": phase}
    back = {"data": vega.data(shades), "mark": {"type": "rect"}, "encoding": encoding}
    return {"width": vega.WIDTH, "height": vega.HEIGHT // 2, "layer": [back, line]}
