"""Removing an experiment with all that hangs on it."""

from collections.abc import Iterator

from sqlalchemy import Connection, Select, Table, delete, select

from orchestrator.db import rows
from orchestrator.db.schema import attempt, experiment, metadata, run
from orchestrator.domain.errors import Conflict, DamagedRow, NotFound
from orchestrator.domain.run import HOLDS_DEVICES


def remove(connection: Connection, experiment_id: str) -> None:
    """See ``domain.ports.Store.remove_experiment``. The locks keep runs from being added or begun meanwhile."""
    found = connection.execute(select(experiment.c.id).where(experiment.c.id == experiment_id).with_for_update())
    if found.one_or_none() is None:
        raise NotFound("experiment", experiment_id)
    theirs = connection.execute(select(run).where(run.c.experiment_id == experiment_id).with_for_update())
    busy = [row.id for row in theirs if _is_carried_out(row)]
    if busy:
        raise Conflict(
            f"{len(busy)} of its runs are being carried out, such as {busy[0]}: "
            f"end it first (tbd cancel {experiment_id}), then remove it"
        )
    for table, column, ids in hanging(experiment_id):
        connection.execute(delete(table).where(table.c[column].in_(ids)))
    connection.execute(delete(experiment).where(experiment.c.id == experiment_id))


def _is_carried_out(row: rows.AnyRow) -> bool:
    """Whether somebody follows it to its end; nobody follows a run that cannot be read."""
    if row.state not in [state.value for state in HOLDS_DEVICES]:
        return False
    try:
        rows.run_of(row, ())
    except DamagedRow:
        return False
    return True


def hanging(experiment_id: str) -> Iterator[tuple[Table, str, Select[tuple[str]]]]:
    """(table, column, ids that the column has in rows of the experiment) of all tables that hang on it, so that none
    is emptied before those that hang on it: by their foreign keys, so that a new table is not forgotten."""
    runs = select(run.c.id).where(run.c.experiment_id == experiment_id)
    ids = {
        experiment: select(experiment.c.id).where(experiment.c.id == experiment_id),
        run: runs,
        attempt: select(attempt.c.id).where(attempt.c.run_id.in_(runs)),
    }
    for table in reversed(metadata.sorted_tables):
        for key in sorted(table.foreign_keys, key=lambda key: str(key.parent.name)):
            if key.column.table in ids:
                yield table, str(key.parent.name), ids[key.column.table]
