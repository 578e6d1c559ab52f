"""Results: one row per cell of an experiment, with estimates over the runs that its numbers rest on."""

from collections.abc import Iterator
from dataclasses import replace

from orchestrator.analysis.cell.row import row_of_cell
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.domain.runs.row import Row
from orchestrator.domain.runs.stored import Page, StoredCell
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.result import largest_batch

PART = 200  # rows had at once where all are wanted


def of_experiment(context: Context, experiment_id: str, *, limit: int, cursor: str | None) -> Page[Row]:
    """Rows of one experiment in the order of its sweep, also while it runs.

    Raises:
        NotFound: there is none.
        InvalidRequest: the cursor is not one of ours.
    """
    query.experiment(context, experiment_id)
    return page_of_rows(context, CellFilter(experiment_id=experiment_id), limit, cursor)


def all_of_experiment(context: Context, experiment_id: str) -> list[Row]:
    """All rows of one experiment in the order of its sweep.

    Raises:
        NotFound: there is none.
    """
    query.experiment(context, experiment_id)
    return list(all_rows(context, CellFilter(experiment_id=experiment_id)))


def all_rows(context: Context, wanted: CellFilter) -> Iterator[Row]:
    """All rows that are wanted, in the order of ``page_of_rows``, had part by part."""
    cursor: str | None = None
    while True:
        page = page_of_rows(context, wanted, PART, cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def page_of_rows(context: Context, wanted: CellFilter, limit: int, cursor: str | None) -> Page[Row]:
    """Rows of the cells that are wanted, those of the newest experiment first, of one in the order of its sweep. They
    rest on the runs of these cells, and on no others but those that a search's note names.
    A cell whose batch a search has given up has no row: its runs are the search's, and a page may be that much shorter.

    Raises:
        InvalidRequest: the cursor is not one of ours.
    """
    page = context.store.cells(wanted, limit=limit, cursor=cursor)
    notes = largest_batch.Notes(context)
    told = [cell for cell in page.items if not largest_batch.was_given_up(cell.experiment, cell.runs)]
    rows = [_noted(cell, notes) for cell in told]
    return Page(rows, page.next_cursor, page.damaged)


def _noted(cell: StoredCell, notes: largest_batch.Notes) -> Row:
    """The row of a cell with what other runs of its experiment have given to note."""
    row = row_of_cell(cell)
    found = notes.on(cell.experiment, row.plan)
    return replace(row, validity=replace(row.validity, notes=row.validity.notes + found)) if found else row
