"""Plots in a terminal: points with their intervals over time, levels, borders, and marks on the ground line."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

HEIGHT = 16  # rows: a judgement
LEAST_WIDTH = 30  # columns of the drawing itself
# Of places, in turn. ``streams`` has a plain sign for each; a letter stands for those that come after.
MARKERS = "●○■□▲△◆◇"
BAR, LEVEL, BORDER, GROUND, ABSENT = "│", "━", "┊", "─", "×"  # noqa: RUF001 - the sign that is meant
SEVERAL = "#"  # points of several places in one cell


@dataclass(frozen=True)
class Mark:
    """A point with its interval; ``low`` and ``high`` are None where it has none."""

    x: float
    y: float
    marker: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Level:
    """A level that holds from one x to another."""

    first: float
    last: float
    y: float


@dataclass(frozen=True)
class Border:
    """A vertical line with a short text at its top."""

    x: float
    text: str


@dataclass(frozen=True)
class Plot:
    """``absent``: where there was no number. ``ends``: the texts of the first and the last x."""

    marks: Sequence[Mark]
    levels: Sequence[Level] = ()
    borders: Sequence[Border] = ()
    absent: Sequence[float] = ()
    ends: tuple[str, str] = ("", "")


def marker(number: int) -> str:
    """The sign of place ``number``."""
    if number < len(MARKERS):
        return MARKERS[number]
    return chr(ord("a") + (number - len(MARKERS)) % 26)


def text(plot: Plot, width: int, height: int = HEIGHT) -> str:
    """The plot, at most ``width`` columns wide where that leaves ``LEAST_WIDTH`` for the drawing.

    Raises:
        ValueError: there is no mark.
    """
    if not plot.marks:
        raise ValueError("no night has a number")
    low, high = span(plot)
    rows = [_number(high - (high - low) * row / (height - 1), high - low) for row in range(height)]
    left = max(map(len, rows))
    grid = _Grid(plot, low, high, max(LEAST_WIDTH, width - left - 3), height)
    grid.draw()
    lines = [f"{' ' * left}   {grid.heading()}".rstrip()] if plot.borders else []
    for row, cells in enumerate(grid.cells):
        named = rows[row] if row % 3 == 0 or row == height - 1 else ""
        lines.append(f"{named:>{left}} {'┤' if named else BAR} {''.join(cells)}".rstrip())
    lines.append(f"{' ' * left} └{GROUND}{grid.ground()}")
    first, last = plot.ends
    space = " " * max(1, grid.width - len(first) - len(last))
    return "\n".join([*lines, f"{' ' * left}   {first}{space}{last}".rstrip()])


def span(plot: Plot) -> tuple[float, float]:
    """What the y axis spans: all values and levels with some room, intervals where they do not reach far beyond."""
    values = [mark.y for mark in plot.marks] + [level.y for level in plot.levels]
    low, high = min(values), max(values)
    room = max(0.5 * (high - low), 0.005 * abs(high), 1e-12)
    ends = [end for mark in plot.marks for end in (mark.low, mark.high) if end is not None and math.isfinite(end)]
    inside = [end for end in ends if low - room <= end <= high + room]
    low, high = min([low, *inside]), max([high, *inside])
    spare = max(0.05 * (high - low), 0.002 * abs(high), 1e-12)
    return low - spare, high + spare


def _number(value: float, span: float) -> str:
    """With as many places as tell the rows apart."""
    places = max(0, 1 - math.floor(math.log10(span))) if span > 0 else 0
    return f"{value:.{min(places, 6)}f}"


class _Grid:
    """The cells of the drawing; what is drawn later covers what was there."""

    def __init__(self, plot: Plot, low: float, high: float, width: int, height: int) -> None:
        self.plot, self.low, self.high, self.width, self.height = plot, low, high, width, height
        xs = [*(mark.x for mark in plot.marks), *plot.absent, *(border.x for border in plot.borders)]
        self.first, self.last = min(xs), max(xs)
        self.cells = [[" "] * width for _ in range(height)]

    def column(self, x: float) -> int:
        if self.last == self.first:
            return self.width // 2
        return round((x - self.first) / (self.last - self.first) * (self.width - 1))

    def row(self, y: float) -> int:
        share = (self.high - min(max(y, self.low), self.high)) / (self.high - self.low)
        return round(share * (self.height - 1))

    def draw(self) -> None:
        for border in self.plot.borders:
            self._down(self.column(border.x), range(self.height), BORDER)
        for level in self.plot.levels:
            for column in range(self.column(level.first), self.column(level.last) + 1):
                self.cells[self.row(level.y)][column] = LEVEL
        for mark in self.plot.marks:
            if mark.low is not None and mark.high is not None:
                self._down(self.column(mark.x), range(self.row(mark.high), self.row(mark.low) + 1), BAR)
        drawn: dict[tuple[int, int], str] = {}
        for mark in self.plot.marks:
            place = self.row(mark.y), self.column(mark.x)
            drawn[place] = SEVERAL if drawn.get(place, mark.marker) != mark.marker else mark.marker
        for (row, column), sign in drawn.items():
            self.cells[row][column] = sign

    def _down(self, column: int, rows: Iterable[int], sign: str) -> None:
        for row in rows:
            self.cells[row][column] = sign

    def heading(self) -> str:
        """The texts of the borders, above them; one that has no room is left out."""
        cells = [" "] * (self.width + 4)
        free = 0
        for border in sorted(self.plot.borders, key=lambda one: one.x):
            start = self.column(border.x)
            if start >= free:
                cells[start : start + len(border.text)] = border.text
                free = start + len(border.text) + 1
        return "".join(cells)

    def ground(self) -> str:
        cells = [GROUND] * self.width
        for x in self.plot.absent:
            cells[self.column(x)] = ABSENT
        return "".join(cells)
