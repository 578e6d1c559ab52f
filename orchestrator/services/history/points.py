"""Points of series: the numbers of cells, as they were stored or made now, and those that other tools measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis.cell.row import RATE, by_workload, row_of
from orchestrator.domain.around.history import Point, StoredPoint
from orchestrator.domain.around.imported_points import SERIES_PREFIX, ImportedFilter, ImportedPoint
from orchestrator.domain.runs.row import Numbers, Share
from orchestrator.domain.runs.stored import StoredCell
from orchestrator.domain.value.measurement import Grade, Reason
from orchestrator.domain.words.errors import Damaged
from orchestrator.services.context import Context

AT_ONCE = 50  # cells whose runs are in memory together: a judgement

_Key = tuple[str, str, str]


@dataclass(frozen=True)
class Found:
    """Points of a series, oldest first.

    Attributes:
        names: of their experiments by id; of imported points, of their sessions.
        prints: what the ``Share`` of each key is of, as a fingerprint has it: its subject and its rig.
        n_own: how many there are, without those of which nobody knows whether they belong to the series.
        damaged: what of it cannot be read.
    """

    points: list[Point]
    names: Mapping[str, str]
    prints: Mapping[tuple[str, str], Mapping[str, Any]]
    n_own: int
    damaged: Sequence[Damaged]


def of_series(context: Context, series: str, limit: int) -> Found:
    """The newest ``limit`` points of the series of that key."""
    if series.startswith(SERIES_PREFIX):
        return _imported(context, series, limit)
    stored = context.store.points(series, limit)
    made, damaged = completed(context, stored)
    witnesses = {(share.subject_key, share.rig_key): share.run_id for one in made for share in one.shares}
    fingerprints = context.store.fingerprints(sorted(set(witnesses.values())))
    return Found(
        points=made,
        names={one.experiment_id: one.experiment_name for one in stored},
        prints={keys: fingerprints.get(run_id, {}) for keys, run_id in witnesses.items()},
        n_own=sum(1 for one in stored if one.workload_key == series),
        damaged=damaged,
    )


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


def _imported(context: Context, series: str, limit: int) -> Found:
    page = context.store.imported(ImportedFilter(series=series), limit=limit)
    made = [_of_imported(one) for one in reversed(page.items)]
    return Found(
        points=made,
        names={one.id: one.session for one in page.items},
        prints={(one.id, one.id): {"subject": one.subject, "rig": _rig_of(one)} for one in page.items},
        n_own=len(page.items) + len(page.damaged),
        damaged=page.damaged,
    )


def _of_imported(one: ImportedPoint) -> Point:
    rates = tuple(process.rate for process in one.processes if process.rate is not None)
    source = f"{one.tool} {one.tool_version or 'of unknown version'}"
    unknown = f"{source} measured it: neither its warm-up nor what else ran is known"
    return Point(
        experiment_id=one.id,
        cell_key=one.benchmark,
        workload_key=one.series,
        at=one.at,
        interpreter=one.tool,
        throughput=one.throughput,
        reason=one.reason,
        grade=Grade.DISTURBED if one.throughput else Grade.BROKEN,
        reasons=(Reason("imported", unknown, False),),
        n_runs=len(one.processes),
        n_used=len(rates),
        n_open=0,
        shares=(Share(one.id, one.id, one.id, rates),) if one.throughput else (),
        source=source,
    )


def _rig_of(one: ImportedPoint) -> dict[str, Any]:
    """Its machine as a fingerprint has one."""
    rest = {name: value for name, value in one.rig.items() if name != "host"}
    return {"nodes": {one.rig.get("host", "unknown machine"): rest}}
