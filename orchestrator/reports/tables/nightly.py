"""The nightly board as text: cells down, nights across, and below it the reason for everything that is not green."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from orchestrator.domain.words.untrusted import visible
from orchestrator.reports.numbers import zoned
from orchestrator.reports.tables.gate import change_text
from orchestrator.reports.tables.results_table import (
    AXES,
    Table,
    cell_text,
    columns_of,
    common_text,
    differing_options,
)

Json = Mapping[str, Any]
Paint = Callable[[str, str], str]  # (text, name of a colour) -> the text in it

LEGEND = "G green  ? suspect  S slower  F failed  - missing  ! invalid  ~ running"
COLOURS = {"G": "green", "?": "yellow", "S": "red", "F": "red", "-": "yellow", "!": "red", "~": "bold"}
WHOLE = "(all cells)"  # where no night had any
WIDTH = 3  # of a night
MOST_BESIDE = 14  # nights that stand beside each other on a screen, if the labels need not be shorter than
LEAST_LABEL = 20  # columns: a judgement


def mark(cell_night: Json) -> str:
    """The one letter of a cell in a night."""
    marks = {"green": "G", "amber": "?", "missing": "-", "invalid": "!", "running": "~"}
    return marks.get(cell_night["colour"]) or ("S" if cell_night["code"] == "confirmed" else "F")


def board_lines(board: Json, width: int | None, paint: Paint) -> Iterator[str]:
    """The lines of a board.

    Args:
        board: an item of REST's answer.
        width: of the screen, in columns; None: nothing is folded.
    """
    paused = ", paused" if board["paused"] else ""
    yield paint(f"{board['schedule']}  of {board['owner']}  {board['cron']}  {board['timezone']}{paused}", "bold")
    times = [zoned(night["fire_at"], board["timezone"]) for night in board["nights"]]
    if not times:
        yield "no nights yet"
        return
    cells = board["cells"]
    yield from (paint(line, "dim") for line in _wrapped(common_text(cells, columns_of(cells)), width))
    labels = labels_of(cells)
    yield from _grid(board, times, labels, width, paint)
    yield paint(LEGEND, "dim")
    for sign, text in _reasons(board, times, labels):
        first, *rest = _wrapped(f"{sign} {text}", width)
        yield paint(sign, COLOURS[sign]) + first[1:]
        yield from rest


def board_table(board: Json) -> Table:
    """The same as a table: a line for each cell, its marks night by night, and the reasons as notes."""
    times = [zoned(night["fire_at"], board["timezone"]) for night in board["nights"]]
    if not times:
        return Table("", [], [], ["no nights yet"])
    cells, labels = board["cells"], labels_of(board["cells"])
    form = "%b %d" if len({time.date() for time in times}) == len(times) else "%b %d %H:%M"
    rows = [[label, *map(mark, cell["nights"])] for label, cell in zip(labels, cells, strict=True)]
    notes = [f"{sign} {text}" for sign, text in _reasons(board, times, labels)]
    heads = ["cell", *(f"{time:{form}}" for time in times)]
    return Table(common_text(cells, columns_of(cells)), heads, rows or [[WHOLE, *_of_whole(board)]], notes)


def _of_whole(board: Json) -> list[str]:
    """The marks of nights of which none had any cell."""
    return ["-" if one["state"] != "submitted" else "~" for one in board["nights"]]


def labels_of(cells: Sequence[Json]) -> list[str]:
    """Each cell by its model, framework and batch, and by the other axes in which cells differ."""
    differing = differing_options([cell["axes"]["options"] for cell in cells])
    columns = columns_of(cells)
    return [visible(" ".join(cell_text(cell["axes"], axis, differing) for axis in columns)) for cell in cells]


def _grid(
    board: Json, times: Sequence[datetime], labels: Sequence[str], width: int | None, paint: Paint
) -> Iterator[str]:
    """Nights that do not fit beside each other follow below, all cells again."""
    heading = ", ".join(AXES[axis] for axis in columns_of(board["cells"])) if labels else ""
    rows = [(label, [mark(one) for one in cell["nights"]]) for label, cell in zip(labels, board["cells"], strict=True)]
    rows = rows or [(WHOLE, _of_whole(board))]
    left = max(map(len, (heading, *(label for label, _ in rows))))
    if width is not None:
        left = min(left, max(LEAST_LABEL, width - WIDTH * min(MOST_BESIDE, len(times))))
    band = len(times) if width is None else max(1, (width - left) // WIDTH)
    for start in range(0, len(times), band):
        *above, last = _head(times[start : start + band])
        yield from ((" " * left + line).rstrip() for line in above)
        yield from _beside(heading, last, left)
        for label, marks in rows:
            painted = "".join(" " * (WIDTH - 1) + paint(one, COLOURS[one]) for one in marks[start : start + band])
            yield from _beside(label, painted, left)


def _beside(label: str, text: str, left: int) -> Iterator[str]:
    """A label of one line or several, and what stands beside the last of them."""
    *above, last = textwrap.wrap(label, left, subsequent_indent="  ") or [""]
    yield from above
    yield (last.ljust(left) + text).rstrip()


def _head(times: Sequence[datetime]) -> list[str]:
    """Month and day; hour and minute as well where nights share a day. Each is told where it changes, the last one of
    every night."""
    levels = [[f"{time:{form}}" for time in times] for form in ("%b", "%d", "%H", "%M")]
    needed = next((n for n in (2, 3) if len(set(zip(*levels[:n], strict=True))) == len(times)), len(levels))
    lines = []
    for place in range(needed):
        paths = list(zip(*levels[: place + 1], strict=True))
        is_new = [place == needed - 1 or n == 0 or path != paths[n - 1] for n, path in enumerate(paths)]
        lines.append("".join((path[-1] if new else "").rjust(WIDTH) for path, new in zip(paths, is_new, strict=True)))
    return lines


def _reasons(board: Json, times: Sequence[datetime], labels: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(mark, what became of which night and cell) for all that is not green; nights in a row that have the same reason
    once. What befell whole nights comes first."""
    whole = [
        None if night["state"] == "submitted" else ("-", _many(night) + f"{night['state']}: {night['reason']}")
        for night in board["nights"]
    ]
    yield from _in_a_row(whole, times, "")
    for label, cell in zip(labels, board["cells"], strict=True):
        found = [
            None if night or one["colour"] == "green" else (mark(one), _why(one))
            for one, night in zip(cell["nights"], whole, strict=True)
        ]
        yield from _in_a_row(found, times, label)


