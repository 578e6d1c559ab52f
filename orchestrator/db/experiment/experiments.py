"""Experiments: their rows, their labels, the idempotency keys they came with."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, select, update

from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.experiment import keys, origins
from orchestrator.db.reading import owners, paging, rows
from orchestrator.db.run import cell_rows, cells, changes, counts, labelled_runs
from orchestrator.db.run import runs as run_rows
from orchestrator.db.tables.schema import experiment, label, run
from orchestrator.domain.runs.filters import ExperimentFilter
from orchestrator.domain.runs.run import Experiment, ExperimentState, Run, RunState
from orchestrator.domain.runs.stored import Idempotency, Page
from orchestrator.domain.words.errors import Conflict, NotFound

INSERT = Insert(experiment)
_INSERT_LABEL = Insert(label)


@dataclass(frozen=True)
class NewExperiment:
    """The rows of an experiment, made by the caller's thread so that the writer only inserts."""

    experiment: Experiment
    row: tuple[Any, ...]
    queued: Sequence[Run]
    runs: Sequence[tuple[Any, ...]]
    cells: Sequence[cells.CellRow]
    changes: Sequence[changes.ChangeRow]
    idempotency: Idempotency | None


def prepare(new: Experiment, runs: Sequence[Run], key: Idempotency | None) -> NewExperiment:
    """All rows of a new experiment and its first runs. Runs of equal plans are stored once."""
    different = list({one.plan.key: one for one in reversed(runs)}.values())[::-1]
    born = changes.row(new.created_at, new.id, None, new.state.value, {"runs": len(different)})
    return NewExperiment(
        experiment=replace(new, run_counts={RunState.QUEUED: len(different)} if different else {}),
        row=rows.experiment_row(new),
        queued=different,
        runs=[rows.run_row(one) for one in different],
        cells=cells.prepare(new, new.spec, different),
        changes=[born, *(run_rows.birth(one) for one in different)],
        idempotency=key,
    )


def add(connection: Connection, new: NewExperiment) -> tuple[Experiment, bool]:
    """Insert it, unless its idempotency key was used before: then what was stored then, and False."""
    if new.idempotency is not None and not keys.take(connection, new.idempotency, new.experiment.id):
        return one(connection, keys.experiment_id(connection, new.idempotency)), False
    INSERT.one(connection, new.row)
    insert_labels(connection, new.experiment, new.queued)
    origins.add(connection, new.experiment)
    run_rows.INSERT.many(connection, new.runs)
    cells.INSERT.many(connection, new.cells)
    counts.add(connection, new.queued)
    changes.INSERT.many(connection, new.changes)  # nobody else writes to an experiment that is not visible yet
    return new.experiment, True


def insert_labels(connection: Connection, new: Experiment, runs: Sequence[Run]) -> None:
    """What the experiment and its runs are found by; the labels themselves stand in its spec."""
    newest_at = max((one.created_at for one in runs), default=0.0)
    labels = [(rows.searchable(name), rows.searchable(value)) for name, value in new.spec.labels.items()]
    _INSERT_LABEL.many(connection, [(name, value, new.id, newest_at) for name, value in labels])


def _note_newest(connection: Connection, added: Sequence[Run]) -> None:
    """Keep ``label.newest_run_at``."""
    newest: dict[str, float] = {}
    for one in added:
        newest[one.experiment_id] = max(one.created_at, newest.get(one.experiment_id, 0.0))
    for experiment_id, at in sorted(newest.items()):
        older = (label.c.experiment_id == experiment_id, label.c.newest_run_at < at)
        connection.execute(update(label).where(*older).values(newest_run_at=at))


def one(connection: Connection, experiment_id: str) -> Experiment:
    """Raises NotFound, DamagedRow."""
    return named(connection, [experiment_id])[0]


