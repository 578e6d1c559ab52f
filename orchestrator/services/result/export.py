"""What an export says: results across experiments, a line for each cell or each run, had part by part."""

from collections.abc import Iterator, Sequence
from enum import StrEnum

from orchestrator.analysis.cell.row import row_of_cell
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.domain.words.errors import Damaged
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.result.export_columns import Line
from orchestrator.services.result.largest_batch import was_given_up

# Cells of a part: a judgement. What a part holds of its runs' series is all that an export has in memory.
PART = 40

Part = Sequence[Line | Damaged]


class Rows(StrEnum):
    """What a line of an export is about."""

    CELLS = "cells"
    RUNS = "runs"


def parts(context: Context, wanted: CellFilter, rows: Rows) -> Iterator[Part]:
    """The lines that are wanted: those of the newest experiment first, cells in the order of its sweep, runs in that of
    their repetitions. Stored rows that cannot be read stand where they were found.

    Raises:
        NotFound: there is no such experiment. It is looked for before the first part is had.
    """
    if wanted.experiment_id is not None:
        query.experiment(context, wanted.experiment_id)
    return _parts(context, wanted, rows)


def _parts(context: Context, wanted: CellFilter, rows: Rows) -> Iterator[Part]:
    cursor: str | None = None
    while True:
        page = context.store.cells(wanted, limit=PART, cursor=cursor)
        lines: list[Line | Damaged] = list(page.damaged)
        for cell in page.items:
            if rows is Rows.CELLS and was_given_up(cell.experiment, cell.runs):
                continue
            whole = Line(cell.experiment, row_of_cell(cell))
            lines += [whole] if rows is Rows.CELLS else _of_runs(whole)
        yield lines
        cursor = page.next_cursor
        if cursor is None:
            return


def _of_runs(whole: Line) -> list[Line | Damaged]:
    ordered = sorted(whole.row.runs, key=lambda run: (run.plan.repetition, run.created_at, run.id))
    return [Line(whole.experiment, whole.row, run) for run in ordered]
