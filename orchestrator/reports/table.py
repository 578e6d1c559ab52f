"""Tables: aligned text for a terminal, Markdown for a file."""

import re
import unicodedata
from collections.abc import Sequence

_NUMBER = re.compile(r"^[~≈]?[+-]?\d")
LONGEST_NUMBER = 36  # such as "98.37 samples/s to 98.76 samples/s"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def text(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """An aligned table. Columns of numbers go to the right. Where the whole is wider than ``width`` columns, the last
    column is wrapped below itself."""
    widths = [max(_width(cell) for cell in column) for column in zip(headers, *rows, strict=True)]
    right = [_is_numeric([row[i] for row in rows]) for i in range(len(headers))]
    room = None
    if width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
        room = max(20, width - sum(widths[:-1]) - 2 * (len(widths) - 1))
        widths[-1] = min(widths[-1], room)
    lines = [_line(headers, widths, right), _line(["─" * width for width in widths], widths, right)]
    for row in rows:
        first, *rest = _wrap(row[-1], room) if room else [row[-1]]
        lines.append(_line([*row[:-1], first], widths, right))
        indent = " " * (sum(widths[:-1]) + 2 * (len(widths) - 1))
        lines += [indent + part for part in rest]
    return "\n".join(lines)


def markdown(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown."""
    right = [_is_numeric([row[i] for row in rows]) for i in range(len(headers))]
    rule = ["---:" if flag else "---" for flag in right]
    return "\n".join("| " + " | ".join(map(_escape, row)) + " |" for row in (headers, rule, *rows))


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, flag in zip(cells, widths, right, strict=True):
        space = " " * max(0, width - _width(cell))
        padded.append(space + cell if flag else cell + space)
    return "  ".join(padded).rstrip()


def _width(cell: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in _COLOUR.sub("", cell))


def _is_numeric(cells: Sequence[str]) -> bool:
    """Whether a column holds numbers, with or without a unit; dashes stand for no number. A sentence may begin with
    a number, and 1x1 is a topology."""
    given = [cell for cell in cells if cell not in ("", "–")]  # noqa: RUF001
    return bool(given) and all(
        _NUMBER.match(cell) and len(cell) <= LONGEST_NUMBER and "x" not in cell.split()[0] for cell in given
    )


def _wrap(cell: str, width: int) -> list[str]:
    lines, line = [], ""
    for word in cell.split(" "):
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def _escape(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")
