"""Runs that ended elsewhere and come with their logs: stored part by part, so that nobody waits long for the writer,
and seen by nobody until the last part is there.

Until then the experiment is owned by ``IMPORTING``, which no request ever is. An import that was cut off is taken up
by the next one of the same log, or removed when a server starts (``removal.cut_off``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, select, update

from orchestrator.db.experiment import experiments
from orchestrator.db.reading import rows
from orchestrator.db.run import cell_rows, cells, changes, counts, logs, runs
from orchestrator.db.tables.schema import experiment
from orchestrator.db.together import results
from orchestrator.domain.around.access import IMPORTING
from orchestrator.domain.runs.log import Line
from orchestrator.domain.runs.run import Experiment, Run

PART, PART_BYTES = 500, 250_000  # entries that share a transaction, at most; a judgement: some milliseconds


def begin(connection: Connection, new: Experiment, one: Run) -> bool:
    """Insert what the entries hang on; False when the whole run is there already."""
    theirs = select(experiment.c.owner).where(experiment.c.id == new.id)
    owner = connection.execute(theirs).scalar_one_or_none()
    if owner is not None:
        return bool(owner == IMPORTING)
    experiments.INSERT.one(connection, rows.experiment_row(replace(new, owner=IMPORTING)))
    runs.INSERT.one(connection, rows.run_row(one))
    runs.INSERT_ATTEMPT.many(connection, [rows.attempt_row(each) for each in one.attempts])
    return True


def parts(one: Run, entries: Mapping[str, Iterable[Line]]) -> Iterator[list[logs.EntryRow]]:
    """The rows of its logs, a part at a time. The run must have an attempt that the logs are of."""
    assert one.attempt is not None, "an imported run has an attempt"
    part: list[logs.EntryRow] = []
    size = 0
    for node, log in entries.items():
        for line in log:
            part.append((one.attempt.id, node, *line))
            size += len(line.body)
            if len(part) >= PART or size >= PART_BYTES:
                yield part
                part, size = [], 0
    if part:
        yield part


def add(connection: Connection, part: Sequence[logs.EntryRow]) -> None:
    logs.INSERT.many(connection, part)


def finish(connection: Connection, new: Experiment, one: Run) -> bool:
    """Hand it to its owner with all that it came to; False when somebody else has done so."""
    mine = update(experiment).where(experiment.c.id == new.id, experiment.c.owner == IMPORTING)
    if connection.execute(mine.values(owner=new.owner)).rowcount == 0:
        return False
    experiments.insert_labels(connection, new, [one])
    cells.INSERT.many(connection, cells.prepare(new, new.spec, [one]))
    counts.add(connection, [one])
    if one.analysis is not None or one.fingerprint is not None:
        results.replace_result(connection, one.id, one.analysis, one.fingerprint or {})
    cell_rows.keep(connection, one.id)
    changes.INSERT.many(connection, _changes(new, one))
    return True


def _changes(new: Experiment, one: Run) -> list[changes.ChangeRow]:
    at = one.created_at if one.ended_at is None else one.ended_at
    told = changes.data_of(one.failure, one.analysis) | {"imported": True}
    return [
        changes.row(at, new.id, one.id, one.state.value, told),
        changes.row(at, new.id, None, new.state.value, {"imported": True}),
    ]
