"""Runs and attempts: their rows, and the moves of ``domain.run.MOVES`` as updates ``WHERE state = expected``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Update, and_, func, or_, select, update

from orchestrator.db import changes, paging, rows
from orchestrator.db.schema import attempt, experiment, result, run
from orchestrator.db.statements import Insert
from orchestrator.domain.errors import NotFound
from orchestrator.domain.failure import Failure
from orchestrator.domain.measurement import Analysis
from orchestrator.domain.ports import Page
from orchestrator.domain.run import HOLDS_DEVICES, TERMINAL, Attempt, Run, RunState, transition

COLUMNS = (
    "id",
    "experiment_id",
    "plan",
    "plan_key",
    "cell_key",
    "model",
    "framework",
    "state",
    "priority",
    "created_at",
    "cancel_requested",
    "waiting",
)
INSERT = Insert(run, *COLUMNS)
_INSERT_MISSING = Insert(run, *COLUMNS, or_nothing_on=("experiment_id", "plan_key"))

OPEN = run.c.state.in_([state.value for state in HOLDS_DEVICES])
UNFINISHED = run.c.state.in_([state.value for state in RunState if state not in TERMINAL])


def birth(new: Run) -> changes.ChangeRow:
    """The change that a new run is."""
    return changes.row(new.created_at, new.experiment_id, new.id, new.state.value, {})


def add_missing(connection: Connection, runs: Iterable[Run]) -> list[Run]:
    """Insert runs whose experiment has none of that plan yet; those inserted."""
    return [one for one in runs if _INSERT_MISSING.one(connection, rows.run_row(one)) == 1]


# Reading


def one(connection: Connection, run_id: str) -> Run:
    """Raises NotFound."""
    found = connection.execute(select(run).where(run.c.id == run_id)).all()
    if not found:
        raise NotFound("run", run_id)
    return _complete(connection, found)[0]


def page(
    connection: Connection,
    *,
    experiment_id: str | None,
    owner: str | None,
    state: RunState | None,
    model: str | None,
    framework: str | None,
    experiments: Select[tuple[str]] | None,
    limit: int,
    cursor: str | None,
) -> Page[Run]:
    """``experiments``: the ids of those that the runs are of, as a query."""
    query = select(run)
    wanted = ((run.c.experiment_id, experiment_id), (run.c.state, state), (run.c.model, model))
    for column, value in (*wanted, (run.c.framework, framework)):
        if value is not None:
            query = query.where(column == str(value))
    if owner is not None:
        query = query.join(experiment, experiment.c.id == run.c.experiment_id).where(experiment.c.owner == owner)
    if experiments is not None:
        query = query.where(run.c.experiment_id.in_(experiments))
    found, next_cursor = paging.page(connection, query, run, limit, cursor)
    return Page(_complete(connection, found), next_cursor)


def of_experiment(connection: Connection, experiment_id: str) -> list[Run]:
    theirs = select(run.c.id).where(run.c.experiment_id == experiment_id)
    query = select(run).where(run.c.experiment_id == experiment_id).order_by(run.c.created_at, run.c.id)
    return _complete(connection, connection.execute(query).all(), theirs)


def unfinished(connection: Connection, most_queued: int | None, after_queued: int) -> list[Run]:
    """In the order in which they should be placed, without their results; of the queued ones a few."""
    order = (run.c.priority.desc(), run.c.created_at, run.c.id)
    is_queued = run.c.state == RunState.QUEUED.value
    queued = select(run).where(is_queued, ~run.c.cancel_requested).order_by(*order).limit(most_queued)
    if after_queued:
        queued = queued.offset(after_queued)
    urgent = select(run).where(or_(OPEN, and_(is_queued, run.c.cancel_requested)))
    found = [*connection.execute(urgent).all(), *connection.execute(queued).all()]
    found.sort(key=lambda row: (-row.priority, row.created_at, row.id))
    # A queued run has attempts only when one was tried before: few have.
    tried = select(attempt.c.run_id).join(run, run.c.id == attempt.c.run_id).where(UNFINISHED)
    attempts = _attempts(connection, tried)
    return [rows.run_of(row, attempts.get(row.id, ())) for row in found]


def _complete(
    connection: Connection, found: Sequence[rows.AnyRow], which: Select[tuple[str]] | None = None
) -> list[Run]:
    """Runs with attempts and results. ``which``: the ids of ``found`` as a query, where they may be many."""
    ids: Any = which if which is not None else [row.id for row in found]
    attempts = _attempts(connection, ids)
    query = select(result.c.run_id, result.c.analysis, result.c.fingerprint).where(result.c.run_id.in_(ids))
    results = {row.run_id: row for row in connection.execute(query)}
    return [rows.run_of(row, attempts.get(row.id, ()), results.get(row.id)) for row in found]


def _attempts(connection: Connection, run_ids: Any) -> dict[str, list[Attempt]]:
    query = select(attempt).where(attempt.c.run_id.in_(run_ids)).order_by(attempt.c.run_id, attempt.c.number)
    attempts: dict[str, list[Attempt]] = {}
    for row in connection.execute(query):
        attempts.setdefault(row.run_id, []).append(rows.attempt_of(row))
    return attempts


# Requests


def request_cancel(connection: Connection, which: ColumnElement[bool], at: float) -> list[changes.ChangeRow]:
    """Mark those of ``which`` that have not ended and are not marked yet; the changes to record."""
    statement = (
        update(run)
        .where(which, UNFINISHED, run.c.cancel_requested.is_(False))
        .values(cancel_requested=True)
        .returning(run.c.id, run.c.experiment_id, run.c.state)
    )
    marked = sorted(connection.execute(statement).all())
    return [changes.row(at, of, run_id, state, {"cancel_requested": True}) for run_id, of, state in marked]


def cancel(connection: Connection, run_id: str, at: float) -> None:
    requests = request_cancel(connection, run.c.id == run_id, at)
    if requests:
        changes.record(connection, requests)
    else:
        _must_exist(connection, run_id)


def set_waiting(connection: Connection, run_ids: Sequence[str], reason: str | None) -> None:
    queued = update(run).where(run.c.id.in_(run_ids), run.c.state == RunState.QUEUED.value)
    connection.execute(queued.values(waiting=reason))


def request_stop(connection: Connection, attempt_id: str, reason: str) -> None:
    first = update(attempt).where(attempt.c.id == attempt_id, attempt.c.stop_requested.is_(None))
    if connection.execute(first.values(stop_requested=reason)).rowcount == 0:
        found = connection.execute(select(attempt.c.id).where(attempt.c.id == attempt_id)).one_or_none()
        if found is None:
            raise NotFound("attempt", attempt_id)


# Moves


def move_statement(run_id: str, expected: RunState, to: RunState, values: Mapping[str, Any]) -> Update:
    """The one way in which the state of a run changes.

    Raises:
        IllegalMove: the table of states has no such move.
    """
    return (
        update(run)
        .where(run.c.id == run_id, run.c.state == expected.value)
        .values(state=transition(expected, to).value, **values)
    )


def take(
    connection: Connection, run_id: str, expected: RunState, to: RunState, values: Mapping[str, Any]
) -> str | None:
    """Move the run if it is where it is expected; its experiment, or None when it was not there.

    Raises:
        IllegalMove: the table of states has no such move.
        NotFound: there is no such run.
    """
    statement = move_statement(run_id, expected, to, values).returning(run.c.experiment_id)
    experiment_id: str | None = connection.execute(statement).scalar_one_or_none()
    if experiment_id is None:
        _must_exist(connection, run_id)
    return experiment_id


def begin_attempt(connection: Connection, run_id: str, new: Attempt) -> bool:
    experiment_id = take(connection, run_id, RunState.QUEUED, RunState.PLACING, {"waiting": None})
    if experiment_id is None:
        return False
    connection.execute(attempt.insert(), rows.attempt_row(new))
    data = {"attempt": new.number, "nodes": list(new.placement.nodes)}
    changes.record(connection, [changes.row(new.created_at, experiment_id, run_id, RunState.PLACING.value, data)])
    return True


def move(
    connection: Connection,
    run_id: str,
    expected: RunState,
    to: RunState,
    *,
    at: float,
    failure: Failure | None = None,
    analysis: Analysis | None = None,
) -> bool:
    """Move a run, date what the move dates, and record the change. ``analysis`` is only told, not stored."""
    experiment_id = take(connection, run_id, expected, to, _dates(to, at, failure))
    if experiment_id is None:
        return False
    if expected is not RunState.QUEUED:
        update_attempt(
            connection, run_id, at, failure, start=to is RunState.RUNNING, end=expected is RunState.COLLECTING
        )
    changes.record(connection, [changes.row(at, experiment_id, run_id, to.value, changes.data_of(failure, analysis))])
    return True


def _dates(to: RunState, at: float, failure: Failure | None) -> dict[str, Any]:
    """What a move changes of the run beside its state. The start of a run is that of its first attempt."""
    if to is RunState.RUNNING:
        return {"started_at": func.coalesce(run.c.started_at, at)}
    if to in TERMINAL:
        return {"ended_at": at, "failure": rows.failure_text(failure), "waiting": None}
    return {}


def update_attempt(
    connection: Connection, run_id: str, at: float, failure: Failure | None, *, start: bool, end: bool
) -> None:
    """Date the latest attempt, and note its failure where there is one."""
    values: dict[str, Any] = {}
    if start:
        values["started_at"] = at
    if end:
        values["ended_at"] = func.coalesce(attempt.c.ended_at, at)
    if failure is not None:
        values["failure"] = rows.failure_text(failure)
    if values:
        earlier = attempt.alias("earlier")
        latest = select(func.max(earlier.c.number)).where(earlier.c.run_id == run_id).scalar_subquery()
        which = update(attempt).where(attempt.c.run_id == run_id, attempt.c.number == latest)
        connection.execute(which.values(values))


def exists(connection: Connection, run_id: str) -> bool:
    return connection.execute(select(run.c.id).where(run.c.id == run_id)).one_or_none() is not None


def _must_exist(connection: Connection, run_id: str) -> rows.AnyRow:
    found = connection.execute(select(run.c.id, run.c.waiting).where(run.c.id == run_id)).one_or_none()
    if found is None:
        raise NotFound("run", run_id)
    return found
