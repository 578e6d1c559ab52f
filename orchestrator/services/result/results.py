"""Results: one row per cell of an experiment, with estimates over the runs that its numbers rest on."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from orchestrator.analysis.cell import between_runs, cells, lending, length, prospect
from orchestrator.analysis.cell.lending import Lent, Movement, Session
from orchestrator.analysis.run.quality import CENSORED
from orchestrator.analysis.statistics.nested import Components
from orchestrator.analysis.statistics.settling import Cut
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion.convergence import CONVERGENCE
from orchestrator.domain.expansion.repetitions import first_stage_rates, planned_of, variance_chooses
from orchestrator.domain.runs.basis import Basis, basis_of
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.domain.runs.precision import stein
from orchestrator.domain.runs.run import TERMINAL, Experiment, Run
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.value.failure import FailureKind
from orchestrator.domain.value.measurement import (
    METRICS,
    OF_CONVERGENCE,
    ONLY_CONVERGENCE,
    Analysis,
    Grade,
    Measurement,
    Reason,
    Validity,
)
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.result import largest_batch

# A run to convergence that ended so has not reached its target.
_LOST = (FailureKind.DIVERGED, FailureKind.TIMED_OUT)
PART = 200  # rows had at once where all are wanted


@dataclass(frozen=True)
class Precision:
    """``half_width_ratio`` of the 95 % interval that there is, and whether it is within ``target``."""

    target: float
    half_width_ratio: float | None
    met: bool
    n_wanted: int | None


@dataclass(frozen=True)
class ResultRow:
    """One cell. ``measurements`` has what was measured, ``reasons`` why each other metric was not.

    Attributes:
        basis: the runs that its numbers rest on; ``validity`` says how far those may be believed.
        differing: the parts of the fingerprint (subject, rig) in which these runs differ.
        variation: how much the throughput varies within runs, between runs of a node and between nodes.
        fleet: the throughput of nodes like these; None for fewer than five nodes.
        precision: whether ``precision_target`` was met; None where none was asked for.
        first_stage: the valid runs of Stein's first stage; None where the number of runs was fixed.
        cut: where the warm-up of all its runs ends. ``n_scouts`` runs were too short for it and give no number.
        planned: the repetitions that were planned; None where variance chose their number.
        movement: how far the series moved between earlier sessions; None where history does not know.
    """

    experiment_id: str
    experiment_name: str
    plan: Plan
    runs: Sequence[Run]
    basis: Basis
    validity: Validity
    fingerprint: Mapping[str, Any] | None
    differing: tuple[str, ...]
    measurements: Mapping[str, Measurement]
    reasons: Mapping[str, str]
    variation: Components | None = None
    fleet: Measurement | None = None
    precision: Precision | None = None
    first_stage: int | None = None
    cut: Cut | None = None
    n_scouts: int = 0
    planned: int | None = None
    movement: Movement | None = None

    @property
    def n_used(self) -> int:
        """How many runs its numbers rest on."""
        return len(self.basis.runs) - self.n_scouts

    @property
    def left_out(self) -> list[Run]:
        """Runs that have ended and that the numbers do not rest on."""
        used = {run.id for run in self.basis.runs}
        return [run for run in self.runs if run.state in TERMINAL and run.id not in used]

    @property
    def n_ended(self) -> int:
        return sum(1 for run in self.runs if run.state in TERMINAL)


def of_experiment(context: Context, experiment_id: str, *, limit: int, cursor: str | None) -> Page[ResultRow]:
    """Rows of one experiment in the order of its sweep, also while it runs.

    Raises:
        NotFound: there is none.
        InvalidRequest: the cursor is not one of ours.
    """
    query.experiment(context, experiment_id)
    return page_of_rows(context, CellFilter(experiment_id=experiment_id), limit, cursor)


def all_of_experiment(context: Context, experiment_id: str) -> list[ResultRow]:
    """All rows of one experiment in the order of its sweep.

    Raises:
        NotFound: there is none.
    """
    query.experiment(context, experiment_id)
    return list(all_rows(context, CellFilter(experiment_id=experiment_id)))


def all_rows(context: Context, wanted: CellFilter) -> Iterator[ResultRow]:
    """All rows that are wanted, in the order of ``page_of_rows``, had part by part."""
    cursor: str | None = None
    while True:
        page = page_of_rows(context, wanted, PART, cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


def page_of_rows(context: Context, wanted: CellFilter, limit: int, cursor: str | None) -> Page[ResultRow]:
    """Rows of the cells that are wanted, those of the newest experiment first, of one in the order of its sweep. They
    are computed from what is stored of the runs of these cells, and of no others but those that a search's note names.
    A cell whose batch a search has given up has no row: its runs are the search's, and a page may be that much shorter.

    Raises:
        InvalidRequest: the cursor is not one of ours.
    """
    page = context.store.cells(wanted, limit=limit, cursor=cursor)
    notes = largest_batch.Notes(context)
    told = [cell for cell in page.items if not largest_batch.was_given_up(cell.experiment, cell.runs)]
    rows = [row_of(cell.experiment, cell.runs, notes.on(cell.experiment, cell.runs[0].plan)) for cell in told]
    return Page(rows, page.next_cursor, page.damaged)


def row_of(experiment: Experiment, runs: Sequence[Run], notes: tuple[str, ...] = ()) -> ResultRow:
    """The row of a cell: a function of its runs (one or more, oldest first), of the spec, and of what other runs of the
    experiment have given to note."""
    return measured_row(experiment, runs, notes)[0]


def measured_row(
    experiment: Experiment, runs: Sequence[Run], notes: tuple[str, ...] = ()
) -> tuple[ResultRow, "Measured"]:
    """(the row of a cell, what its numbers rest on)."""
    basis = basis_of(runs, planned_of(experiment.spec))
    measured = measure(basis)
    first_stage = _first_stage(experiment.spec, basis)
    measurements, reasons = _estimates(measured, scope_of(basis), _why_nothing(runs), first_stage, runs[0].plan)
    if CENSORED[0] in measurements and (unreached := _unreached(runs, measured)):
        # A mean over the others would be that of the lucky.
        reasons |= dict.fromkeys(CENSORED, unreached)
        measurements = {metric: one for metric, one in measurements.items() if metric not in CENSORED}
    movement = lending.movement_of(measured.sessions)
    newest = next((run for run in reversed(basis.runs or runs) if run.fingerprint), None)
    row = ResultRow(
        experiment_id=experiment.id,
        experiment_name=experiment.spec.name,
        plan=runs[0].plan,
        runs=runs,
        basis=basis,
        validity=_with_notes(_validity(runs, basis), notes),
        fingerprint=newest.fingerprint if newest else None,
        differing=_differing(basis.runs),
        measurements=measurements,
        reasons=reasons,
        precision=_precision(experiment.spec, runs),
        first_stage=first_stage,
        cut=measured.cut,
        n_scouts=measured.n_scouts,
        planned=planned_of(experiment.spec),
        movement=movement,
        **_spread(measured),
    )
    return row, measured


@dataclass(frozen=True)
class Measured:
    """The runs that a cell rests on, each from the cell's cut on. ``n_scouts`` were too short for it and left out."""

    runs: Sequence[tuple[Run, Analysis]]
    cut: Cut | None
    n_scouts: int
    sessions: Sequence[Session] = ()
    # With those: one that reaches its target soon is short, and no worse an observation of its quality.
    whole: Sequence[tuple[Run, Analysis]] = ()

    def lent(self) -> Lent | None:
        """What earlier sessions lend to a cell of few runs, rescaled to their length; None where they lend nothing."""
        rests = [
            cells.per_work(one.series)[self.cut.first :] for _, one in self.runs if one.series and self.cut is not None
        ]
        rests = [rest for rest in rests if len(rest)]
        if not rests:
            return None
        within = fmean(length.within_variance(rest) for rest in rests)
        return lending.lend(
            self.sessions, within if math.isfinite(within) else None, fmean(len(rest) for rest in rests)
        )

    def of(self, metric: str) -> Sequence[tuple[Run, Analysis]]:
        """The runs that ``metric`` rests on."""
        return self.whole if metric in OF_CONVERGENCE else self.runs

    def rates(self, metric: str = "throughput") -> list[tuple[Run, Measurement]]:
        """(run, its measurement of ``metric``) of those that have a value, in the order of their repetitions."""
        found = [(run, analysis.measurement(metric)) for run, analysis in self.of(metric)]
        return [(run, one) for run, one in found if one is not None and one.value is not None]


