"""Where experiments came from: which fire of which schedule made them. Most have none: a person submitted them."""

from collections.abc import Collection

from sqlalchemy import Connection, Select, select

from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.tables.schedule import origin
from orchestrator.domain.runs.run import Experiment, Origin

_INSERT = Insert(origin, "experiment_id", "schedule_id", "fire_id", "fire_at")


def add(connection: Connection, new: Experiment) -> None:
    """Store that of ``new``, if it has one."""
    came = new.origin
    if came is not None:
        _INSERT.one(connection, (new.id, came.schedule_id, came.fire_id, came.fire_at))


def of(connection: Connection, experiment_ids: Collection[str]) -> dict[str, Origin]:
    """Experiment -> where it came from, for those that a schedule made."""
    query = select(origin).where(among(origin.c.experiment_id, experiment_ids))
    return {row.experiment_id: Origin(row.schedule_id, row.fire_id, row.fire_at) for row in connection.execute(query)}


def experiments(schedule_id: str) -> Select[tuple[str]]:
    """The ids of the experiments that a schedule made."""
    return select(origin.c.experiment_id).where(origin.c.schedule_id == schedule_id)
