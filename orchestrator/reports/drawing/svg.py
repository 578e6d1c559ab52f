"""Figures as SVG: lines through points with their intervals, axes, a legend. Text and shapes, nothing else."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 210, 44, 54  # margins; the legend stands in the right one
# Okabe and Ito's colours, which people with the usual kinds of colour blindness can tell apart
# (https://jfly.uni-koeln.de/color/), and a dash each, for those who print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("none", "6 3", "2 3", "8 3 2 3", "10 4", "4 2", "1 2")
MOST_LEGEND = 14  # lines that are named: more have no room


@dataclass(frozen=True)
class Point:
    """``low`` and ``high`` are the ends of its interval, None where it has none."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Line:
    """``faint``: something to compare with, such as what would be ideal. ``joined``: a stroke leads through the points,
    ``marked``: they are drawn. ``colour``: a number that lines may share; None for one of its own. A line without a
    label is not in the legend."""

    label: str
    points: Sequence[Point]
    faint: bool = False
    joined: bool = True
    marked: bool = True
    colour: int | None = None


@dataclass(frozen=True)
class Border:
    """A place on the x axis with a short text above it."""

    x: float
    text: str


@dataclass(frozen=True)
class Chart:
    """``x_ticks`` and ``y_ticks`` span the axes; both are logarithmic (base 2) where ``log`` says so. ``x_texts`` stand
    at the ticks instead of their values; ``notes`` below the figure, a line each."""

    title: str
    x_label: str
    y_label: str
    x_ticks: Sequence[float]
    y_ticks: Sequence[float]
    lines: Sequence[Line]
    log: bool = False
    x_texts: Sequence[str] = ()
    borders: Sequence[Border] = ()
    notes: Sequence[str] = ()


def drawn(chart: Chart) -> str:
    """The chart as a whole SVG document.

    Raises:
        ValueError: an axis has no extent, or a logarithmic one a value that is not above 0.
    """
    place = _Place(chart)
    parts = [*_frame(chart, place)]
    for border in chart.borders:
        parts += _border(border, place)
    for number, line in enumerate(chart.lines):
        parts += _line(line, number, place)
    parts += _legend(chart.lines)
    parts += [_text(LEFT, HEIGHT + 18 * number, note) for number, note in enumerate(chart.notes, start=1)]
    body = "\n".join(parts)
    height = HEIGHT + (18 * len(chart.notes) + 14 if chart.notes else 0)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


class _Place:
    """Where a value stands, in pixels."""

    def __init__(self, chart: Chart) -> None:
        self._scale = math.log2 if chart.log else float
        drawn_x = [point.x for line in chart.lines for point in line.points]
        drawn_y = [value for line in chart.lines for point in line.points for value in (point.y, point.low, point.high)]
        self._x = self._span([*chart.x_ticks, *drawn_x])
        self._y = self._span([*chart.y_ticks, *(value for value in drawn_y if value is not None)])

    def _span(self, values: Iterable[float]) -> tuple[float, float]:
        scaled = [self._scale(value) for value in values]
        if not scaled or min(scaled) == max(scaled):
            raise ValueError("an axis wants two different values or more")
        return min(scaled), max(scaled)

    def x(self, value: float) -> float:
        low, high = self._x
        return LEFT + (self._scale(value) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        low, high = self._y
        return HEIGHT - BOTTOM - (self._scale(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def _frame(chart: Chart, place: _Place) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    found = [_text(LEFT, 24, chart.title, size=15)]
    for tick, text in zip(chart.x_ticks, chart.x_texts or [f"{tick:g}" for tick in chart.x_ticks], strict=True):
        found.append(_stroke(place.x(tick), TOP, place.x(tick), bottom, "#dddddd"))
        found.append(_text(place.x(tick), bottom + 18, text, anchor="middle"))
    for tick in chart.y_ticks:
        found.append(_stroke(LEFT, place.y(tick), right, place.y(tick), "#dddddd"))
        found.append(_text(LEFT - 8, place.y(tick) + 4, f"{tick:g}", anchor="end"))
    found.append(_stroke(LEFT, bottom, right, bottom, "black"))
    found.append(_stroke(LEFT, TOP, LEFT, bottom, "black"))
    found.append(_text((LEFT + right) / 2, HEIGHT - 14, chart.x_label, anchor="middle"))
    middle = (TOP + bottom) / 2
    found.append(_text(18, middle, chart.y_label, anchor="middle", turned=True))
    return found


def _line(line: Line, number: int, place: _Place) -> list[str]:
    colour, dash = _look(line, number)
    points = " ".join(f"{place.x(point.x):.1f},{place.y(point.y):.1f}" for point in line.points)
    found = [f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-dasharray="{dash}"/>']
    if line.faint or not line.marked:
        return found
    found = found if line.joined else []
    for point in line.points:
        x = place.x(point.x)
        found.append(f'<circle cx="{x:.1f}" cy="{place.y(point.y):.1f}" r="3" fill="{colour}"/>')
        if point.low is not None and point.high is not None:
            low, high = place.y(point.low), place.y(point.high)
            found.append(_stroke(x, low, x, high, colour))
            found += [_stroke(x - 4, end, x + 4, end, colour) for end in (low, high)]
    return found


def _border(border: Border, place: _Place) -> list[str]:
    x = place.x(border.x)
    return [
        _stroke(x, TOP, x, HEIGHT - BOTTOM, "#555555", "3 3"),
        _text(x, TOP - 4, border.text, anchor="middle", size=10),
    ]


def _look(line: Line, number: int) -> tuple[str, str]:
    if line.faint:
        return "#999999", "4 4"
    if line.colour is not None:
        return COLOURS[line.colour % len(COLOURS)], "none"
    return COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]


def _legend(lines: Sequence[Line]) -> list[str]:
    found = []
    left = WIDTH - RIGHT + 14
    named = [(number, line) for number, line in enumerate(lines) if line.label]
    for row, (number, line) in enumerate(named[:MOST_LEGEND]):
        colour, dash = _look(line, number)
        y = TOP + 8 + 22 * row
        if line.joined:
            found.append(_stroke(left, y, left + 22, y, colour, dash))
        else:
            found.append(f'<circle cx="{left + 11:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        found.append(_text(left + 28, y + 4, _short(line.label)))
    if len(named) > MOST_LEGEND:
        found.append(_text(left, TOP + 12 + 22 * MOST_LEGEND, f"and {len(named) - MOST_LEGEND} more"))
    return found


def _short(label: str, most: int = 27) -> str:
    return label if len(label) <= most else label[: most - 1] + "…"


def _stroke(x1: float, y1: float, x2: float, y2: float, colour: str, dash: str = "none") -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-dasharray="{dash}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12, turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"{turn}>{escape(text)}</text>'
