"""Runs that ended elsewhere and come with their logs: stored whole, in one transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from orchestrator.db import cells, changes, counts, experiments, logs, results, rows, runs
from orchestrator.db.schema import attempt, run
from orchestrator.domain.ports import Entry
from orchestrator.domain.run import Experiment, Run


@dataclass(frozen=True)
class Imported:
    """An experiment, its only run and the rows of its logs."""

    experiment: Experiment
    run: Run
    entries: Sequence[logs.EntryRow]


def prepare(experiment: Experiment, one: Run, entries: Mapping[str, Sequence[Entry]]) -> Imported:
    """Make the rows in the caller's thread. The run must have an attempt that the logs are of."""
    assert one.attempt is not None, "an imported run has an attempt"
    of = one.attempt.id
    lines = [row for node, log in entries.items() for row in logs.prepare(of, node, log)]
    return Imported(experiment, one, lines)


def store(connection: Connection, new: Imported) -> bool:
    """Insert everything; False when the run is there already."""
    one = new.run
    if runs.exists(connection, one.id):
        return False
    experiments.INSERT.one(connection, rows.experiment_row(new.experiment))
    experiments.insert_labels(connection, new.experiment)
    connection.execute(run.insert(), _ended_row(one))
    cells.INSERT.many(connection, cells.prepare(new.experiment, new.experiment.spec, [one]))
    counts.add(connection, [one])
    connection.execute(attempt.insert(), [rows.attempt_row(each) for each in one.attempts])
    logs.INSERT.many(connection, new.entries)
    if one.analysis is not None or one.fingerprint is not None:
        results.replace_result(connection, one.id, one.analysis, one.fingerprint or {})
    changes.INSERT.many(connection, _changes(new))
    return True


def _ended_row(one: Run) -> dict[str, object]:
    begun = dict(zip(runs.COLUMNS, rows.run_row(one), strict=True))
    ended = {"started_at": one.started_at, "ended_at": one.ended_at, "failure": rows.failure_text(one.failure)}
    return begun | ended


def _changes(new: Imported) -> list[changes.ChangeRow]:
    experiment, one = new.experiment, new.run
    at = one.created_at if one.ended_at is None else one.ended_at
    told = changes.data_of(one.failure, one.analysis) | {"imported": True}
    return [
        changes.row(at, experiment.id, one.id, one.state.value, told),
        changes.row(at, experiment.id, None, experiment.state.value, {"imported": True}),
    ]