def measure(basis: Basis) -> Measured:
    """Measure the runs of a cell from their common cut on."""
    judged = [(run, run.analysis) for run in basis.runs if run.analysis]
    found = cells.recut([analysis for _, analysis in judged])
    pairs = zip((run for run, _ in judged), found.analyses, strict=True)
    kept = [pair for index, pair in enumerate(pairs) if index not in found.scouts]
    return Measured(kept, found.cut, len(found.scouts), _sessions(found.analyses), judged)


def _sessions(analyses: Sequence[Analysis]) -> list[Session]:
    """Earlier sessions as they were known when the cell's first job was made: what came later changes no number."""
    told = next((one.summary["history"] for one in analyses if one.summary.get("history")), ())
    return prospect.sessions_of(told)


def _spread(measured: Measured) -> dict[str, Any]:
    """How the throughput varies, and what it is for a fleet."""
    found = [(one, place_of(run)) for run, one in measured.rates()]
    if not found:
        return {}
    rates, places = [one for one, _ in found], [place for _, place in found]
    return {
        "variation": between_runs.variation(rates, places),
        "fleet": between_runs.over_the_fleet(rates, places),
    }


def _precision(spec: ExperimentSpec, runs: Sequence[Run]) -> Precision | None:
    if spec.precision_target is None:
        return None
    rates, first = first_stage_rates(spec, runs)
    if first < 2:
        return Precision(spec.precision_target, None, False, None)
    found = stein(rates, first, spec.precision_target)
    return Precision(spec.precision_target, found.half_width_ratio, found.met, found.wanted)


