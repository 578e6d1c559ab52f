"""Points of series: computed from cells as results are, and kept, so that a thousand nights are read at once."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from orchestrator.analysis.analyse import CODE_VERSION
from orchestrator.analysis.cell.row import RATE, row_of
from orchestrator.domain.around.history import UNKNOWN, Point, Share, StoredPoint
from orchestrator.domain.runs.run import TERMINAL, Experiment, Run
from orchestrator.domain.words.errors import Damaged
from orchestrator.services.context import Context

FORM = 1  # of what is kept; a new form is computed anew
VERSION = f"{FORM} {CODE_VERSION}"
AT_ONCE = 50  # cells whose runs are in memory together: a judgement


def points_of(experiment: Experiment, runs: Sequence[Run]) -> list[Point]:
    """The points of a cell: one for each workload that its runs (one or more, oldest first) have shown."""
    by_workload: dict[str, list[Run]] = {}
    for run, key in zip(runs, _workloads(runs), strict=True):
        by_workload.setdefault(key, []).append(run)
    return [_point(experiment, key, theirs) for key, theirs in by_workload.items()]


def _workloads(runs: Sequence[Run]) -> list[str]:
    """The workload of each run. One that told of no device counts where most of the cell's runs do."""
    keys = [_workload_of(run) for run in runs]
    known = Counter(key for key in keys if key != UNKNOWN)
    usual = known.most_common(1)[0][0] if known else UNKNOWN
    return [usual if key == UNKNOWN else key for key in keys]


def _workload_of(run: Run) -> str:
    fingerprint = run.fingerprint or {}
    told = (fingerprint.get("workload") or {}).get("device_models")
    return str(fingerprint.get("workload_key") or UNKNOWN) if told else UNKNOWN


def _point(experiment: Experiment, workload: str, runs: Sequence[Run]) -> Point:
    row = row_of(experiment.spec, runs)
    began = [run.started_at for run in row.basis.runs or runs if run.started_at is not None]
    found = row.measurements.get(RATE)
    return Point(
        experiment_id=experiment.id,
        cell_key=row.plan.cell_key,
        workload_key=workload,
        at=min(began) if began else experiment.created_at,
        interpreter=row.plan.interpreter,
        throughput=found,
        reason=None if found else row.reasons.get(RATE, "was not measured"),
        grade=row.basis.grade,
        reasons=row.validity.reasons,
        n_runs=row.n_ended,
        n_used=row.n_used,
        n_open=sum(1 for run in runs if run.state not in TERMINAL),
        shares=tuple(_shares(row.rates_of(row.basis))),
    )


def _shares(rates: Sequence[tuple[Run, float]]) -> Iterator[Share]:
    grouped: dict[tuple[str, str], list[tuple[Run, float]]] = {}
    for run, value in sorted(rates, key=lambda pair: pair[0].started_at or 0.0):
        told: Mapping[str, Any] = run.fingerprint or {}
        parts = str(told.get("subject_key") or ""), str(told.get("rig_key") or "")
        grouped.setdefault(parts, []).append((run, value))
    for (subject, rig), theirs in grouped.items():
        in_order = sorted(theirs, key=lambda pair: pair[0].plan.repetition)
        yield Share(subject, rig, theirs[0][0].id, tuple(value for _, value in in_order))


def completed(context: Context, stored: Sequence[StoredPoint]) -> tuple[list[Point], list[Damaged]]:
    """(the points of a series, oldest first, those that were not kept computed now and kept; what cannot be read)."""
    unkept = [one for one in stored if one.kept is None]
    found: dict[_Key, Point] = {}
    damaged: list[Damaged] = []
    for start in range(0, len(unkept), AT_ONCE):
        some, unread = _computed(context, unkept[start : start + AT_ONCE])
        found |= some
        damaged += unread
    made = [one.kept or found.get(_key(one)) for one in stored]
    return [one for one in made if one is not None], damaged


_Key = tuple[str, str, str]


def _key(one: StoredPoint) -> _Key:
    return one.experiment_id, one.cell_key, one.workload_key


def _computed(context: Context, wanted: Sequence[StoredPoint]) -> tuple[dict[_Key, Point], list[Damaged]]:
    """Compute points, and keep those all of whose runs can be read: damage is told each time."""
    cells, damaged = context.store.stored_cells(sorted({one.cell_id for one in wanted}))
    points = [point for cell in cells for point in points_of(cell.experiment, cell.runs)]
    found = {(one.experiment_id, one.cell_key, one.workload_key): one for one in points}
    torn = {one.experiment_id for one in damaged}
    whole = [one for one in wanted if _key(one) in found and one.experiment_id not in torn]
    context.store.keep_points([(one, found[_key(one)]) for one in whole])
    return found, list(damaged)


def keep(context: Context, experiment_id: str, cell_key: str) -> None:
    """Compute and keep the points of a cell if its last run has ended: who looks at a thousand nights shall not wait
    for all of them. Nothing is lost where that fails; they are computed when somebody asks for them."""
    stored = context.store.points_of_finished_cell(experiment_id, cell_key, VERSION)
    if stored:
        _computed(context, stored)
