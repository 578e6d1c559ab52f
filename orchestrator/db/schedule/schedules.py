"""Schedules: their rows. What the functions promise stands in ``domain.schedule.ScheduleStore``."""

from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from orchestrator.db.access import deeds
from orchestrator.db.experiment import keys
from orchestrator.db.reading import paging, rows
from orchestrator.db.tables.schedule import fire, schedule
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.schedule import FireState, Schedule
from orchestrator.domain.runs.filters import ScheduleFilter
from orchestrator.domain.runs.stored import Idempotency, Page
from orchestrator.domain.words.errors import Conflict, NotFound

MOST_DUE = 500  # schedules of one look: a judgement


def add(connection: Connection, new: Schedule, key: Idempotency | None, deed: Deed) -> tuple[Schedule, bool]:
    if key is not None and not keys.take(connection, key, None):
        keys.used(connection, key)
        return one(connection, new.id), False
    _check_name(connection, new)
    connection.execute(insert(schedule).values(_values(new)))
    deeds.record(connection, deed)
    return new, True


def _check_name(connection: Connection, new: Schedule) -> None:
    other = connection.execute(
        select(schedule.c.id, schedule.c.owner).where(schedule.c.name == new.name, schedule.c.id != new.id)
    ).one_or_none()
    if other is not None:
        raise Conflict(f"there is a schedule {new.name!r} already, {other.id} of {other.owner}: take another name")


def one(connection: Connection, schedule_id: str) -> Schedule:
    """Raises NotFound, DamagedRow."""
    found = connection.execute(select(schedule).where(schedule.c.id == schedule_id)).one_or_none()
    if found is None:
        raise NotFound("schedule", schedule_id)
    return read(found)


def page(
    connection: Connection, wanted: ScheduleFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[Schedule]:
    wanted = wanted or ScheduleFilter()
    query = paging.agreeing(select(schedule), schedule, wanted, "owner", "name", "paused")
    found, next_cursor = paging.page(connection, query, schedule, limit, cursor)
    made, damaged = rows.sorted_out(found, read)
    return Page(made, next_cursor, damaged)


def change(connection: Connection, changed: Schedule, deed: Deed) -> bool:
    _check_name(connection, changed)
    values = _values(changed) | {"version": changed.version + 1}
    if not _replace(connection, changed, **values):
        return False
    deeds.record(connection, deed)
    return True


def _replace(connection: Connection, seen: Schedule, **values: Any) -> bool:
    """Change the row of ``seen`` if it still is what was seen."""
    same = (schedule.c.id == seen.id, schedule.c.version == seen.version)
    return connection.execute(update(schedule).where(*same).values(values)).rowcount == 1


def move_on(connection: Connection, seen: Schedule, considered_until: float, due_at: float | None) -> bool:
    """Note what was considered; False where the row is no longer what was seen."""
    new = {"considered_until": considered_until, "due_at": due_at, "version": seen.version + 1}
    return _replace(connection, seen, **new)


def set_back(connection: Connection, seen: Schedule, now: float) -> bool:
    idle = fire.c.state != FireState.SUBMITTED.value
    which = (fire.c.schedule_id == seen.id, fire.c.created_at > now, idle)
    first = connection.execute(select(func.min(fire.c.fire_at)).where(*which)).scalar()
    # Just before a time, which is a whole second, it is still to come.
    considered_until = now if first is None else min(now, first - 0.001)
    if not move_on(connection, seen, considered_until, now):
        return False
    connection.execute(delete(fire).where(*which))
    return True


def remove(connection: Connection, schedule_id: str, deed: Deed) -> None:
    connection.execute(delete(fire).where(fire.c.schedule_id == schedule_id))
    if connection.execute(delete(schedule).where(schedule.c.id == schedule_id)).rowcount == 0:
        raise NotFound("schedule", schedule_id)
    deeds.record(connection, deed)


def owner_of(connection: Connection, schedule_id: str) -> str:
    """Raises NotFound. Also of one that cannot be read."""
    query = select(schedule.c.owner).where(schedule.c.id == schedule_id)
    owner: str | None = connection.execute(query).scalar_one_or_none()
    if owner is None:
        raise NotFound("schedule", schedule_id)
    return owner


def due(connection: Connection, until: float) -> list[Schedule]:
    query = select(schedule).where(schedule.c.due_at <= until).order_by(schedule.c.due_at).limit(MOST_DUE)
    return rows.sorted_out(connection.execute(query), read)[0]


def ahead(connection: Connection, of: float) -> list[Schedule]:
    query = select(schedule).where(schedule.c.considered_until > of).limit(MOST_DUE)
    return rows.sorted_out(connection.execute(query), read)[0]


def read(row: rows.AnyRow) -> Schedule:
    """Raises DamagedRow."""
    return rows.read("schedule", row.id, None, lambda: _read(row))


def _read(row: rows.AnyRow) -> Schedule:
    considered_until = rows.time_of(row.considered_until)
    return rows.made_of(Schedule, row, spec=rows.loaded(row.spec), considered_until=considered_until)


def _values(one: Schedule) -> dict[str, Any]:
    values = rows.values_of(schedule, one, spec=rows.to_text(dict(one.spec)))
    return dict(zip(schedule.columns.keys(), values, strict=True))
