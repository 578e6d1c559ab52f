"""The tables that a prediction begins with, as CSV: a trace of layers, a log of exchanges by size.

They are those of the S-SGD model's authors.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.analysis import csv_tables
from orchestrator.analysis.csv_tables import TableError

LEAST_VALUE, MOST_VALUE = 1e-9, 1e15
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{0,18})?([eE][+-]?[0-9]{1,2})?")
FLOAT_BYTES = 4  # of an element: the traces are of fp32


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
    found: dict[int, _Row] = {}
    for number, values in csv_tables.rows(text, columns):
        row = _Row(number, values)
        place = _whole(row, key)
        if place in found:
            raise TableError(f"{key} {place} is on line {found[place].line} already", number)
        found[place] = row
    return [found[place] for place in sorted(found)]


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