def named(connection: Connection, ids: Sequence[str]) -> list[Experiment]:
    """See ``domain.ports.Store.experiments_named``."""
    found = {row.id: row for row in connection.execute(select(experiment).where(among(experiment.c.id, ids)))}
    if missing := [experiment_id for experiment_id in ids if experiment_id not in found]:
        raise NotFound("experiment", missing[0])
    counted, came = counts.of(connection, ids), origins.of(connection, ids)
    return [rows.experiment_of(found[one], counted.get(one, {}), came.get(one)) for one in ids]


def owner_of(connection: Connection, experiment_id: str) -> str:
    """Raises NotFound."""
    owner: str | None = connection.execute(
        select(experiment.c.owner).where(experiment.c.id == experiment_id)
    ).scalar_one_or_none()
    if owner is None:
        raise NotFound("experiment", experiment_id)
    return owner


def page(
    connection: Connection, wanted: ExperimentFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[Experiment]:
    """See ``domain.ports.Store.experiments``."""
    wanted = wanted or ExperimentFilter()
    query = select(experiment).where(owners.seen(wanted.owner))
    query = paging.agreeing(query, experiment, wanted, "state", "name")
    if wanted.label is not None:
        query = query.where(among(experiment.c.id, labelled_runs.experiments(wanted.label)))
    if wanted.schedule is not None:
        query = query.where(among(experiment.c.id, origins.experiments(wanted.schedule)))
    order = wanted.oldest_first
    found, next_cursor = paging.page(connection, query, experiment, limit, cursor, oldest_first=order)
    ids = [row.id for row in found]
    counted, came = counts.of(connection, ids), origins.of(connection, ids)
    made, damaged = rows.sorted_out(
        found, lambda row: rows.experiment_of(row, counted.get(row.id, {}), came.get(row.id))
    )
    return Page(made, next_cursor, damaged)


def idle(connection: Connection) -> list[str]:
    """The ids of those that are not over although none of their runs is left to carry out, oldest first."""
    left = select(run.c.id).where(run.c.experiment_id == experiment.c.id, run_rows.UNFINISHED).exists()
    query = select(experiment.c.id).where(experiment.c.state == ExperimentState.ACTIVE.value, ~left)
    return list(connection.execute(query.order_by(experiment.c.created_at, experiment.c.id)).scalars())


_NOT_CANCELLED = experiment.c.cancel_requested.is_(False)


def _change_active(connection: Connection, experiment_id: str, *conditions: ColumnElement[bool], **values: Any) -> bool:
    """Change it where it is active and meets the conditions; whether it was. Raises NotFound."""
    which = (experiment.c.id == experiment_id, experiment.c.state == ExperimentState.ACTIVE.value, *conditions)
    if connection.execute(update(experiment).where(*which).values(values)).rowcount:
        return True
    owner_of(connection, experiment_id)
    return False


def deadlines(connection: Connection) -> dict[str, float]:
    """See ``domain.ports.Store.deadlines``."""
    query = select(experiment.c.id, experiment.c.deadline_at).where(
        experiment.c.state == ExperimentState.ACTIVE.value, experiment.c.deadline_at.is_not(None), _NOT_CANCELLED
    )
    return {row.id: row.deadline_at for row in connection.execute(query)}


def cancel(connection: Connection, experiment_id: str, at: float) -> bool:
    """Request it of the experiment first: runs that are being added wait for that row, or are met below. Whether that
    is new."""
    if not _change_active(connection, experiment_id, _NOT_CANCELLED, cancel_requested=True):
        return False
    told = changes.row(at, experiment_id, None, ExperimentState.ACTIVE.value, {"cancel_requested": True})
    requests = run_rows.request_cancel(connection, run.c.experiment_id == experiment_id, at)
    changes.record(connection, [told, *requests])
    return True


def pause(connection: Connection, experiment_id: str, paused: bool, at: float) -> bool:
    """Pause or resume it and its runs, also those that may come back to the queue. Whether that is new."""
    if not _change_active(connection, experiment_id, _NOT_CANCELLED, experiment.c.paused.is_not(paused), paused=paused):
        return False
    theirs = (run.c.experiment_id == experiment_id, run_rows.UNFINISHED)
    connection.execute(update(run).where(*theirs).values(paused=paused))
    changes.record(connection, [changes.row(at, experiment_id, None, ExperimentState.ACTIVE.value, {"paused": paused})])
    return True


def extend(connection: Connection, old: Experiment, new: Experiment, runs: Sequence[Run], at: float) -> int:
    """See ``domain.ports.Store.extend_experiment``."""
    found = connection.execute(select(experiment).where(experiment.c.id == old.id).with_for_update()).one_or_none()
    if found is None:
        raise NotFound("experiment", old.id)
    as_it_was = (found.state == old.state.value, found.cancel_requested == old.cancel_requested)
    if not all(as_it_was) or rows.spec_of(found.spec) != old.spec:
        raise Conflict(f"{old.id} was changed meanwhile: look at it (tbd show), then extend it again")
    values: dict[str, Any] = {"spec": rows.to_text(new.spec.to_json()), "facts": rows.to_text(dict(new.facts))}
    values["deadline_at"] = new.deadline_at
    if runs and old.state is not ExperimentState.ACTIVE:
        values |= {"state": ExperimentState.ACTIVE.value, "ended_at": None, "cancel_requested": False}
    connection.execute(update(experiment).where(experiment.c.id == old.id).values(values))
    if old.state is ExperimentState.CANCELLED:
        run_rows.forget_never_begun(connection, old.id)
    if cell_rows.asked_of(old.spec) != cell_rows.asked_of(new.spec):
        cell_rows.forget(connection, old.id)
    added = add_runs(connection, runs)
    if values["spec"] != found.spec or added:
        told = {"extended": True, "runs": added}
        state = values.get("state", old.state.value)
        changes.record(connection, [changes.row(at, old.id, None, state, told)])
    return added


def end(connection: Connection, experiment_id: str, state: ExperimentState, at: float) -> bool:
    """Not where it was extended just now: the lock waits for whoever does that, so that their runs are seen."""
    connection.execute(select(experiment.c.id).where(experiment.c.id == experiment_id).with_for_update())
    left = select(run.c.id).where(run.c.experiment_id == experiment_id, run_rows.UNFINISHED).exists()
    if not _change_active(connection, experiment_id, ~left, state=state.value, ended_at=at, paused=False):
        return False
    changes.record(connection, [changes.row(at, experiment_id, None, state.value, {})])
    return True


def open_for_runs(connection: Connection, experiment_ids: Collection[str]) -> dict[str, bool]:
    """Those that may get further runs: active, and nobody asked to cancel them; and whether they are paused. They stay
    so until the commit."""
    query = select(experiment.c.id, experiment.c.paused).where(
        among(experiment.c.id, experiment_ids),
        experiment.c.state == ExperimentState.ACTIVE.value,
        experiment.c.cancel_requested.is_(False),
    )
    found = connection.execute(query.order_by(experiment.c.id).with_for_update(read=True)).all()
    return {row.id: row.paused for row in found}


def add_runs(connection: Connection, runs: Sequence[Run]) -> int:
    """Insert the runs whose experiment is open for them and has no run of that plan yet; how many."""
    welcome = open_for_runs(connection, {one.experiment_id for one in runs})
    fitting = [replace(one, paused=welcome[one.experiment_id]) for one in runs if one.experiment_id in welcome]
    added = run_rows.add_missing(connection, fitting)
    cells.add_missing(connection, added)
    for of in {one.experiment_id for one in added}:
        cell_rows.forget(connection, of, {one.plan.cell_key for one in added if one.experiment_id == of})
    _note_newest(connection, added)
    counts.add(connection, added)
    changes.record(connection, [run_rows.birth(one) for one in added])
    return len(added)


def runs_of(connection: Connection, experiment_id: str) -> list[Run]:
    """All its runs, oldest first. Raises NotFound."""
    found = run_rows.of_experiment(connection, experiment_id)
    if not found:
        owner_of(connection, experiment_id)
    return found
