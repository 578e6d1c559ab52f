"""Removing the readings of old logs, part by part, so that nobody waits long for the writer."""

from sqlalchemy import Connection, select, update

from orchestrator.db.connection.among import among
from orchestrator.db.reading import rows
from orchestrator.db.tables.schema import attempt, entry, experiment, label, run
from orchestrator.db.together.removal import PART, remove_some
from orchestrator.domain.runs.run import PINNED, ExperimentState

READING = entry.c.kind == "reading"


def old(connection: Connection, before: float, most: int) -> list[str]:
    """See ``domain.ports.Store.with_old_readings``."""
    pinned = select(label.c.experiment_id).where(label.c.name == rows.searchable(PINNED))
    has_some = select(entry.c.seq).where(entry.c.attempt_id == attempt.c.id, READING).exists()
    found = (
        select(attempt.c.id)
        .select_from(attempt.join(run).join(experiment))
        .where(
            attempt.c.ended_at < before,
            experiment.c.state != ExperimentState.ACTIVE.value,
            ~among(experiment.c.id, pinned),
            has_some,
        )
    )
    return list(connection.execute(found.order_by(attempt.c.ended_at, attempt.c.id).limit(most)).scalars())


def part(connection: Connection, attempt_id: str, at: float) -> bool:
    """See ``domain.ports.Store.thin``. That they are removed is said from the first part on."""
    removed = remove_some(connection, entry, (entry.c.attempt_id == attempt_id) & READING, PART)
    if removed:
        which = (attempt.c.id == attempt_id, attempt.c.thinned_at.is_(None))
        connection.execute(update(attempt).where(*which).values(thinned_at=at))
    return removed == PART
