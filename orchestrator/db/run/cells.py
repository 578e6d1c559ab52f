"""Cells of experiments: a row each, in the order of the sweep, so that results are paged by cells and not by
experiments. A row says which cell there is and what it can be found by; its numbers are those of its runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection, func, select, update

from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import rows
from orchestrator.db.tables.schema import cell, experiment, run
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion.sweep import place_in_sweep
from orchestrator.domain.runs.run import Run

# Numbers count down in the ids, because lists are paged from the highest id to the lowest.
_HIGHEST = 9_999_999

COLUMNS = ("id", "experiment_id", "owner", "created_at", "cell_key", "model", "framework")
CellRow = tuple[str, str, str, float, str, str, str]
INSERT = Insert(cell, *COLUMNS)


class Of(Protocol):
    """What a cell has of its experiment, or of its row."""

    @property
    def id(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def created_at(self) -> float: ...


def identifier(experiment_id: str, number: int) -> str:
    """The id of an experiment's cell ``number`` (0, 1 …)."""
    return f"{experiment_id}-{_HIGHEST - number:07d}"


def prepare(of: Of, spec: ExperimentSpec, new: Iterable[Run], first: int = 0) -> list[CellRow]:
    """The rows of the cells that ``new`` runs are of, in the order of the sweep (runs are stored in that of their
    blocks), the first one with the number ``first``."""
    different = {one.plan.cell_key: one.plan for one in new if not one.plan.search}
    ordered = sorted(different.items(), key=lambda item: place_in_sweep(spec, item[1]))
    return [
        (identifier(of.id, number), of.id, of.owner, of.created_at, key, plan.model, plan.framework)
        for number, (key, plan) in enumerate(ordered, start=first)
    ]


def add_missing(connection: Connection, added: Sequence[Run]) -> None:
    """Insert the cells of ``added`` runs that their experiments do not have yet, behind those they have."""
    by_experiment: dict[str, list[Run]] = {}
    for one in added:
        if one.plan.search:  # a try for the largest batch is no cell: it has no result
            continue
        by_experiment.setdefault(one.experiment_id, []).append(one)
    for experiment_id, theirs in by_experiment.items():
        keys = {one.plan.cell_key for one in theirs}
        query = select(cell.c.cell_key).where(cell.c.experiment_id == experiment_id, among(cell.c.cell_key, keys))
        known = set(connection.execute(query).scalars())
        if known < keys:
            last = connection.execute(select(func.min(cell.c.id)).where(cell.c.experiment_id == experiment_id)).scalar()
            first = 0 if last is None else _HIGHEST - int(last.rpartition("-")[2]) + 1
            of: Any = connection.execute(select(experiment).where(experiment.c.id == experiment_id)).one()
            new = prepare(of, rows.spec_of(of.spec), [one for one in theirs if one.plan.cell_key not in known], first)
            INSERT.many(connection, new)


def note_devices(connection: Connection, run_id: str, fingerprint: Mapping[str, Any]) -> None:
    """Note on which GPUs the cell of a run ran: what it is found by."""
    workload = fingerprint.get("workload") or {}
    models = workload.get("device_models") or []
    if not models or workload.get("device") != "cuda":
        return
    of = select(run.c.experiment_id, run.c.cell_key).where(run.c.id == run_id)
    row = connection.execute(of).one()
    which = update(cell).where(cell.c.experiment_id == row.experiment_id, cell.c.cell_key == row.cell_key)
    connection.execute(which.values(device_models=found_by(", ".join(models))))


def found_by(text: str) -> str:
    """The names of devices as they stand in ``device_models``."""
    return rows.searchable(text.lower())
