"""Attempts that are over, and what is known of processes of theirs that live."""

from collections.abc import Sequence

from sqlalchemy import Connection, or_, select, update

from orchestrator.db.connection.among import among
from orchestrator.db.reading import rows
from orchestrator.db.run import cell_rows, changes
from orchestrator.db.tables.schema import attempt, run
from orchestrator.domain.runs.run import Attempt


def over(connection: Connection, ids: Sequence[str]) -> dict[str, Attempt]:
    """See ``domain.ports.Store.attempts_over``. One that cannot be read is left out: nobody can say whose it was."""
    found = connection.execute(select(attempt).where(among(attempt.c.id, ids), attempt.c.ended_at.is_not(None)))
    return {one.id: one for one in rows.sorted_out(found, rows.attempt_of)[0]}


def note(connection: Connection, attempt_id: str, at: float) -> None:
    """See ``domain.ports.Store.note_alive``. What was made of the run is forgotten where it may have run twice."""
    earlier = or_(attempt.c.alive_at.is_(None), attempt.c.alive_at < at)
    noted = connection.execute(update(attempt).where(attempt.c.id == attempt_id, earlier).values(alive_at=at))
    following = attempt.alias("following")
    begun = (following.c.run_id == attempt.c.run_id, following.c.number == attempt.c.number + 1)
    of = select(run).join(attempt, attempt.c.run_id == run.c.id).where(attempt.c.id == attempt_id)
    beside = of.where(select(following.c.id).where(*begun, following.c.created_at < at).exists())
    found = connection.execute(beside).one_or_none() if noted.rowcount else None
    if found is not None:
        cell_rows.forget(connection, found.experiment_id, {found.cell_key})
        told = changes.row(at, found.experiment_id, found.id, found.state, {"may_have_run_twice": True})
        changes.record(connection, [told])