def _validity(runs: Sequence[Run], basis: Basis) -> Validity:
    """Each reason and advice once, however many runs have it: those of the runs that the numbers rest on, else of all.
    What nobody can do anything about is told of the runs (tbd show)."""
    if basis.grade is Grade.BROKEN:
        reasons = {reason.code: reason for run in runs for reason in why_not_sound(run)}
        return Validity(tuple(reasons.values()) or (Reason("not_run", "no run has ended yet", False),))
    judged = [run.analysis.validity for run in basis.runs if run.analysis]
    reasons = {reason.code: reason for one in judged for reason in one.reasons}
    notes = {_kind(note): note for one in reversed(judged) for note in one.advice}
    return Validity(tuple(reasons.values()), tuple(notes.values()))


def _with_notes(validity: Validity, notes: tuple[str, ...]) -> Validity:
    return replace(validity, notes=validity.notes + notes)


def _kind(note: str) -> str:
    """What a note is about: runs of a cell say the same with other numbers, and one of them is enough."""
    return "".join(letter for letter in note.partition(":")[0] if not letter.isdigit())


def _unreached(runs: Sequence[Run], measured: Measured) -> str | None:
    """Which runs of a cell did not reach the target that others of it reached, in words; None where all did. One whose
    loss was no number any more, or that took too long, did not reach it either."""
    short = [one for _, analysis in measured.whole if (one := analysis.measurement(CENSORED[0])) and one.value is None]
    lost = [run for run in runs if run.failure and run.failure.kind in _LOST]
    if not short and not lost:
        return None
    why = [one.reason or "no reason is known" for one in short[-1:]] + [
        run.failure.message for run in lost[-1:] if run.failure
    ]
    total = len(measured.whole) + len(lost)
    return f"{len(short) + len(lost)} of {total} runs did not reach it, such as: {'; '.join(why)}"


def why_not_sound(run: Run) -> tuple[Reason, ...]:
    """Why a run that has ended is not sound; nothing for one that is or has not ended."""
    if run.state not in TERMINAL or run.sound:
        return ()
    if run.failure:
        return (Reason(run.failure.kind.value, run.failure.message, False),)
    if run.analysis and run.analysis.validity.reasons:
        return run.analysis.validity.reasons
    return (Reason(run.state.value, f"the run was {run.state.value}", False),)


def _why_nothing(runs: Sequence[Run]) -> str:
    if any(run.usable for run in runs):
        return "was not measured"
    reasons = {reason.code: reason.text for run in runs for reason in why_not_sound(run)}
    return "; ".join(reasons.values()) or "no run has ended yet"


def _differing(runs: Sequence[Run]) -> tuple[str, ...]:
    prints = [run.fingerprint for run in runs if run.fingerprint]
    return tuple(part for part in ("subject", "rig") if len({one.get(f"{part}_key") for one in prints}) > 1)


def _first_stage(spec: ExperimentSpec, basis: Basis) -> int | None:
    """How many runs at the beginning told how many there must be; None where their count was fixed."""
    return first_stage_rates(spec, basis.runs)[1] if variance_chooses(spec) else None


def place_of(run: Run) -> str:
    """The nodes on which a run was carried out, as one word: what its noise belongs to."""
    return "+".join(run.attempt.placement.nodes) if run.attempt else ""


def scope_of(basis: Basis) -> str:
    """What the numbers speak of: which devices, when, beside what. A machine's speed of another hour is another one."""
    began = [run.started_at for run in basis.runs if run.started_at is not None]
    ended = [run.ended_at for run in basis.runs if run.ended_at is not None]
    when = f", {_minute(min(began))} to {_minute(max(ended))} UTC" if began and ended else ""
    return f"{between_runs.THESE_DEVICES}{when}, {basis.scope}" if basis.scope else between_runs.THESE_DEVICES + when


def _minute(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M}"


def _estimates(
    measured: Measured, scope: str, otherwise: str, first_stage: int | None, plan: Plan
) -> tuple[dict[str, Measurement], dict[str, str]]:
    """(metric -> estimate over the runs, metric -> why there is none)."""
    measurements: dict[str, Measurement] = {}
    reasons: dict[str, str] = {}
    for metric in METRICS:
        known = measured.rates(metric)
        if metric in OF_CONVERGENCE and plan.mode != CONVERGENCE:
            reasons[metric] = ONLY_CONVERGENCE
            continue
        if known:
            places = [place_of(run) for run, _ in known]
            stage = first_stage if len(known) == len(measured.of(metric)) else None  # else it is not the first of these
            runs = [one for _, one in known]
            lent = measured.lent() if metric == "throughput" and len(known) < lending.FEW else None
            measurements[metric] = between_runs.over_runs(runs, scope, places=places, first_stage=stage, lent=lent)
        else:
            found = [analysis.measurement(metric) for _, analysis in measured.of(metric)]
            reasons[metric] = next((one.reason for one in found if one and one.reason), otherwise)
    return measurements, reasons
