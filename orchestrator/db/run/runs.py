"""Runs and attempts: their rows, and the moves of ``domain.run.MOVES`` as updates ``WHERE state = expected``."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Update, bindparam, delete, func, select, text, update

from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import owners, paging, rows
from orchestrator.db.run import changes, counts, labelled_runs
from orchestrator.db.tables.schema import attempt, cell, experiment, node_order, result, run, waiting
from orchestrator.domain.around.access import REMOVING
from orchestrator.domain.runs.filters import RunFilter
from orchestrator.domain.runs.run import HOLDS_DEVICES, PAUSED, TERMINAL, Attempt, Run, RunState, transition
from orchestrator.domain.runs.stored import DamagedHold, EarlierRun, OpenRuns, Page, QueuedRun
from orchestrator.domain.value.failure import Failure
from orchestrator.domain.value.measurement import Analysis
from orchestrator.domain.words.errors import Damaged, DamagedRow, NotFound

log = logging.getLogger(__name__)

INSERT = Insert(run)
_INSERT_MISSING = Insert(run, unless_same=("experiment_id", "plan_key"))
INSERT_ATTEMPT = Insert(attempt)

OPEN = run.c.state.in_([state.value for state in HOLDS_DEVICES])
UNFINISHED = run.c.state.in_([state.value for state in RunState if state not in TERMINAL])


def birth(new: Run) -> changes.ChangeRow:
    """The change that a new run is."""
    return changes.row(new.created_at, new.experiment_id, new.id, new.state.value, {})


def add_missing(connection: Connection, runs: Iterable[Run]) -> list[Run]:
    """Insert runs whose experiment has none of that plan yet; those inserted."""
    return [one for one in runs if _INSERT_MISSING.one(connection, rows.run_row(one)) == 1]


def forget_never_begun(connection: Connection, experiment_id: str) -> None:
    """Delete the runs of an experiment that were cancelled before they began: nothing hangs on them, and their plans
    may be queued anew."""
    begun = select(attempt.c.id).where(attempt.c.run_id == run.c.id).exists()
    theirs = (run.c.experiment_id == experiment_id, run.c.state == RunState.CANCELLED.value)
    forgotten = connection.execute(delete(run).where(*theirs, ~begun)).rowcount
    counts.remove(connection, experiment_id, RunState.CANCELLED, forgotten)


# Reading


def one(connection: Connection, run_id: str) -> Run:
    """Raises NotFound, DamagedRow."""
    return named(connection, [run_id])[0]


def named(connection: Connection, ids: Sequence[str]) -> list[Run]:
    """See ``domain.ports.Store.runs_named``."""
    made, damaged = complete(connection, connection.execute(select(run).where(among(run.c.id, ids))).all())
    if damaged:
        raise DamagedRow(damaged[0])
    found = {run.id: run for run in made}
    if missing := [run_id for run_id in ids if run_id not in found]:
        raise NotFound("run", missing[0])
    return [found[run_id] for run_id in ids]


def page(
    connection: Connection, wanted: RunFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[Run]:
    """See ``domain.ports.Store.runs``."""
    wanted = wanted or RunFilter()
    if wanted.label is not None and wanted == RunFilter(owner=wanted.owner, label=wanted.label):
        found, next_cursor = labelled_runs.page(connection, wanted.label, wanted.owner, limit, cursor)
    else:
        order = wanted.oldest_first
        found, next_cursor = paging.page(connection, _matching(wanted), run, limit, cursor, oldest_first=order)
    made, damaged = complete(connection, found)
    return Page(made, next_cursor, damaged)


def _matching(wanted: RunFilter) -> Select[Any]:
    query = paging.agreeing(select(run), run, wanted, "experiment_id", "state", "model", "framework")
    # Not a join: it would let SQLite begin with the experiments, and sort all runs for a page of the newest.
    theirs = (experiment.c.id == run.c.experiment_id, owners.seen(wanted.owner))
    query = query.where(select(experiment.c.id).where(*theirs).exists())
    if wanted.label is not None:
        query = query.where(among(run.c.experiment_id, labelled_runs.experiments(wanted.label)))
    return query


def of_experiment(connection: Connection, experiment_id: str) -> list[Run]:
    query = select(run).where(run.c.experiment_id == experiment_id).order_by(run.c.created_at, run.c.id)
    return complete(connection, connection.execute(query).all())[0]


def verdicts_of(connection: Connection, experiment_id: str) -> list[Run]:
    """All of an experiment, oldest first, read part by part: a large one has more analyses than fit into memory."""
    found = select(run, result.c.analysis).outerjoin(result, result.c.run_id == run.c.id)
    found = found.where(run.c.experiment_id == experiment_id).order_by(run.c.created_at, run.c.id)
    theirs = select(run.c.id).where(run.c.experiment_id == experiment_id)
    attempts = _attempts(connection, among(attempt.c.run_id, theirs))
    parts = connection.execution_options(yield_per=500).execute(found)
    return _sound(parts, lambda row: rows.judged_run_of(row, attempts.get(row.id, ())))


def of_cells(connection: Connection, cell_ids: Sequence[str], judged: bool = True) -> tuple[list[Run], list[Damaged]]:
    """(the runs of these cells, oldest first, without results where not ``judged``; those that cannot be read)."""
    of = (run.c.experiment_id == cell.c.experiment_id) & (run.c.cell_key == cell.c.cell_key)
    query = select(run).select_from(cell.join(run, of)).where(among(cell.c.id, cell_ids))
    found = connection.execute(query.order_by(run.c.created_at, run.c.id)).all()
    if judged:
        return complete(connection, found)
    attempts = _attempts(connection, among(attempt.c.run_id, [row.id for row in found]))
    return rows.sorted_out(found, lambda row: rows.run_of(row, attempts.get(row.id, ())))


def of_cell(connection: Connection, experiment_id: str, cell_key: str) -> list[Run]:
    """The runs of one cell, oldest first; none where there is no such cell."""
    theirs = (run.c.experiment_id == experiment_id, run.c.cell_key == cell_key)
    query = select(run).where(*theirs).order_by(run.c.created_at, run.c.id)
    return complete(connection, connection.execute(query).all())[0]


def completed_of_cell(connection: Connection, cell_key: str, most: int) -> list[Run]:
    """The newest completed runs of a cell, whichever experiment they are of, newest first."""
    alike = (run.c.cell_key == cell_key, run.c.state == RunState.COMPLETED.value)
    query = select(run).where(*alike).order_by(run.c.created_at.desc(), run.c.id.desc()).limit(most)
    return complete(connection, connection.execute(query).all())[0]


def earlier(connection: Connection, cell_keys: Sequence[str], most: int) -> dict[str, list[EarlierRun]]:
    """The newest completed runs of each cell, whichever experiment they are of."""
    return {key: _earlier(connection, key, most) for key in cell_keys}


def _earlier(connection: Connection, cell_key: str, most: int) -> list[EarlierRun]:
    found = connection.execute(_EARLIER, {"cell": cell_key, "most": most}).all()
    return [
        EarlierRun(row.ended_at - row.started_at if row.ended_at and row.started_at else None, row.throughput)
        for row in found
    ]


_EARLIER = (
    select(run.c.started_at, run.c.ended_at, result.c.throughput)
    .select_from(run.outerjoin(result, result.c.run_id == run.c.id))
    .where(run.c.cell_key == bindparam("cell"), run.c.state == RunState.COMPLETED.value)
    .order_by(run.c.created_at.desc(), run.c.id.desc())
    .limit(bindparam("most"))
)


def open_runs(connection: Connection, most_cancelled: int) -> OpenRuns:
    """See ``domain.ports.Store.open_runs``."""
    is_queued = run.c.state == RunState.QUEUED.value
    cancelled = select(run).where(is_queued, run.c.cancel_requested).order_by(*_TO_BE_CANCELLED).limit(most_cancelled)
    holding = connection.execute(select(run).where(OPEN)).all()
    made = _unjudged(connection, [*holding, *connection.execute(cancelled)])
    read = {one.id for one in made}
    unread = {row.id: row for row in holding if row.id not in read}
    damaged = [
        DamagedHold(latest.id, rows.nodes_of(latest.placement), bool(unread[run_id].cancel_requested))
        for run_id, (*_, latest) in _attempts(connection, among(attempt.c.run_id, unread)).items()
    ]
    return OpenRuns(made, damaged)


def heads(connection: Connection, most: int) -> list[Run]:
    """Of the queued runs of one owner that ask for the same the first ``most`` in the order of placing."""
    found: list[rows.AnyRow] = []
    for alike in _alike(connection):
        found += connection.execute(select(run).where(*alike).order_by(*_ORDER).limit(most))
    return _unjudged(connection, sorted(found, key=_in_order))


def queue(connection: Connection, most: int) -> list[QueuedRun]:
    """See ``domain.ports.Store.queue``."""
    found: list[QueuedRun] = []
    kinds = _alike(connection)
    for alike in kinds:
        one = _sound(connection.execute(select(run).where(*alike).limit(1)), lambda row: rows.run_of(row, ()))
        devices = one[0].devices if one else 0
        asked = select(run.c.id, run.c.owner, run.c.priority, run.c.created_at).where(*alike).order_by(*_ORDER)
        part = connection.execute(asked.limit(max(1, most // len(kinds))))
        found += [QueuedRun(*row, devices=devices) for row in part]
    return sorted(found, key=_in_order)


def _alike(connection: Connection) -> list[tuple[ColumnElement[bool], ...]]:
    """Of each kind of queued runs, and of each owner of such, what is true of them."""
    waits = (run.c.state == RunState.QUEUED.value, ~run.c.cancel_requested, ~run.c.paused)
    return [
        (*waits, run.c.needs == needs, run.c.owner == owner)
        for needs in connection.execute(_KINDS).scalars().all()
        for owner in connection.execute(_OWNERS, {"needs": needs}).scalars().all()
    ]


def _in_order(one: rows.AnyRow | QueuedRun) -> tuple[float, float, str]:
    return -one.priority, one.created_at, one.id


_ORDER = (run.c.priority.desc(), run.c.created_at, run.c.id)
_TO_BE_CANCELLED = (run.c.paused, run.c.needs, *_ORDER)
# One look into the index for each kind of needs, and of a kind for each owner: a plain DISTINCT would walk the whole
# queue, and so would SQLite for what comes after a pair.
_WAITS = "FROM run WHERE state = 'queued' AND cancel_requested = false AND paused = false"
_KINDS = text(f"""
WITH RECURSIVE kinds (needs) AS (
    SELECT (SELECT min(needs) {_WAITS})
    UNION ALL
    SELECT (SELECT min(needs) {_WAITS} AND needs > kinds.needs) FROM kinds WHERE kinds.needs IS NOT NULL
)
SELECT needs FROM kinds WHERE needs IS NOT NULL
""")
_OWNERS = text(f"""
WITH RECURSIVE owners (owner) AS (
    SELECT (SELECT min(owner) {_WAITS} AND needs = :needs)
    UNION ALL
    SELECT (SELECT min(owner) {_WAITS} AND needs = :needs AND owner > owners.owner)
    FROM owners WHERE owners.owner IS NOT NULL
)
SELECT owner FROM owners WHERE owner IS NOT NULL
""")


def _unjudged(connection: Connection, found: Sequence[rows.AnyRow]) -> list[Run]:
    """Runs with attempts, without results."""
    attempts = _attempts(connection, among(attempt.c.run_id, [row.id for row in found]))
    why = _why_waiting(connection, found)
    return _sound(found, lambda row: rows.run_of(row, attempts.get(row.id, ()), waiting=why.get(row.id)))


def _sound(found: Iterable[rows.AnyRow], make: Callable[[rows.AnyRow], Run]) -> list[Run]:
    """Those that can be read; of the others the log says so."""
    made, damaged = rows.sorted_out(found, make)
    for one in damaged:
        log.warning("%s", DamagedRow(one))
    return made


def complete(connection: Connection, found: Sequence[rows.AnyRow]) -> tuple[list[Run], list[Damaged]]:
    """(runs with their attempts and results, those that cannot be read)."""
    ids = [row.id for row in found]
    attempts = _attempts(connection, among(attempt.c.run_id, ids))
    query = select(result.c.run_id, result.c.analysis, result.c.fingerprint).where(among(result.c.run_id, ids))
    results = {row.run_id: row for row in connection.execute(query)}
    why = _why_waiting(connection, found)
    return rows.sorted_out(
        found, lambda row: rows.run_of(row, attempts.get(row.id, ()), results.get(row.id), why.get(row.id))
    )


def _why_waiting(connection: Connection, found: Sequence[rows.AnyRow]) -> dict[str, str]:
    """Queued run -> why it is not placed, where that was said."""
    queued = [row for row in found if row.state == RunState.QUEUED.value]
    paused = {row.id: PAUSED for row in queued if row.paused}
    needs = {row.id: row.needs for row in queued if not row.paused}
    if not needs:
        return paused
    query = select(waiting.c.needs, waiting.c.reason).where(among(waiting.c.needs, set(needs.values())))
    reasons: dict[str, str] = dict(connection.execute(query).all())
    return paused | {run_id: reasons[asked] for run_id, asked in needs.items() if asked in reasons}


def _attempts(connection: Connection, which: ColumnElement[bool]) -> dict[str, list[rows.AnyRow]]:
    query = select(attempt).where(which).order_by(attempt.c.run_id, attempt.c.number)
    attempts: dict[str, list[rows.AnyRow]] = {}
    for row in connection.execute(query):
        attempts.setdefault(row.run_id, []).append(row)
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


def cancel(connection: Connection, run_id: str, at: float) -> bool:
    """Whether that is new."""
    requests = request_cancel(connection, run.c.id == run_id, at)
    if requests:
        changes.record(connection, requests)
    else:
        _must_exist(connection, run_id)
    return bool(requests)


def set_waiting(connection: Connection, needs: str, reason: str) -> None:
    known = connection.execute(update(waiting).where(waiting.c.needs == needs).values(reason=reason)).rowcount
    if not known:
        connection.execute(waiting.insert(), {"needs": needs, "reason": reason})


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
    connection: Connection,
    run_id: str,
    expected: RunState,
    to: RunState,
    values: Mapping[str, Any],
    *conditions: ColumnElement[bool],
) -> str | None:
    """Move the run if it is where it is expected, and meets the conditions; its experiment, or None where it does not.

    Raises:
        IllegalMove: the table of states has no such move.
        NotFound: there is no such run.
    """
    statement = move_statement(run_id, expected, to, values).where(*conditions).returning(run.c.experiment_id)
    experiment_id: str | None = connection.execute(statement).scalar_one_or_none()
    if experiment_id is None:
        _must_exist(connection, run_id)
    else:
        counts.move(connection, experiment_id, expected, to)
    return experiment_id


def begin_attempt(connection: Connection, run_id: str, new: Attempt) -> bool:
    free = ~select(node_order.c.node).where(among(node_order.c.node, new.placement.nodes)).exists()
    experiment_id = take(connection, run_id, RunState.QUEUED, RunState.PLACING, {}, ~run.c.paused, free)
    if experiment_id is None:
        return False
    owner = select(experiment.c.owner).where(experiment.c.id == experiment_id).with_for_update(read=True)
    if connection.execute(owner).scalar_one() == REMOVING:
        raise NotFound("run", run_id)
    INSERT_ATTEMPT.one(connection, rows.attempt_row(new))
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
    """Move a run, date what the move dates, and record the change. ``analysis`` is only told, not stored.

    Raises:
        IllegalMove: the table of states has no such move.
    """
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
        return {"ended_at": at, "failure": rows.failure_text(failure)}
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
    found = connection.execute(select(run.c.id).where(run.c.id == run_id)).one_or_none()
    if found is None:
        raise NotFound("run", run_id)
    return found
