"""Points: which series the cells of experiments belong to. A row is made in the transaction that concludes the first
run of a workload; ``cell_rows`` stores beside it what all runs came to."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import CompoundSelect, Connection, Select, exists, func, select, union_all

from orchestrator.db.connection import cursors
from orchestrator.db.connection.among import among
from orchestrator.db.history import imported_points
from orchestrator.db.reading import owners, rows
from orchestrator.db.run import cell_pages, cell_rows, cells, labelled_runs
from orchestrator.db.tables.history import point
from orchestrator.db.tables.schema import cell, experiment, result, run
from orchestrator.domain.around.history import StoredPoint, StoredSeries
from orchestrator.domain.around.imported_points import SERIES_PREFIX
from orchestrator.domain.runs.filters import SeriesFilter
from orchestrator.domain.runs.row import UNKNOWN, Numbers
from orchestrator.domain.runs.run import TERMINAL
from orchestrator.domain.runs.stored import Page, StoredCell
from orchestrator.domain.words.errors import Damaged

_CELLS = 50  # that are read at once, with all their runs


def note_workload(connection: Connection, run_id: str, fingerprint: Mapping[str, Any]) -> None:
    """Note which series the cell of a run belongs to, if the run told on which devices it ran."""
    if not (fingerprint.get("workload") or {}).get("device_models") or not fingerprint.get("workload_key"):
        return
    of = select(run.c.experiment_id, run.c.cell_key, experiment.c.created_at)
    of = of.join(experiment, experiment.c.id == run.c.experiment_id).where(run.c.id == run_id)
    row = connection.execute(of).one()
    cell_rows.INSERT_MISSING.one(
        connection, (row.experiment_id, row.cell_key, fingerprint["workload_key"], row.created_at, None, None)
    )


def page(
    connection: Connection, wanted: SeriesFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[StoredSeries]:
    """See ``domain.history.HistoryStore.series``."""
    wanted = wanted or SeriesFilter()
    limit = rows.bounded(max(limit, 1))
    each = _series(wanted).subquery()
    query = select(each)
    if cursor is not None:
        time, key = cursors.decode(cursor)
        query = query.where((each.c.last < time) | ((each.c.last == time) & (each.c.key < key)))
    found = connection.execute(query.order_by(each.c.last.desc(), each.c.key.desc()).limit(limit + 1)).all()
    shown = found[:limit]
    following = cursors.encode((shown[-1].last, shown[-1].key)) if len(found) > limit else None
    workloads, damaged = _workloads(connection, [row.key for row in shown])
    if wanted.key is None and wanted.experiment_id is None:  # what was made again is looked for by name alone
        workloads = {key: told for key, told in workloads.items() if not told.get("confirms")}
    made = [
        StoredSeries(row.key, workloads[row.key], row.n, row.first, row.last) for row in shown if row.key in workloads
    ]
    return Page(made, following, damaged)


def _series(wanted: SeriesFilter) -> Select[Any] | CompoundSelect[Any]:
    """Key, number of points, times of the first and the last, of each series; those that were imported too."""
    at = point.c.created_at
    columns = (point.c.workload_key.label("key"), func.count().label("n"), func.min(at).label("first"))
    own = _matching(select(*columns, func.max(at).label("last")), wanted).group_by(point.c.workload_key)
    imported = imported_points.series(wanted)
    return own if imported is None else union_all(own, imported)


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
    """Key -> the workload, as the fingerprint of one of its runs has it, or an imported point."""
    imported = [key for key in keys if key.startswith(SERIES_PREFIX)]
    found, damaged = imported_points.workloads(connection, imported)
    for key in keys:
        if key in imported:
            continue
        query = select(result.c.run_id, run.c.experiment_id, result.c.fingerprint)
        query = query.join(run, run.c.id == result.c.run_id).where(result.c.workload_key == key)
        made, unread = rows.sorted_out(connection.execute(query.limit(5)), _fingerprint)
        if made:
            found[key] = dict(made[0][1].get("workload") or {})
        else:
            damaged += unread
    return found, damaged


def of_series(connection: Connection, series: str, limit: int) -> list[StoredPoint]:
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
    kept = _kept(connection, series, found)
    made = []
    for row in found:
        workload = series if row.own else UNKNOWN
        one = kept.get((row.experiment_id, row.cell_key, workload))
        made.append(StoredPoint(row.experiment_id, row.name, row.id, row.cell_key, workload, row.created_at, one))
    return made


_RUN_OF_CELL = (run.c.experiment_id == cell.c.experiment_id) & (run.c.cell_key == cell.c.cell_key)
_ENDED = [state.value for state in TERMINAL]


def _of_cell(key: str) -> Any:
    return exists().where(
        point.c.experiment_id == cell.c.experiment_id,
        point.c.cell_key == cell.c.cell_key,
        point.c.workload_key == key,
    )


def _kept(connection: Connection, key: str, found: Sequence[rows.AnyRow]) -> dict[tuple[str, str, str], Numbers]:
    """(experiment, cell, workload) -> what is stored of it."""
    theirs = among(point.c.experiment_id, {row.experiment_id for row in found})
    query = select(point).where(
        theirs, point.c.workload_key.in_([key, UNKNOWN]), point.c.version == cell_rows.version()
    )
    stored = connection.execute(query)
    made = {(row.experiment_id, row.cell_key, row.workload_key): cell_rows.read(row) for row in stored}
    return {of: numbers for of, numbers in made.items() if numbers is not None}


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
