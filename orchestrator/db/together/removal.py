"""Removing an experiment with all that hangs on it: part by part, so that nobody waits long for the writer.

It begins by giving the experiment to ``REMOVING``, which no request ever is: from then on nobody sees it, and none of
its runs can begin. What a crash leaves half removed, or half imported, is swept up when a server starts.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, select, tuple_, update

from orchestrator.db.connection.among import among
from orchestrator.db.reading import rows
from orchestrator.db.run.runs import OPEN
from orchestrator.db.tables.schema import attempt, experiment, idempotency, label, metadata, run
from orchestrator.domain.around.access import HIDDEN, REMOVING
from orchestrator.domain.runs.run import ExperimentState
from orchestrator.domain.words.errors import Conflict, DamagedRow, NotFound

# Judgements: some milliseconds for each part.
PART = 500  # rows of a part, at most, beside its runs
RUNS = 50  # runs that are looked at together


def begin(connection: Connection, experiment_id: str) -> bool:
    """See ``domain.ports.Store.remove_experiment``. The lock keeps runs from being added or begun meanwhile. What finds
    the experiment goes with its first part."""
    found = connection.execute(select(experiment.c.id).where(experiment.c.id == experiment_id).with_for_update())
    if found.one_or_none() is None:
        raise NotFound("experiment", experiment_id)
    holding = connection.execute(select(run).where(run.c.experiment_id == experiment_id, OPEN))
    busy = [row.id for row in holding if _is_carried_out(row)]
    if busy:
        raise Conflict(
            f"{len(busy)} of its runs are being carried out, such as {busy[0]}: "
            f"end it first (tbd cancel {experiment_id}), then remove it"
        )
    _hide(connection, experiment_id)
    return True


def _hide(connection: Connection, experiment_id: str) -> None:
    for table in (label, idempotency):
        connection.execute(delete(table).where(table.c.experiment_id == experiment_id))
    hidden = {"owner": REMOVING, "state": ExperimentState.CANCELLED.value}
    connection.execute(update(experiment).where(experiment.c.id == experiment_id).values(hidden))


def _is_carried_out(row: rows.AnyRow) -> bool:
    """Whether somebody follows it to its end; nobody follows a run that cannot be read."""
    try:
        rows.run_of(row, ())
    except DamagedRow:
        return False
    return True


def part(connection: Connection, experiment_id: str) -> bool:
    """Remove some of what hangs on an experiment that is hidden, at last itself; whether that is done."""
    runs = _ids(connection, select(run.c.id).where(run.c.experiment_id == experiment_id).limit(RUNS))
    attempts = _ids(connection, select(attempt.c.id).where(among(attempt.c.run_id, runs)))
    of = {experiment: [experiment_id], run: runs, attempt: attempts}
    left = PART
    for table, column, parent in _below():
        if table is run or not of[parent]:
            continue
        left -= remove_some(connection, table, among(table.c[column], of[parent]), left)
        if left <= 0:
            return False
    connection.execute(delete(run).where(among(run.c.id, runs)))
    if runs:
        return False
    connection.execute(delete(experiment).where(experiment.c.id == experiment_id))
    return True


def _ids(connection: Connection, query: Select[Any]) -> list[str]:
    return list(connection.execute(query).scalars())


def remove_some(connection: Connection, table: Table, which: ColumnElement[bool], most: int) -> int:
    """Remove at most so many rows; how many that were."""
    key = list(table.primary_key.columns)
    some = select(*key).where(which).limit(most)
    column = key[0] if len(key) == 1 else tuple_(*key)
    return connection.execute(delete(table).where(among(column, some))).rowcount


def cut_off(connection: Connection) -> list[str]:
    """The experiments that an import or a removal has left behind half done; they are hidden from now on."""
    query = select(experiment.c.id).where(experiment.c.owner.in_(HIDDEN))
    found = _ids(connection, query.with_for_update())
    for one in found:
        _hide(connection, one)
    return found


def hanging(experiment_id: str) -> Iterator[tuple[Table, str, Select[tuple[str]]]]:
    """(table, column, ids that the column has in rows of the experiment) of all tables that hang on it, so that none
    is emptied before those that hang on it."""
    runs = select(run.c.id).where(run.c.experiment_id == experiment_id)
    ids = {
        experiment: select(experiment.c.id).where(experiment.c.id == experiment_id),
        run: runs,
        attempt: select(attempt.c.id).where(among(attempt.c.run_id, runs)),
    }
    for table, column, parent in _below():
        yield table, column, ids[parent]


def _below() -> Iterator[tuple[Table, str, Table]]:
    """(table, column, table that the column names), by their foreign keys, so that a new table is not forgotten."""
    for table in reversed(metadata.sorted_tables):
        for key in sorted(table.foreign_keys, key=lambda key: str(key.parent.name)):
            if key.column.table in (experiment, run, attempt):
                yield table, str(key.parent.name), key.column.table
