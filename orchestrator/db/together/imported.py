"""Runs that ended elsewhere and come with their logs: stored part by part, so that nobody waits long for the writer,
and seen by nobody until the last part is there.

Until then the experiment is owned by ``IMPORTING``, which no request ever is. An import that was cut off is taken up
by the next one of the same log, or removed when a server begins to lead (``removal.cut_off``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, select, update

from orchestrator.db.experiment import experiments
from orchestrator.db.reading import rows
from orchestrator.db.run import cell_rows, cells, changes, counts, logs, runs
from orchestrator.db.tables.schema import experiment
from orchestrator.db.together import results
from orchestrator.domain.around.access import IMPORTING, REMOVING
from orchestrator.domain.runs.log import Line
from orchestrator.domain.runs.run import Experiment, Run
from orchestrator.domain.words.errors import StoreUnavailable

PART, PART_BYTES = 500, 250_000  # entries that share a transaction, at most; a judgement: some milliseconds


def begin(connection: Connection, new: Experiment, these: Sequence[Run]) -> bool:
    """Insert what the entries hang on; False when all of it is there already."""
    theirs = select(experiment.c.owner).where(experiment.c.id == new.id)
    owner = connection.execute(theirs).scalar_one_or_none()
    if owner is not None:
        return bool(owner == IMPORTING)
    experiments.INSERT.one(connection, rows.experiment_row(replace(new, owner=IMPORTING)))
    runs.INSERT.many(connection, [rows.run_row(one) for one in these])
    runs.INSERT_ATTEMPT.many(connection, [rows.attempt_row(each) for one in these for each in one.attempts])
    return True


def parts(entries: Mapping[tuple[str, str], Iterable[Line]]) -> Iterator[list[logs.EntryRow]]:
    """The rows of logs, by attempt and node, a part at a time."""
    part: list[logs.EntryRow] = []
    size = 0
    for (attempt_id, node), log in entries.items():
        for line in log:
            part.append((attempt_id, node, *line))
            size += len(line.body)
            if len(part) >= PART or size >= PART_BYTES:
                yield part
                part, size = [], 0
    if part:
        yield part


def add(connection: Connection, experiment_id: str, part: Sequence[logs.EntryRow]) -> None:
    """Raises ``StoreUnavailable`` where the import was swept up meanwhile."""
    _check_that_it_goes_on(connection, experiment_id)
    logs.INSERT.many(connection, part)


def _check_that_it_goes_on(connection: Connection, experiment_id: str) -> None:
    theirs = select(experiment.c.owner).where(experiment.c.id == experiment_id).with_for_update(read=True)
    if connection.execute(theirs).scalar_one_or_none() in (None, REMOVING):
        raise StoreUnavailable("another server began to lead, and swept up what was half taken in: send it again")


def finish(connection: Connection, new: Experiment, these: Sequence[Run]) -> bool:
    """Hand it to its owner with all that its runs came to; False when somebody else has done so. Raises as ``add``."""
    mine = update(experiment).where(experiment.c.id == new.id, experiment.c.owner == IMPORTING)
    if connection.execute(mine.values(owner=new.owner)).rowcount == 0:
        _check_that_it_goes_on(connection, new.id)
        return False
    experiments.insert_labels(connection, new, these)
    cells.INSERT.many(connection, cells.prepare(new, new.spec, these))
    counts.add(connection, these)
    for one in these:
        if one.analysis is not None or one.fingerprint is not None:
            results.replace_result(connection, one.id, one.analysis, one.fingerprint or {})
    for one in these:
        cell_rows.keep(connection, one.id)
    changes.INSERT.many(connection, [_change(new, one) for one in these])
    at = new.created_at if new.ended_at is None else new.ended_at
    changes.INSERT.many(connection, [changes.row(at, new.id, None, new.state.value, {"imported": True})])
    return True


def _change(new: Experiment, one: Run) -> changes.ChangeRow:
    at = one.created_at if one.ended_at is None else one.ended_at
    told = changes.data_of(one.failure, one.analysis) | {"imported": True}
    return changes.row(at, new.id, one.id, one.state.value, told)
