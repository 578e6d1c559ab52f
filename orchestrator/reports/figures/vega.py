"""Figures as Vega-Lite specifications (https://vega.github.io/vega-lite/docs/spec.html): plain data, and what is drawn.

A figure is a pure function of what REST answers. Its specification holds the data, so that whoever wants another style
has all that it takes (``--figure FILE.json``).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Json = dict[str, Any]
VERSION = "6.4"  # of Vega-Lite, one that vl-convert has
WIDTH, HEIGHT = 520, 320  # pixels of the plotted area
SCALE = 2.0  # of PNG: for screens with two pixels a point
# Okabe and Ito's colours, which people with the usual kinds of colour blindness can tell apart
# (https://jfly.uni-koeln.de/color/), and a dash each, for those who print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ((1, 0), (6, 3), (2, 3), (8, 3, 2, 3), (10, 4), (4, 2), (1, 2))
FAINT = "#767676"
MOST_LEGEND = 14  # lines that are named: more have no room
# Of an interval. Not clipped: vl-convert numbers clips through, so that no two drawings would be the same.
BAR: Json = {"type": "errorbar", "ticks": {"size": 8}}
_CONFIG: Json = {
    "font": "sans-serif",
    "background": "white",
    # Whoever looks at it may have wider letters than those by which its text was measured.
    "padding": {"left": 24, "right": 24, "top": 8, "bottom": 8},
    "range": {"category": list(COLOURS)},
    "axis": {"titleFontWeight": "normal", "gridColor": "#e4e4e4", "labelFlush": False, "labelFontSize": 12},
    "legend": {"labelLimit": 260, "labelFontSize": 12, "symbolLimit": MOST_LEGEND},
    "title": {"anchor": "start", "fontSize": 14, "subtitleFontSize": 11, "limit": 760},
}


def chart(title: str, *layers: Json, notes: Sequence[str] = ()) -> Json:
    """The layers one above the other, under a title; ``notes`` below it, a line each."""
    return _whole(title, notes) | {"width": WIDTH, "height": HEIGHT, "layer": list(layers)}


def below_each_other(title: str, panels: Sequence[Json]) -> Json:
    """Panels with the same x axis; each has its width and height."""
    return _whole(title, ()) | {"vconcat": list(panels), "resolve": {"scale": {"x": "shared", "color": "independent"}}}


def _whole(title: str, notes: Sequence[str]) -> Json:
    return {
        "$schema": f"https://vega.github.io/schema/vega-lite/v{VERSION.partition('.')[0]}.json",
        "title": {"text": title, "subtitle": list(notes)} if notes else {"text": title},
        "config": _CONFIG,
    }


def data(rows: Sequence[Mapping[str, Any]]) -> Json:
    return {"values": [dict(row) for row in rows]}


def quantity(field: str, title: str | None, **scale: Any) -> Json:
    """An axis of numbers. It need not begin at 0: points are compared with each other, and no bar stands on it."""
    return {"field": field, "type": "quantitative", "title": title, "scale": {"zero": False} | scale}


def instant(field: str) -> Json:
    """An axis of time, in UTC as all times of tbd are told."""
    return {"field": field, "type": "temporal", "title": None, "scale": {"type": "utc"}}


def named(field: str, names: Sequence[str], symbol: str = "circle") -> Json:
    """What a colour stands for, in this order; ``symbol``: in the legend."""
    scale = {"domain": list(names)}
    return {"field": field, "type": "nominal", "title": None, "scale": scale, "legend": {"symbolType": symbol}}


def dashed(field: str, names: Sequence[str]) -> Json:
    """The same for what is drawn in strokes; to go with ``named`` and the symbol ``stroke``."""
    dashes = [list(DASHES[number % len(DASHES)]) for number in range(len(names))]
    return {"field": field, "type": "nominal", "title": None, "scale": {"domain": list(names), "range": dashes}}


def intervals(rows: Sequence[Mapping[str, Any]], x: Json, y: Json, **more: Json) -> Json:
    """Bars from ``low`` to ``high`` of each row that has both. They share the axis ``y`` of the points."""
    known = [row for row in rows if row["low"] is not None and row["high"] is not None]
    return {
        "data": data(known),
        "mark": BAR,
        "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}} | more,
    }


def drawn(specification: Json, form: str) -> bytes:
    """The figure as ``svg``, ``png``, ``pdf`` or ``json``: the same bytes each time, but for PDF, in which vl-convert
    orders fonts and parts by chance.

    Raises:
        ValueError: there is no such form.
    """
    if form not in FORMS:
        raise ValueError(f"figures are drawn as {', '.join(FORMS)}")
    return FORMS[form](specification)


def _json(specification: Json) -> bytes:
    return (json.dumps(specification, indent=1, ensure_ascii=False) + "\n").encode()


def _svg(specification: Json) -> bytes:
    import vl_convert  # 80 MB of memory, which who draws nothing does not need

    return vl_convert.vegalite_to_svg(json.dumps(specification), vl_version=VERSION, allowed_base_urls=[]).encode()


def _png(specification: Json) -> bytes:
    import vl_convert

    text = json.dumps(specification)
    return bytes(vl_convert.vegalite_to_png(text, vl_version=VERSION, scale=SCALE, allowed_base_urls=[]))


def _pdf(specification: Json) -> bytes:
    import vl_convert

    return bytes(vl_convert.vegalite_to_pdf(json.dumps(specification), vl_version=VERSION, allowed_base_urls=[]))


FORMS: dict[str, Callable[[Json], bytes]] = {"svg": _svg, "png": _png, "pdf": _pdf, "json": _json}
