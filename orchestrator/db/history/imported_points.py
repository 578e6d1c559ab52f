"""Points that other tools measured: their rows. What the functions promise stands in ``domain.around.history``."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, func, or_, select

from orchestrator.db.access import deeds
from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import paging, rows
from orchestrator.db.tables.imported import imported_point
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.imported_points import ImportedFilter, ImportedPoint, Stored
from orchestrator.domain.runs.filters import SeriesFilter
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.words.errors import Conflict, Damaged, NotFound

# Two servers may store the same point at once: whoever comes second adds nothing.
_INSERT = Insert(imported_point, unless_same=("id",))


def add(connection: Connection, points: Sequence[ImportedPoint], deed: Deed) -> Stored:
    added, there = [], []
    for one in points:
        if _INSERT.one(connection, rows.values_of(imported_point, one, found=rows.to_text(one.to_json()))):
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


def page(
    connection: Connection, wanted: ImportedFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[ImportedPoint]:
    names = ("owner", "series", "source", "tool", "benchmark")
    query = paging.agreeing(select(imported_point), imported_point, wanted or ImportedFilter(), *names)
    found, next_cursor = paging.page(connection, query, imported_point, limit, cursor, "at")
    made, damaged = rows.sorted_out(found, read)
    return Page(made, next_cursor, damaged)


def series(wanted: SeriesFilter) -> Select[Any] | None:
    """The rows of the series, as ``points`` has those of tbd's own. None where something is wanted that no imported
    point has: an experiment, a model, a label."""
    if any(value is not None for name, value in vars(wanted).items() if name not in ("owner", "key")):
        return None
    key, at = imported_point.c.series, imported_point.c.at
    query = select(key.label("key"), func.count().label("n"), func.min(at).label("first"), func.max(at).label("last"))
    query = paging.agreeing(query, imported_point, wanted, "owner").group_by(key)
    return query if wanted.key is None else query.where(key.startswith(wanted.key, autoescape=True))


def workloads(connection: Connection, keys: Sequence[str]) -> tuple[dict[str, Mapping[str, Any]], list[Damaged]]:
    """(key -> the workload of these series, the rows that cannot be read): any point has it, and two of each are tried,
    so that one that is damaged hides none."""
    own = imported_point.c
    ends = [select(end(own.id)).where(among(own.series, keys)).group_by(own.series) for end in (func.max, func.min)]
    query = select(imported_point).where(or_(*(among(own.id, end) for end in ends)))
    whole, damaged = rows.sorted_out(connection.execute(query), read)
    return {one.series: one.workload for one in whole}, damaged


def owner_of(connection: Connection, point_id: str) -> str:
    query = select(imported_point.c.owner).where(imported_point.c.id == point_id)
    owner: str | None = connection.execute(query).scalar_one_or_none()
    if owner is None:
        raise NotFound("imported point", point_id)
    return owner


def remove(connection: Connection, point_id: str, deed: Deed) -> None:
    if connection.execute(delete(imported_point).where(imported_point.c.id == point_id)).rowcount == 0:
        raise NotFound("imported point", point_id)
    deeds.record(connection, deed)


def read(row: rows.AnyRow) -> ImportedPoint:
    """Raises DamagedRow."""
    return rows.read("imported_point", row.id, None, lambda: _read(row))


def _read(row: rows.AnyRow) -> ImportedPoint:
    made = ImportedPoint.from_json(rows.loaded(row.found))
    for seconds in (made.at, made.imported_at):
        rows.time_of(seconds)
    rows.maybe_time(made.ended_at)
    return made
