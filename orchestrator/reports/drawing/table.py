"""Tables: aligned text for a terminal, Markdown for a file."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from orchestrator.domain.words.untrusted import visible

_NUMBER = re.compile(r"^[~≈]?[+-]?\d")
LONGEST_NUMBER = 36  # such as "98.37 samples/s to 98.76 samples/s"
# What begins a link, an image, emphasis or an escape. Of underscores only those that do: names have them inside.
_MARKUP = re.compile(r"[\\\[\]*~]|(?<![^\W_])_|_(?![^\W_])")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_COLOURED = re.compile(r"(\x1b\[[0-9;]*m)([^\x1b]*)(\x1b\[[0-9;]*m)\Z")
GAP = "  "
INDENT = 2  # of the bands of a folded row that are below its first
SHORTEST_TEXT = 20  # judgements: narrower columns of text are read with effort, and a row is better folded;
LONGEST_WORD = 32  # an id is never broken, the name of a C++ kernel may be


def text(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """An aligned table. Columns of numbers go to the right. Where it is wider than ``width`` columns of the screen its
    texts are wrapped within their columns, the widest first; where that is not enough each row is folded: it goes on
    below itself, indented, with its headings likewise. Numbers and short words are never broken."""
    table = [[" ".join(cell.split("\n")) for cell in row] for row in (headers, *rows)]
    right = [is_numeric(column[1:]) for column in zip(*table, strict=True)]
    widths = [max(map(_width, column)) for column in zip(*table, strict=True)]
    if width is None or _total(widths) <= width:
        bands = [range(len(widths))]
    else:
        widths, bands = _fitted(widths, _least(table, right), width)
    heading, *body = [_row(row, widths, right, bands) for row in table]
    rule = GAP.join("─" * one for one in widths) if len(bands) == 1 else "─" * max(map(_width, heading))
    return "\n".join([*heading, rule, *(line for lines in body for line in lines)])


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _least(table: Sequence[Sequence[str]], right: Sequence[bool]) -> list[int]:
    """How narrow each column may become. A column of numbers keeps its cells whole; its heading may be wrapped."""
    found = []
    for (heading, *cells), is_number in zip(zip(*table, strict=True), right, strict=True):
        parts = [*heading.split(), *(cells if is_number else [word for cell in cells for word in cell.split()])]
        longest = max(map(_width, parts), default=0)
        widest = max(map(_width, (heading, *cells)))
        found.append(min(widest, longest if is_number else max(SHORTEST_TEXT, min(longest, LONGEST_WORD))))
    return found


def _fitted(widths: Sequence[int], least: Sequence[int], width: int) -> tuple[list[int], list[range]]:
    """(widths, bands of columns): in one band where the columns can be made narrow enough for that, else in several,
    as many columns in each as there is room for."""
    if _total(least) <= width:
        return _narrowed(widths, least, width), [range(len(widths))]
    bands: list[range] = []
    first = 0
    kept = [min(one, width - INDENT) for one in widths]
    for last in range(1, len(kept) + 1):
        if last == len(kept) or _total(kept[first : last + 1]) > width - (INDENT if bands else 0):
            bands.append(range(first, last))
            first = last
    return kept, bands


def _narrowed(widths: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """The widest column gives way first, until all fit."""
    found = list(widths)
    for _ in range(_total(widths) - width):
        widest = max((i for i in range(len(found)) if found[i] > least[i]), key=found.__getitem__)
        found[widest] -= 1
    return found


def _row(row: Sequence[str], widths: Sequence[int], right: Sequence[bool], bands: Sequence[range]) -> list[str]:
    """The lines of one row. A band in which it has nothing takes none."""
    lines = []
    for number, band in enumerate(bands):
        wrapped = [_wrap(row[i], widths[i]) for i in band]
        parts = [_line(cells, [widths[i] for i in band], [right[i] for i in band]) for cells in _side_by_side(wrapped)]
        if number == 0 or any(parts):
            lines += [" " * (INDENT if number else 0) + part for part in parts]
    return lines


def _side_by_side(columns: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    return list(zip_longest(*columns, fillvalue=""))


def plain_text(value: Any) -> Any:
    """The strings of an answer as text of Markdown: no markup, no HTML, and nothing that a terminal would obey. What a
    program printed (``stderr_tail``) goes into a block of code (``code_block``), where only the last matters."""
    if isinstance(value, str):
        text = _MARKUP.sub(r"\\\g<0>", visible(value.replace("\n", " ")))
        return text.replace("&", "&amp;").replace("<", "&lt;").replace("`", "'")
    if isinstance(value, Mapping):
        return {
            plain_text(key): "\n".join(map(visible, item.split("\n"))) if key == "stderr_tail" else plain_text(item)
            for key, item in value.items()
        }
    return [plain_text(item) for item in value] if isinstance(value, list | tuple) else value


def code_block(text: str, indent: str = "") -> str:
    """A block of code of Markdown, as part of a list item where it is indented. No line of ``text`` ends it."""
    fence = max(["``", *re.findall("`{3,}", text)], key=len) + "`"
    return "\n".join(f"{indent}{line}" for line in (f"{fence}text", *text.splitlines(), fence))


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    right = [is_numeric([row[i] for row in rows]) for i in range(len(headers))]
    rule = ["---:" if flag else "---" for flag in right]
    return "\n".join("| " + " | ".join(map(_escape, row)) + " |" for row in (headers, rule, *rows))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, flag in zip(cells, widths, right, strict=True):
        space = " " * max(0, width - _width(cell))
        padded.append(space + cell if flag else cell + space)
    return GAP.join(padded).rstrip()


def _width(cell: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in _COLOUR.sub("", cell))


def is_numeric(cells: Sequence[str]) -> bool:
    """Whether a column holds numbers, with or without a unit; dashes stand for no number. A sentence or a list may
    begin with a number, 1x1 is a topology, and 2026-01-31 is a date."""
    given = [cell for cell in cells if cell not in ("", "–")]  # noqa: RUF001
    return bool(given) and all(
        _NUMBER.match(cell)
        and len(cell) <= LONGEST_NUMBER
        and ", " not in cell
        and not any(sign in cell.split()[0][1:] for sign in "x-:")
        for cell in given
    )


def _wrap(cell: str, width: int) -> list[str]:
    """The lines of a cell. A word that is longer than a line is broken; a cell that is coloured is so in each line."""
    if _width(cell) <= width:
        return [cell]
    coloured = _COLOURED.match(cell)
    if coloured:
        return [f"{coloured[1]}{line}{coloured[3]}" for line in _wrap(coloured[2], width)]
    lines, line = [], ""
    for word in cell.split(" "):
        if line and _width(line) + 1 + _width(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
        while _width(line) > width:
            lines.append(line[:width])
            line = line[width:]
    return [*lines, line]


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
