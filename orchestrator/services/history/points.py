"""Points of series: the numbers of cells, as they were stored or made now, with their place in the series."""

from collections.abc import Sequence

from orchestrator.analysis.cell.row import RATE, by_workload, row_of
from orchestrator.domain.around.history import Point, StoredPoint
from orchestrator.domain.runs.row import Numbers
from orchestrator.domain.runs.stored import StoredCell
from orchestrator.domain.words.errors import Damaged
from orchestrator.services.context import Context

AT_ONCE = 50  # cells whose runs are in memory together: a judgement

_Key = tuple[str, str, str]


def completed(context: Context, stored: Sequence[StoredPoint]) -> tuple[list[Point], list[Damaged]]:
    """(the points of a series, oldest first; what of the runs of those that are not stored cannot be read)."""
    unmade = sorted({one.cell_id for one in stored if one.numbers is None})
    found: dict[_Key, Point] = {}
    damaged: list[Damaged] = []
    for start in range(0, len(unmade), AT_ONCE):
        cells, unread = context.store.stored_cells(unmade[start : start + AT_ONCE])
        found |= {_key(one): one for cell in cells for one in _made(cell)}
        damaged += unread
    for one in stored:
        if one.numbers:
            found[_key(one)] = _point(_key(one), one.created_at, one.numbers, len(one.numbers.run_ids))
    return [found[_key(one)] for one in stored if _key(one) in found], damaged


def _key(one: StoredPoint | Point) -> _Key:
    return one.experiment_id, one.cell_key, one.workload_key


def _made(cell: StoredCell) -> list[Point]:
    """The points of a cell: one for each workload that its runs have shown."""
    of = cell.experiment
    rows = {workload: row_of(of.spec, runs) for workload, runs in by_workload(cell.runs).items()}
    return [_point((of.id, row.plan.cell_key, key), of.created_at, row, row.n_ended) for key, row in rows.items()]


def _point(key: _Key, created_at: float, numbers: Numbers, n_ended: int) -> Point:
    found = numbers.measurements.get(RATE)
    return Point(
        *key,
        at=created_at if numbers.began_at is None else numbers.began_at,
        interpreter=numbers.interpreter,
        throughput=found,
        reason=None if found else numbers.reasons.get(RATE, "was not measured"),
        grade=numbers.grade,
        reasons=numbers.validity.reasons,
        n_runs=n_ended,
        n_used=numbers.n_used,
        n_open=len(numbers.run_ids) - n_ended,
        shares=numbers.shares,
    )
