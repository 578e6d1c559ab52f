"""Points that other tools measured: their rows. What the functions promise stands in ``domain.imported_points``."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, func, select

from orchestrator.db.access import deeds
from orchestrator.db.connection import cursors
from orchestrator.db.connection.among import among
from orchestrator.db.connection.databases import Database
from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import paging, rows
from orchestrator.db.tables.imported import imported_point
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.imported_points import ImportedFilter, ImportedPoint, ImportedSeries, Stored
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.errors import Conflict, NotFound

_COLUMNS = tuple(column.name for column in imported_point.columns)
_JSON = ("workload", "subject", "rig", "processes")
# Two servers may store the same point at once: whoever comes second adds nothing.
_INSERT = Insert(imported_point, *_COLUMNS, or_nothing_on=("id",))


class ImportedPart:
    """The part of ``store.SqlStore`` that holds them, over ``database``."""

    database: Database

    def add_imported(self, points: Sequence[ImportedPoint], deed: Deed) -> Stored:
        prepared = [(one, _row(one)) for one in points]
        return self.database.write(lambda connection: _add(connection, prepared, deed))

    def imported(
        self, wanted: ImportedFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ImportedPoint]:
        return self.database.read(lambda connection: _page(connection, wanted or ImportedFilter(), limit, cursor))

    def imported_series(
        self, wanted: ImportedFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[ImportedSeries]:
        return self.database.read(lambda connection: _series(connection, wanted or ImportedFilter(), limit, cursor))

    def owner_of_imported(self, point_id: str) -> str:
        return self.database.read(lambda connection: _owner_of(connection, point_id))

    def remove_imported(self, point_id: str, deed: Deed) -> None:
        self.database.write(lambda connection: _remove(connection, point_id, deed))


def _add(connection: Connection, prepared: Sequence[tuple[ImportedPoint, Sequence[Any]]], deed: Deed) -> Stored:
    added, there = [], []
    for one, row in prepared:
        if _INSERT.one(connection, row):
            added.append(one.id)
            continue
        known = select(imported_point.c.digest).where(imported_point.c.id == one.id)
        if connection.execute(known).scalar_one() != one.digest:
            raise Conflict(
                f"{one.benchmark} of the session {one.session} is there as {one.id}, made of other files. Remove it "
                f"first (tbd rm {one.id}), or import these under another name (--name)"
            )
        there.append(one.id)
    deeds.record(connection, deed if added else None)
    return Stored(tuple(added), tuple(there))


def _page(connection: Connection, wanted: ImportedFilter, limit: int, cursor: str | None) -> Page[ImportedPoint]:
    query = _matching(select(imported_point), wanted)
    found, next_cursor = paging.page(connection, query, imported_point, limit, cursor, "at")
    made, damaged = rows.sorted_out(found, read)
    return Page(made, next_cursor, damaged)


def _matching(query: Select[Any], wanted: ImportedFilter) -> Select[Any]:
    return paging.agreeing(query, imported_point, wanted, "owner", "series", "source", "tool", "benchmark")


def _series(connection: Connection, wanted: ImportedFilter, limit: int, cursor: str | None) -> Page[ImportedSeries]:
    limit = rows.bounded(max(limit, 1))
    key, last = imported_point.c.series, func.max(imported_point.c.at)
    newest = func.max(imported_point.c.id).label("one")  # any point: those of a series have one workload
    columns = (key, func.count().label("n"), func.min(imported_point.c.at).label("first"), last.label("last"), newest)
    query = _matching(select(*columns), wanted).group_by(key)
    if cursor is not None:
        time, name = cursors.decode(cursor)
        query = query.having((last < time) | ((last == time) & (key < name)))
    found = connection.execute(query.order_by(last.desc(), key.desc()).limit(limit + 1)).all()
    shown = found[:limit]
    following = cursors.encode((shown[-1].last, shown[-1].series)) if len(found) > limit else None
    ones = connection.execute(select(imported_point).where(among(imported_point.c.id, [row.one for row in shown])))
    whole, damaged = rows.sorted_out(ones, read)
    of = {one.series: one for one in whole}
    made = [_of_series(of[row.series], row) for row in shown if row.series in of]
    return Page(made, following, damaged)


def _of_series(one: ImportedPoint, row: rows.AnyRow) -> ImportedSeries:
    return ImportedSeries(
        one.series, one.tool, one.source, one.benchmark, one.workload, row.n, rows.time_of(row.first), row.last
    )


def _owner_of(connection: Connection, point_id: str) -> str:
    query = select(imported_point.c.owner).where(imported_point.c.id == point_id)
    owner: str | None = connection.execute(query).scalar_one_or_none()
    if owner is None:
        raise NotFound("imported point", point_id)
    return owner


def _remove(connection: Connection, point_id: str, deed: Deed) -> None:
    if connection.execute(delete(imported_point).where(imported_point.c.id == point_id)).rowcount == 0:
        raise NotFound("imported point", point_id)
    deeds.record(connection, deed)


def read(row: rows.AnyRow) -> ImportedPoint:
    """Raises DamagedRow."""
    return rows.read("imported_point", row.id, None, lambda: _read(row))


def _read(row: rows.AnyRow) -> ImportedPoint:
    values: dict[str, Any] = {name: getattr(row, name) for name in _COLUMNS}
    told = {name: rows.loaded(values[name]) for name in _JSON}
    if not isinstance(told["processes"], list) or not all(isinstance(told[name], dict) for name in _JSON[:3]):
        raise ValueError("what its file told is no object")
    throughput = None if row.throughput is None else _measurement(rows.loaded(row.throughput))
    times: dict[str, Any] = {"at": rows.time_of(row.at), "ended_at": rows.maybe_time(row.ended_at)}
    return ImportedPoint(**values | told | times | {"throughput": throughput})


def _measurement(data: Mapping[str, Any]) -> Measurement:
    if not isinstance(data["value"], int | float):
        raise ValueError("its throughput is no number")
    return Measurement.from_json(data)


def _row(one: ImportedPoint) -> tuple[Any, ...]:
    texts: dict[str, str | None] = {name: rows.to_text(getattr(one, name)) for name in _JSON}
    texts["throughput"] = rows.json_or_none(one.throughput.to_json() if one.throughput else None)
    return tuple(texts[name] if name in texts else getattr(one, name) for name in _COLUMNS)
