"""Pages of cells with their runs: what lists of results are made of."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, func, select, tuple_

from orchestrator.db.connection.among import among
from orchestrator.db.reading import paging, rows
from orchestrator.db.run import cell_rows, cells, labelled_runs, runs
from orchestrator.db.tables.schema import cell, experiment, result, run
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.domain.runs.row import Numbers, Row
from orchestrator.domain.runs.run import Experiment, Run
from orchestrator.domain.runs.stored import Page, StoredCell
from orchestrator.domain.words.errors import Damaged

# Runs that a page may hold beyond those of its first cell: a judgement that bounds what a request reads.
MOST_RUNS = 5_000

# A time is shown to the nearest microsecond: asked for "from then on" it is the one that was shown.
SHOWN_S = 0.5e-6

_RUNS = cell.join(run, (run.c.experiment_id == cell.c.experiment_id) & (run.c.cell_key == cell.c.cell_key))


def page(
    connection: Connection, wanted: CellFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[StoredCell]:
    """See ``domain.ports.Store.cells``."""
    wanted = wanted or CellFilter()
    order = wanted.oldest_first
    found, next_cursor = paging.page(connection, _matching(wanted), cell, limit, cursor, oldest_first=order)
    if len(found) > 1:
        few = _few_enough(connection, found)
        if few < len(found):
            found, next_cursor = found[:few], paging.after(found[few - 1])
    made, damaged = complete(connection, found, rows_alone=wanted.ended)
    return Page(made, next_cursor, damaged)


def _matching(wanted: CellFilter) -> Select[Any]:
    query = paging.agreeing(select(cell), cell, wanted, "owner", "experiment_id", "model", "framework")
    if wanted.gpu_model is not None:
        query = query.where(cell.c.device_models.contains(cells.found_by(wanted.gpu_model), autoescape=True))
    if wanted.label is not None:
        query = query.where(among(cell.c.experiment_id, labelled_runs.experiments(wanted.label)))
    if wanted.series is not None:
        theirs = select(run.c.experiment_id, run.c.cell_key).join(result, result.c.run_id == run.c.id)
        one_of = theirs.where(result.c.workload_key == wanted.series)
        query = query.where(among(tuple_(cell.c.experiment_id, cell.c.cell_key), one_of))
    if wanted.since is not None:
        query = query.where(cell.c.created_at >= wanted.since - SHOWN_S)
    if wanted.until is not None:
        query = query.where(cell.c.created_at < wanted.until - SHOWN_S)
    if wanted.ended:
        left = (run.c.experiment_id == cell.c.experiment_id, run.c.cell_key == cell.c.cell_key, runs.UNFINISHED)
        query = query.where(~select(run.c.id).where(*left).exists())
    return query


def _few_enough(connection: Connection, found: Sequence[rows.AnyRow]) -> int:
    """How many of ``found`` one page may hold: one, or as many as have ``MOST_RUNS`` runs together."""
    counted = select(cell.c.id, func.count()).select_from(_RUNS).where(among(cell.c.id, [row.id for row in found]))
    counts: dict[str, int] = dict(connection.execute(counted.group_by(cell.c.id)).all())
    total = 0
    for number, row in enumerate(found):
        total += counts.get(row.id, 0)
        if number and total > MOST_RUNS:
            return number
    return len(found)


def complete(
    connection: Connection, found: Sequence[rows.AnyRow], rows_alone: bool = False
) -> tuple[list[StoredCell], list[Damaged]]:
    """(the cells with their experiments and runs, what of these cannot be read): as many statements for one as for a
    thousand. ``rows_alone``: runs of a cell whose row is stored come without analysis."""
    theirs = select(experiment).where(among(experiment.c.id, {row.experiment_id for row in found}))
    whole, damaged = rows.sorted_out(connection.execute(theirs), lambda row: rows.experiment_of(row, {}))
    of = {one.id: one for one in whole}
    ids = {(row.experiment_id, row.cell_key): row.id for row in found}
    by_cell, unread = _runs(connection, list(ids.values()), judged=not rows_alone)
    stored = cell_rows.of_cells(connection, by_cell)
    if rows_alone and (unstored := [ids[key] for key in by_cell if key not in stored]):
        judged, more = _runs(connection, unstored, judged=True)
        by_cell, unread = by_cell | judged, unread + more
    keys = list(ids)
    cells = [_cell(of[key[0]], by_cell[key], stored.get(key)) for key in keys if key[0] in of and key in by_cell]
    return cells, damaged + unread


def _runs(
    connection: Connection, cell_ids: Sequence[str], judged: bool
) -> tuple[dict[cell_rows.Cell, list[Run]], list[Damaged]]:
    by_cell: dict[cell_rows.Cell, list[Run]] = {}
    read, unread = runs.of_cells(connection, cell_ids, judged)
    for one in read:
        by_cell.setdefault((one.experiment_id, one.plan.cell_key), []).append(one)
    return by_cell, unread


def _cell(of: Experiment, runs: Sequence[Run], found: Numbers | None) -> StoredCell:
    return StoredCell(of, runs, Row.of(found, of.spec.name, runs) if found else None)