def _in_a_row(
    found: Sequence[tuple[str, str] | None], times: Sequence[datetime], label: str
) -> Iterator[tuple[str, str]]:
    for said, group in groupby(zip(found, times, strict=True), key=lambda pair: pair[0]):
        nights = [time for _, time in group]
        if said is not None:
            sign, why = said
            until = f" to {nights[-1]:%d %b %H:%M}" if len(nights) > 1 else ""
            yield sign, visible(f"{nights[0]:%d %b %H:%M}{until}{'  ' + label if label else ''}: {why}")


def _many(night: Json) -> str:
    return f"{night['n_times']} times from then on " if night["n_times"] > 1 else ""


def _why(one: Json) -> str:
    text = f"{one['code'].replace('_', ' ')}: {one['reason']}"
    return f"{text}; {_changed(one['changes'])}" if one["code"] in ("suspect", "drift", "confirmed") else text


def _changed(changes: Sequence[Json]) -> str:
    """What is a candidate for the cause."""
    if not changes:
        return "nothing that is recorded changed with it"
    told = [change_text(one["field"], one["baseline"], one["candidate"]) for one in changes]
    return "with it changed: " + ", ".join(told)


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None:
        return [text] if text else []
    return textwrap.wrap(text, width, subsequent_indent="    ")
