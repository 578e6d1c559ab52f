"""The time series of runs, in parts of one level each: whoever looks at a stretch of time reads a few of them."""

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select

from orchestrator.db.reading import rows
from orchestrator.db.tables.schema import run, time_series
from orchestrator.domain.value.time_series import FACTOR, PART, Points, TimeSeries


def add(connection: Connection, run_id: str, found: Iterable[TimeSeries]) -> None:
    new = [{"run_id": run_id, **row} for one in found for row in _rows(one)]
    if new:
        connection.execute(insert(time_series), new)


def add_missing(connection: Connection, run_id: str, found: Sequence[TimeSeries]) -> None:
    """See ``domain.ports.Store.add_time_series``. The lock on the run keeps two from adding at once."""
    of_run = select(run.c.id).where(run.c.id == run_id).with_for_update()
    stored = select(time_series.c.run_id).where(time_series.c.run_id == run_id).limit(1)
    if connection.execute(of_run).first() is not None and connection.execute(stored).first() is None:
        add(connection, run_id, found)


def _rows(one: TimeSeries) -> Iterator[dict[str, Any]]:
    for level, points in enumerate(one.levels()):
        for first in range(0, len(points), PART):
            part = points[first : first + PART]
            yield {
                "metric": one.metric,
                "subject": one.subject,
                "level": level,
                "part": first // PART,
                "first_s": points.at_s[max(0, first - 1)],  # no time is between two parts
                "last_s": part.at_s[-1],
                "n": len(part),
                "at_s": _packed(part.at_s),
                "least": _packed(part.least),
                "greatest": _packed(part.greatest) if level else None,  # at level 0 they are one
            }


def read(
    connection: Connection, run_id: str, from_s: float, to_s: float, most: int
) -> tuple[Sequence[TimeSeries], float | None]:
    """See ``domain.ports.Store.time_series``."""
    table = time_series.c
    end_s = connection.execute(select(func.max(table.last_s)).where(table.run_id == run_id)).scalar_one()
    touched = (table.run_id == run_id, table.last_s >= from_s, table.first_s <= to_s)
    query = select(table.metric, table.subject, table.level, func.sum(table.n).label("n")).where(*touched)
    query = query.group_by(table.metric, table.subject, table.level).order_by(table.level.desc())
    finest: dict[tuple[str, str], int] = {}
    for row in connection.execute(query):
        # Of two parts the stretch may be anywhere: so many are read in any case.
        if row.n <= max(FACTOR * most, 2 * PART) or (row.metric, row.subject) not in finest:
            finest[row.metric, row.subject] = row.level
    found = []
    for (metric, subject), level in sorted(finest.items()):
        of = (table.metric == metric, table.subject == subject, table.level == level)
        parts = connection.execute(select(time_series).where(*touched, *of).order_by(table.part)).all()
        points = rows.read("time_series", f"{run_id} {metric} {subject}", None, lambda: _joined(parts))  # noqa: B023 - called at once
        points = points.within(from_s, to_s)
        found.append(TimeSeries(metric, subject, points.thinned(-(-len(points) // most)) if len(points) else points))
    return found, end_s


def _joined(parts: Iterable[rows.AnyRow]) -> Points:
    at_s, least, greatest = array("d"), array("d"), array("d")
    for part in parts:
        at_s.extend(_unpacked(part.at_s))
        least.extend(_unpacked(part.least))
        greatest.extend(_unpacked(part.least if part.greatest is None else part.greatest))
    if not len(at_s) == len(least) == len(greatest):
        raise ValueError("its columns are not of one length")
    return Points(at_s, least, greatest)


def _packed(values: Sequence[float]) -> bytes:
    """Doubles, the least significant byte first, whatever the machine."""
    return _turned(array("d", values)).tobytes()


def _unpacked(stored: bytes) -> "array[float]":
    """Raises ValueError: these are no doubles."""
    found = array("d")
    found.frombytes(stored)
    return _turned(found)


def _turned(values: "array[float]") -> "array[float]":
    if sys.byteorder == "big":
        values.byteswap()
    return values
