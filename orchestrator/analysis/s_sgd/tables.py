"""The tables that a prediction begins with, as CSV: a trace of layers, a log of exchanges by size.

They are those of the S-SGD model's authors. A first line names the columns, in any order; others are passed over.
"""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_ROWS = 1_000_000  # judgements: beyond these it is another kind of file
MOST_LINE = 10_000
LEAST_VALUE, MOST_VALUE = 1e-9, 1e15
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?([eE][+-]?[0-9]{1,2})?")
FLOAT_BYTES = 4  # of an element: the traces are of fp32


class TableError(ValueError):
    """A table that cannot be used. ``line``: where, from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class Trace:
    """One iteration, layer by layer from 1 (next to the input) on: bytes of gradients, t_b and t_c in seconds."""

    gradient_bytes: tuple[int, ...]
    backward_s: tuple[float, ...]
    exchange_s: tuple[float, ...]


@dataclass(frozen=True)
class Log:
    """Seconds of an exchange by its bytes, which rise."""

    sizes: tuple[int, ...]
    seconds: tuple[float, ...]


def read_trace(text: str) -> Trace:
    """Return the trace in ``text``: columns layer, elements (of fp32), backward_us, allreduce_us.

    Raises:
        TableError: a column is missing, a value is no number of 0 or more, a layer is there twice, there is none.
    """
    rows = _rows(text, ("layer", "elements", "backward_us", "allreduce_us"), "layer")
    return Trace(
        tuple(_whole(row, "elements") * FLOAT_BYTES for row in rows),
        tuple(_number(row, "backward_us") * 1e-6 for row in rows),
        tuple(_number(row, "allreduce_us") * 1e-6 for row in rows),
    )


def read_log(text: str) -> Log:
    """Return the log in ``text``: columns bytes, latency_us.

    Raises:
        TableError: as of a trace; a size or time is 0; a size is there twice; there are fewer than two.
    """
    rows = _rows(text, ("bytes", "latency_us"), "bytes")
    if len(rows) < 2:
        raise TableError("there is one size only, and a line takes two", rows[0].line)
    for row in rows:
        for column in ("bytes", "latency_us"):
            if _number(row, column) == 0:
                raise TableError(f"{column} is 0", row.line)
    return Log(tuple(_whole(row, "bytes") for row in rows), tuple(_number(row, "latency_us") * 1e-6 for row in rows))


@dataclass(frozen=True)
class _Row:
    line: int
    values: Mapping[str, str]


def _rows(text: str, columns: Sequence[str], key: str) -> list[_Row]:
    """The rows by ``key``, a whole number that no two of them share."""
    lines = text.split("\n", MOST_ROWS + 1)
    if len(lines) > MOST_ROWS + 1:
        raise TableError(f"there are more than {MOST_ROWS} rows", MOST_ROWS + 2)
    for number, line in enumerate(lines, 1):
        if len(line) > MOST_LINE:
            raise TableError(f"the line has more than {MOST_LINE} characters", number)
    header = _cells(lines[0], 1)
    missing = [column for column in columns if header.count(column) != 1]
    if missing:
        raise TableError(f"the first line has to name the columns {', '.join(columns)}: {_told(missing, header)}", 1)
    found: dict[int, _Row] = {}
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        cells = _cells(line, number)
        if len(cells) != len(header):
            raise TableError(f"there are {len(cells)} values for {len(header)} columns", number)
        row = _Row(number, dict(zip(header, cells, strict=True)))
        place = _whole(row, key)
        if place in found:
            raise TableError(f"{key} {place} is on line {found[place].line} already", number)
        found[place] = row
    if not found:
        raise TableError("there is no row below it", 1)
    return [found[place] for place in sorted(found)]


def _told(missing: Sequence[str], header: Sequence[str]) -> str:
    return "; ".join(f"{one} stands there twice" if one in header else f"there is no {one}" for one in missing)


def _cells(line: str, number: int) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line.rstrip("\r")], strict=True), [])]
    except csv.Error as error:
        raise TableError(f"this is no line of a CSV file: {error}", number) from None


def _number(row: _Row, column: str) -> float:
    text = row.values[column]
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if value != 0 and not LEAST_VALUE <= value <= MOST_VALUE:
        raise TableError(
            f"{column} is {text[:40]!r}: it has to be 0 or a number from {LEAST_VALUE:g} to {MOST_VALUE:g}", row.line
        )
    return value


def _whole(row: _Row, column: str) -> int:
    value = _number(row, column)
    if value != int(value):
        raise TableError(f"{column} is {value:g}: it has to be a whole number", row.line)
    return int(value)
