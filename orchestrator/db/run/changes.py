"""What happened: one numbered row for each move, request to cancel and new run, in the same transaction as it."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select, text

from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import rows
from orchestrator.db.reading.rows import bounded, to_text
from orchestrator.db.tables.schema import change, experiment
from orchestrator.domain.runs.stored import Change
from orchestrator.domain.value.failure import Failure
from orchestrator.domain.value.measurement import Analysis
from orchestrator.domain.words.errors import NotFound

# at, experiment_id, run_id, state, data
ChangeRow = tuple[float, str, str | None, str, str]
INSERT = Insert(change, "at", "experiment_id", "run_id", "state", "data")

_IN_ORDER = text("SELECT pg_advisory_xact_lock(hashtextextended(:experiment_id, 0))")


def row(at: float, experiment_id: str, run_id: str | None, state: str, data: Mapping[str, Any]) -> ChangeRow:
    return at, experiment_id, run_id, state, to_text(dict(data))


def record(connection: Connection, new: Sequence[ChangeRow]) -> None:
    """Store changes, last thing in a transaction.

    Readers go on after the last number they saw, so the numbers of an experiment must become visible in their order.
    SQLite has one writer; on PostgreSQL the lock makes them wait for each other, from here to the commit.
    """
    if connection.dialect.name == "postgresql":
        for experiment_id in sorted({row[1] for row in new}):
            connection.execute(_IN_ORDER, {"experiment_id": experiment_id})
    INSERT.many(connection, new)


def data_of(failure: Failure | None = None, analysis: Analysis | None = None) -> dict[str, Any]:
    """What a change of state says beside the state."""
    data: dict[str, Any] = {}
    if failure is not None:
        data["failure"] = {"kind": failure.kind.value, "message": failure.message}
    if analysis is not None:
        data["validity"] = analysis.validity.to_json()
    return data


def of_experiment(connection: Connection, experiment_id: str, *, after: int = 0, limit: int = 500) -> list[Change]:
    """Changes of an experiment with numbers above ``after``, oldest first."""
    query = select(change).where(change.c.experiment_id == experiment_id, change.c.number > bounded(after))
    found = connection.execute(query.order_by(change.c.number).limit(bounded(max(limit, 0)))).all()
    if not found:
        _must_exist(connection, experiment_id)
    return rows.sorted_out(found, change_of)[0]


def last(connection: Connection, experiment_ids: Sequence[str]) -> dict[str, int]:
    """See ``domain.ports.Store.last_changes``."""
    query = select(change.c.experiment_id, func.max(change.c.number)).where(
        among(change.c.experiment_id, experiment_ids)
    )
    return {row[0]: row[1] for row in connection.execute(query.group_by(change.c.experiment_id))}


def newest(connection: Connection) -> int:
    """See ``domain.ports.Store.newest_change``."""
    return connection.execute(select(func.max(change.c.number))).scalar_one() or 0


def change_of(row: rows.AnyRow) -> Change:
    """Raises ``DamagedRow``."""
    return rows.read("change", row.number, row.experiment_id, lambda: _change(row))


def _change(row: rows.AnyRow) -> Change:
    return Change(
        number=row.number,
        at=rows.time_of(row.at),
        experiment_id=row.experiment_id,
        run_id=row.run_id,
        state=row.state,
        data=dict(rows.loaded(row.data)),
    )


def _must_exist(connection: Connection, experiment_id: str) -> None:
    if connection.execute(select(experiment.c.id).where(experiment.c.id == experiment_id)).one_or_none() is None:
        raise NotFound("experiment", experiment_id)
