"""How many runs of an experiment are in each state: kept with every move, because lists of experiments ask for it."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, select

from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.tables.schema import run_count
from orchestrator.domain.runs.run import Run, RunState

_ADD = Insert(
    run_count,
    "experiment_id",
    "state",
    "runs",
    unless_same=("experiment_id", "state"),
    then="UPDATE SET runs = run_count.runs + excluded.runs",
)


def add(connection: Connection, runs: Sequence[Run]) -> None:
    """New runs, each in its state."""
    found = Counter((one.experiment_id, one.state) for one in runs)
    _change(connection, [(experiment_id, state, count) for (experiment_id, state), count in found.items()])


def move(connection: Connection, experiment_id: str, before: RunState, to: RunState) -> None:
    """One run has moved."""
    _change(connection, [(experiment_id, before, -1), (experiment_id, to, 1)])


def remove(connection: Connection, experiment_id: str, state: RunState, count: int) -> None:
    """So many runs in that state are there no more."""
    _change(connection, [(experiment_id, state, -count)] if count else [])


def _change(connection: Connection, changes: Sequence[tuple[str, RunState, int]]) -> None:
    _ADD.many(connection, [(of, state.value, count) for of, state, count in sorted(changes)])


def of(connection: Connection, experiment_ids: Collection[str]) -> dict[str, Mapping[RunState, int]]:
    """Experiment -> state -> number of its runs; states without any are left out."""
    query = select(run_count).where(among(run_count.c.experiment_id, experiment_ids), run_count.c.runs > 0)
    counts: dict[str, dict[RunState, int]] = {}
    for row in connection.execute(query.order_by(run_count.c.experiment_id, run_count.c.state)):
        if row.state in [known.value for known in RunState]:
            counts.setdefault(row.experiment_id, {})[RunState(row.state)] = row.runs
    return dict(counts)
