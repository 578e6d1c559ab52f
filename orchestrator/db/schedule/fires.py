"""Fires: what became of the times of schedules. One row for each time, whichever server comes first."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Select, func, select, update

from orchestrator.db.access import deeds
from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.experiment import experiments
from orchestrator.db.reading import paging, rows
from orchestrator.db.schedule import schedules
from orchestrator.db.tables.schedule import fire, origin
from orchestrator.db.tables.schema import experiment
from orchestrator.domain.around.schedule import Fire, FireState, NewFire, Schedule
from orchestrator.domain.runs.filters import FireFilter
from orchestrator.domain.runs.run import ExperimentState
from orchestrator.domain.runs.stored import Idempotency, Page
from orchestrator.domain.words.errors import NotFound

_INSERT = Insert(fire, unless_same=("schedule_id", "fire_at"))


@dataclass(frozen=True)
class Prepared:
    """A fire with the rows of its experiment, made by the caller's thread so that the writer only inserts."""

    new: NewFire
    experiment: experiments.NewExperiment | None


def prepare(new: NewFire, key: Idempotency | None = None) -> Prepared:
    made = None if new.experiment is None else experiments.prepare(new.experiment, new.runs, key)
    return Prepared(new, made)


def settle(
    connection: Connection, seen: Schedule, considered_until: float, due_at: float | None, new: Sequence[Prepared]
) -> bool:
    """See ``ScheduleStore.settle``."""
    if not schedules.move_on(connection, seen, considered_until, due_at):
        return False
    for one in new:
        if _insert(connection, one.new.fire):
            _submit(connection, one)
    return True


def _insert(connection: Connection, new: Fire) -> bool:
    return _INSERT.one(connection, rows.values_of(fire, new, fire_at=new.at)) == 1


def _submit(connection: Connection, one: Prepared) -> None:
    if one.experiment is not None:
        experiments.add(connection, one.experiment)
    deeds.record(connection, one.new.deed)


def add_manual(connection: Connection, one: Prepared) -> tuple[Fire, bool]:
    """See ``ScheduleStore.add_manual_fire``."""
    assert one.experiment is not None
    new = one.new.fire
    schedules.owner_of(connection, new.schedule_id)  # it may be removed by now
    stored, is_new = experiments.add(connection, one.experiment)
    if not is_new:
        return _of_experiment(connection, stored.id), False
    if not _insert(connection, new):
        raise ValueError(f"{new.schedule_id} has a fire at {new.at} already")  # microseconds apart: a mistake of ours
    deeds.record(connection, one.new.deed)
    return one_of(connection, new.id), True


def end_waiting(connection: Connection, ended: Prepared) -> bool:
    """See ``ScheduleStore.end_waiting``."""
    now = ended.new.fire
    values = {"state": now.state.value, "reason": now.reason, "experiment_id": now.experiment_id}
    waits = (fire.c.id == now.id, fire.c.state == FireState.WAITING.value)
    if connection.execute(update(fire).where(*waits).values(values)).rowcount == 0:
        return False
    _submit(connection, ended)
    return True


def waiting(connection: Connection) -> list[Fire]:
    query = _all().where(fire.c.state == FireState.WAITING.value).order_by(fire.c.fire_at, fire.c.id)
    return rows.sorted_out(connection.execute(query), read)[0]


def one_of(connection: Connection, fire_id: str) -> Fire:
    """Raises NotFound, DamagedRow."""
    found = connection.execute(_all().where(fire.c.id == fire_id)).one_or_none()
    if found is None:
        raise NotFound("fire", fire_id)
    return read(found)


def _of_experiment(connection: Connection, experiment_id: str) -> Fire:
    query = select(origin.c.fire_id).where(origin.c.experiment_id == experiment_id)
    return one_of(connection, str(connection.execute(query).scalar_one_or_none()))


def page(connection: Connection, wanted: FireFilter, *, limit: int = 50, cursor: str | None = None) -> Page[Fire]:
    query = paging.agreeing(_all(), fire, wanted, "schedule_id", "state")
    if wanted.since is not None:
        query = query.where(fire.c.fire_at >= wanted.since)
    if wanted.until is not None:
        query = query.where(fire.c.fire_at < wanted.until)
    found, next_cursor = paging.page(connection, query, fire, limit, cursor, by="fire_at")
    made, damaged = rows.sorted_out(found, read)
    return Page(made, next_cursor, damaged)


def last(connection: Connection, schedule_ids: Collection[str]) -> dict[str, Fire]:
    """Schedule -> the fire of its latest time."""
    latest = select(fire.c.schedule_id, func.max(fire.c.fire_at).label("fire_at"))
    newest = latest.where(among(fire.c.schedule_id, schedule_ids)).group_by(fire.c.schedule_id).subquery()
    same = (newest.c.schedule_id == fire.c.schedule_id) & (newest.c.fire_at == fire.c.fire_at)
    found = connection.execute(_all().join(newest, same).where(among(fire.c.schedule_id, schedule_ids)))
    return {one.schedule_id: one for one in rows.sorted_out(found, read)[0]}


def active_of(connection: Connection, schedule_id: str) -> list[str]:
    """The experiments of a schedule that are not over, oldest first."""
    query = select(experiment.c.id).join(origin, origin.c.experiment_id == experiment.c.id)
    query = query.where(origin.c.schedule_id == schedule_id, experiment.c.state == ExperimentState.ACTIVE.value)
    return list(connection.execute(query.order_by(experiment.c.created_at, experiment.c.id)).scalars())


def _all() -> Select[tuple[object, ...]]:
    """Fires, each with the state of its experiment."""
    query = select(fire, experiment.c.state.label("experiment_state"))
    return query.outerjoin(experiment, experiment.c.id == fire.c.experiment_id)


def read(row: rows.AnyRow) -> Fire:
    """Raises DamagedRow."""
    return rows.read("fire", row.id, None, lambda: rows.made_of(Fire, row, at=row.fire_at))
