"""Points: which series the cells of experiments belong to, and what was computed of them.

A row is made in the transaction that concludes the first run of a workload. What was computed is kept only to be quick:
``stamp`` says of which runs, so that nothing has to be forgotten when a run ends.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Connection, Select, case, exists, func, literal, select, tuple_, update

from orchestrator.db.connection import cursors
from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import owners, rows
from orchestrator.db.run import cell_pages, cells, labelled_runs
from orchestrator.db.tables.history import point
from orchestrator.db.tables.schema import cell, experiment, result, run
from orchestrator.domain.around.history import UNKNOWN, Point, StoredPoint, StoredSeries
from orchestrator.domain.runs.filters import SeriesFilter
from orchestrator.domain.runs.run import TERMINAL
from orchestrator.domain.runs.stored import Page, StoredCell
from orchestrator.domain.words.errors import Damaged, DamagedRow

_CELLS = 50  # that are read at once, with all their runs

_INSERT_MISSING = Insert(
    point,
    "experiment_id",
    "cell_key",
    "workload_key",
    "created_at",
    "stamp",
    "found",
    or_nothing_on=("experiment_id", "cell_key", "workload_key"),
)


def note_workload(connection: Connection, run_id: str, fingerprint: Mapping[str, Any]) -> None:
    """Note which series the cell of a run belongs to, if the run told on which devices it ran."""
    if not (fingerprint.get("workload") or {}).get("device_models") or not fingerprint.get("workload_key"):
        return
    of = select(run.c.experiment_id, run.c.cell_key, experiment.c.created_at)
    of = of.join(experiment, experiment.c.id == run.c.experiment_id).where(run.c.id == run_id)
    row = connection.execute(of).one()
    _INSERT_MISSING.one(
        connection, (row.experiment_id, row.cell_key, fingerprint["workload_key"], row.created_at, None, None)
    )


def page(
    connection: Connection, wanted: SeriesFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[StoredSeries]:
    """See ``domain.history.HistoryStore.series``."""
    wanted = wanted or SeriesFilter()
    limit = rows.bounded(max(limit, 1))
    last = func.max(point.c.created_at)
    query = select(
        point.c.workload_key, func.count().label("n"), func.min(point.c.created_at).label("first"), last.label("last")
    )
    query = _matching(query, wanted).group_by(point.c.workload_key)
    if cursor is not None:
        time, key = cursors.decode(cursor)
        query = query.having((last < time) | ((last == time) & (point.c.workload_key < key)))
    found = connection.execute(query.order_by(last.desc(), point.c.workload_key.desc()).limit(limit + 1)).all()
    shown = found[:limit]
    following = cursors.encode((shown[-1].last, shown[-1].workload_key)) if len(found) > limit else None
    workloads, damaged = _workloads(connection, [row.workload_key for row in shown])
    made = [
        StoredSeries(row.workload_key, workloads[row.workload_key], row.n, row.first, row.last)
        for row in shown
        if row.workload_key in workloads
    ]
    return Page(made, following, damaged)


def _matching(query: Select[Any], wanted: SeriesFilter) -> Select[Any]:
    query = query.where(point.c.workload_key != UNKNOWN)
    if wanted.key is not None:
        query = query.where(point.c.workload_key.startswith(wanted.key, autoescape=True))
    theirs = [experiment.c.id == point.c.experiment_id, owners.seen(wanted.owner)]
    query = query.where(select(experiment.c.id).where(*theirs).exists())
    of_cells = {name: getattr(wanted, name) for name in ("experiment_id", "model", "framework")}
    conditions = [cell.c[name] == value for name, value in of_cells.items() if value is not None]
    if wanted.gpu_model is not None:
        conditions.append(cell.c.device_models.contains(cells.found_by(wanted.gpu_model), autoescape=True))
    if wanted.label is not None:
        conditions.append(among(cell.c.experiment_id, labelled_runs.experiments(wanted.label)))
    if conditions:
        same = (cell.c.experiment_id == point.c.experiment_id, cell.c.cell_key == point.c.cell_key)
        query = query.where(select(cell.c.id).where(*same, *conditions).exists())
    return query


def _workloads(connection: Connection, keys: Sequence[str]) -> tuple[dict[str, Mapping[str, Any]], list[Damaged]]:
    """Key -> the workload, as the fingerprint of one of its runs has it."""
    found: dict[str, Mapping[str, Any]] = {}
    damaged: list[Damaged] = []
    for key in keys:
        query = select(result.c.run_id, run.c.experiment_id, result.c.fingerprint)
        query = query.join(run, run.c.id == result.c.run_id).where(result.c.workload_key == key)
        made, unread = rows.sorted_out(connection.execute(query.limit(5)), _fingerprint)
        if made:
            found[key] = dict(made[0][1].get("workload") or {})
        else:
            damaged += unread
    return found, damaged


def of_series(connection: Connection, series: str, version: str, limit: int) -> list[StoredPoint]:
    """See ``domain.history.HistoryStore.points``."""
    plans = select(point.c.cell_key).where(point.c.workload_key == series).distinct()
    own = _of_cell(series).label("own")
    none = ~exists().where(
        point.c.experiment_id == cell.c.experiment_id,
        point.c.cell_key == cell.c.cell_key,
        point.c.workload_key != UNKNOWN,
    )
    begun = exists().where(_RUN_OF_CELL, run.c.state.in_(_ENDED))
    query = (
        select(cell.c.id, cell.c.experiment_id, cell.c.cell_key, cell.c.created_at, experiment.c.name, own)
        .join(experiment, experiment.c.id == cell.c.experiment_id)
        .where(among(cell.c.cell_key, plans), owners.seen(None), _of_cell(series) | (none & begun))
        .order_by(cell.c.created_at.desc(), cell.c.id.desc())
        .limit(rows.bounded(limit))
    )
    found = list(reversed(connection.execute(query).all()))
    stamps = _stamps(connection, version, [row.id for row in found])
    kept = _kept(connection, series, found)
    made = []
    for row in found:
        workload = series if row.own else UNKNOWN
        stamp = stamps.get(row.id, "")
        one = kept.get((row.experiment_id, row.cell_key, workload, stamp))
        made.append(
            StoredPoint(row.experiment_id, row.name, row.id, row.cell_key, workload, row.created_at, stamp, one)
        )
    return made


def of_finished_cell(connection: Connection, experiment_id: str, cell_key: str, version: str) -> list[StoredPoint]:
    """See ``domain.history.HistoryStore.points_of_finished_cell``."""
    query = select(cell.c.id, cell.c.created_at, experiment.c.name, point.c.workload_key).where(
        cell.c.experiment_id == experiment_id, cell.c.cell_key == cell_key, point.c.workload_key != UNKNOWN
    )
    query = query.join(experiment, experiment.c.id == cell.c.experiment_id)
    same = (point.c.experiment_id == cell.c.experiment_id) & (point.c.cell_key == cell.c.cell_key)
    found = connection.execute(query.join(point, same)).all()
    left = select(run.c.id).where(
        run.c.experiment_id == experiment_id, run.c.cell_key == cell_key, run.c.state.not_in(_ENDED)
    )
    if not found or connection.execute(left.limit(1)).first() is not None:
        return []
    stamps = _stamps(connection, version, [found[0].id])
    return [
        StoredPoint(experiment_id, row.name, row.id, cell_key, row.workload_key, row.created_at, stamps[row.id], None)
        for row in found
    ]


_RUN_OF_CELL = (run.c.experiment_id == cell.c.experiment_id) & (run.c.cell_key == cell.c.cell_key)
_ENDED = [state.value for state in TERMINAL]


def _of_cell(key: str) -> Any:
    return exists().where(
        point.c.experiment_id == cell.c.experiment_id,
        point.c.cell_key == cell.c.cell_key,
        point.c.workload_key == key,
    )


def _stamps(connection: Connection, version: str, cell_ids: Sequence[str]) -> dict[str, str]:
    """Cell -> what its point depends on: how many runs it has, how many have ended, and when the last one did."""
    ended = func.sum(case((run.c.state.in_(_ENDED), 1), else_=0))
    query = select(cell.c.id, func.count().label("n"), ended.label("ended"), func.max(run.c.ended_at).label("last"))
    query = query.join(run, _RUN_OF_CELL).where(among(cell.c.id, cell_ids)).group_by(cell.c.id)
    return {row.id: f"{version}: {row.n} {row.ended} {row.last!r}" for row in connection.execute(query)}


def _kept(connection: Connection, key: str, found: Sequence[rows.AnyRow]) -> dict[tuple[str, str, str, str], Point]:
    """(experiment, cell, workload, stamp) -> what was kept of it; what cannot be read is computed anew."""
    kept = {}
    theirs = among(point.c.experiment_id, {row.experiment_id for row in found})
    query = select(point).where(theirs, point.c.workload_key.in_([key, UNKNOWN]))
    for row in connection.execute(query.where(point.c.found.is_not(None))):
        try:
            made = rows.read("point", row.cell_key, row.experiment_id, partial(_point, row.found))
        except DamagedRow:
            continue
        kept[row.experiment_id, row.cell_key, row.workload_key, row.stamp] = made
    return kept


def _point(text: str) -> Point:
    return Point.from_json(rows.loaded(text))


def keep(connection: Connection, points: Iterable[tuple[StoredPoint, Point]]) -> None:
    """See ``domain.history.HistoryStore.keep_points``. An experiment that was removed meanwhile keeps nothing."""
    made = list(points)
    there = select(experiment.c.id).where(among(experiment.c.id, {stored.experiment_id for stored, _ in made}))
    there = there.where(owners.seen(None)).order_by(experiment.c.id)  # locked in one order
    known = set(connection.execute(there.with_for_update(read=True)).scalars())
    for stored, one in made:
        if stored.experiment_id in known:
            _keep_one(connection, stored, rows.to_text(one.to_json()))


def _keep_one(connection: Connection, stored: StoredPoint, text: str) -> None:
    same = (stored.experiment_id, stored.cell_key, stored.workload_key)
    if not _INSERT_MISSING.one(connection, (*same, stored.created_at, stored.stamp, text)):
        which = tuple_(point.c.experiment_id, point.c.cell_key, point.c.workload_key) == tuple_(*map(literal, same))
        connection.execute(update(point).where(which).values(stamp=stored.stamp, found=text))


def stored_cells(connection: Connection, cell_ids: Sequence[str]) -> tuple[list[StoredCell], list[Damaged]]:
    """See ``domain.history.HistoryStore.stored_cells``."""
    made: list[StoredCell] = []
    damaged: list[Damaged] = []
    for start in range(0, len(cell_ids), _CELLS):
        some = cell_ids[start : start + _CELLS]
        found = connection.execute(select(cell).where(among(cell.c.id, some))).all()
        whole, unread = cell_pages.complete(connection, found)
        made += whole
        damaged += unread
    return made, damaged


def fingerprints(connection: Connection, run_ids: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """See ``domain.history.HistoryStore.fingerprints``."""
    query = select(result.c.run_id, run.c.experiment_id, result.c.fingerprint)
    query = query.join(run, run.c.id == result.c.run_id).where(among(result.c.run_id, run_ids))
    return dict(rows.sorted_out(connection.execute(query), _fingerprint)[0])


def _fingerprint(row: rows.AnyRow) -> tuple[str, Mapping[str, Any]]:
    """Raises ``DamagedRow``."""
    return row.run_id, rows.read("result", row.run_id, row.experiment_id, lambda: rows.fingerprint_of(row.fingerprint))
