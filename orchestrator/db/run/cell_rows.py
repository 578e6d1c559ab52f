"""Rows of results as they are stored: beside each series that a cell belongs to, what its runs of that workload came
to.

They are made in the transaction that ends the last run of the cell, and forgotten in the one that adds a run to it or
changes what was planned. A run that has ended does not change: so one that is there is of all runs. Only the
version that made it reads it. A cell of one workload has one row; where there are several, or none is known, the whole
cell has one beside theirs, of the workload ``UNKNOWN``.
"""

import logging
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, select, update

from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import owners, rows
from orchestrator.db.run import runs
from orchestrator.db.tables.history import point
from orchestrator.db.tables.schema import cell, experiment, run
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.runs.row import UNKNOWN, Numbers
from orchestrator.domain.runs.run import Run
from orchestrator.domain.words.errors import DamagedRow

log = logging.getLogger(__name__)

FORM = 2  # of what is stored; another one is made anew

Cell = tuple[str, str]  # id of the experiment, key

INSERT_MISSING = Insert(point, unless_same=("experiment_id", "cell_key", "workload_key"))


def keep(connection: Connection, run_id: str) -> None:
    """Store the rows of the cell of a run that has ended just now, if it was the last one. Where a run cannot be read
    nothing is stored: who looks at the cell is told of the damage."""
    of = select(experiment, run.c.cell_key).join(run, run.c.experiment_id == experiment.c.id).where(run.c.id == run_id)
    # Locked against whoever extends the experiment meanwhile.
    found = connection.execute(of.where(owners.seen(None)).with_for_update(read=True, of=experiment)).one_or_none()
    if found is None:
        return
    theirs = (run.c.experiment_id == found.id, run.c.cell_key == found.cell_key)
    if connection.execute(select(run.c.id).where(*theirs, runs.UNFINISHED).limit(1)).first() is not None:
        return
    query = select(run).join(cell, (cell.c.experiment_id == run.c.experiment_id) & (cell.c.cell_key == run.c.cell_key))
    of_cell = connection.execute(query.where(*theirs).order_by(run.c.created_at, run.c.id)).all()
    whole, damaged = runs.complete(connection, of_cell)
    if damaged or not whole:  # a try for the largest batch is of no cell
        return
    try:
        made = _made(rows.spec_of(found.spec), whole)
    except Exception as error:  # a run ends all the same; who asks for the row is told what is wrong
        log.warning("the row of cell %s of %s was not stored: %r", found.cell_key, found.id, error)
        return
    for workload, numbers in made.items():
        _store(connection, (found.id, found.cell_key, workload), found.created_at, rows.to_text(numbers.to_json()))


def version() -> str:
    """Of what is stored: its form, and the analysis that made it."""
    from orchestrator.analysis.analyse import CODE_VERSION  # numpy, which a list of experiments does not wait for

    return f"{FORM} {CODE_VERSION}"


def _made(spec: ExperimentSpec, whole: Sequence[Run]) -> dict[str, Numbers]:
    """Workload -> what its runs came to."""
    from orchestrator.analysis.cell.row import by_workload, row_of

    parts = by_workload(whole)
    made: dict[str, Numbers] = {workload: row_of(spec, theirs) for workload, theirs in parts.items()}
    return made if len(made) == 1 else made | {UNKNOWN: row_of(spec, whole)}


def _store(connection: Connection, key: tuple[str, str, str], created_at: float, text: str) -> None:
    if not INSERT_MISSING.one(connection, (*key, created_at, version(), text)):
        same = (point.c.experiment_id == key[0], point.c.cell_key == key[1], point.c.workload_key == key[2])
        connection.execute(update(point).where(*same).values(version=version(), found=text))


def asked_of(spec: ExperimentSpec) -> tuple[object, ...]:
    """What a row rests on of a spec, beside the runs: how many were planned, and how precise they were to be."""
    return spec.repeats, spec.precision_target, spec.device_time_budget_s


def forget(connection: Connection, experiment_id: str, cell_keys: Collection[str] | None = None) -> None:
    """Forget the rows of these cells of an experiment; None: of all."""
    which = update(point).where(point.c.experiment_id == experiment_id, point.c.version.is_not(None))
    if cell_keys is not None:
        which = which.where(among(point.c.cell_key, cell_keys))
    connection.execute(which.values(version=None, found=None))


def of_cells(connection: Connection, wanted: Mapping[Cell, Sequence[Run]]) -> dict[Cell, Numbers]:
    """Cell -> what is stored of all its runs, where that is of these."""
    ids, keys = {of for of, _ in wanted}, {key for _, key in wanted}
    query = select(point).where(among(point.c.experiment_id, ids), among(point.c.cell_key, keys))
    query = query.where(point.c.version == version()).order_by(point.c.workload_key.desc())
    # Where the whole cell has a row of its own it is the last one.
    stored = {(row.experiment_id, row.cell_key): row for row in connection.execute(query)}
    made = {key: read(stored[key]) for key in wanted if key in stored}
    return {
        key: found
        for key, found in made.items()
        if found is not None and list(found.run_ids) == [one.id for one in wanted[key]]
    }


def read(row: rows.AnyRow) -> Numbers | None:
    """What is stored; None where that cannot be read, and is made anew."""
    try:
        found = rows.read("point", row.cell_key, row.experiment_id, lambda: Numbers.from_json(rows.loaded(row.found)))
    except DamagedRow:
        return None
    return found
