"""A row of results: pure, from a spec and the runs of one cell of it to estimates over the runs that count."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from orchestrator.analysis.cell import between_runs, cells, lending, length, prospect
from orchestrator.analysis.cell.lending import Lent, Session
from orchestrator.analysis.run.quality import CENSORED
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion.convergence import CONVERGENCE
from orchestrator.domain.expansion.repetitions import first_stage_rates, planned_of, variance_chooses
from orchestrator.domain.runs.basis import Basis, basis_of, of_plan
from orchestrator.domain.runs.row import UNKNOWN, Numbers, Precision, Row, Share, place_of, why_not_sound
from orchestrator.domain.runs.run import Run
from orchestrator.domain.runs.stored import StoredCell
from orchestrator.domain.runs.wanted_precision import stein
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
from orchestrator.domain.value.variation import Cut

RATE = "throughput"
# A run to convergence that ended so has not reached its target.
_LOST = (FailureKind.DIVERGED, FailureKind.TIMED_OUT)


def row_of(spec: ExperimentSpec, runs: Sequence[Run]) -> Row:
    """The row of a cell of an experiment with that spec: ``runs`` are all of it, one or more, oldest first."""
    planned = planned_of(spec)
    basis = basis_of(runs, planned)
    measured = measure(basis)
    first_stage = _first_stage(spec, basis)
    measurements, reasons = _estimates(measured, scope_of(basis), _why_nothing(runs), first_stage, runs[0].plan)
    if CENSORED[0] in measurements and (unreached := _unreached(runs, measured)):
        # A mean over the others would be that of the lucky.
        reasons |= dict.fromkeys(CENSORED, unreached)
        measurements = {metric: one for metric, one in measurements.items() if metric not in CENSORED}
    newest = next((run for run in reversed(basis.runs or runs) if run.fingerprint), None)
    as_planned = of_plan(runs, planned)
    found, others = measured.rates(), measured.rates() if as_planned.runs == basis.runs else measure(as_planned).rates()
    places = [place_of(run) for run, _ in found]
    numbers = Numbers(
        interpreter=runs[0].plan.interpreter,
        run_ids=tuple(run.id for run in runs),
        used_ids=tuple(run.id for run in basis.runs),
        grade=basis.grade,
        validity=_validity(runs, basis, measured),
        began_at=min((run.started_at for run in basis.runs or runs if run.started_at is not None), default=None),
        fingerprint=newest.fingerprint if newest else None,
        differing=_differing(basis.runs),
        measurements=measurements,
        reasons=reasons,
        unit=next((one.unit for _, one in (*found, *others)), None),
        rates=_by_run(found),
        planned_rates=_by_run(others),
        shares=tuple(_shares(found)),
        variation=between_runs.variation([one for _, one in found], places),
        fleet=between_runs.over_the_fleet([one for _, one in found], places) if found else None,
        precision=_precision(spec, runs, mixed=measured.mixed_units() is not None),
        first_stage=first_stage,
        cut=measured.cut,
        n_scouts=measured.n_scouts,
        planned=planned,
        movement=lending.movement_of(measured.sessions),
    )
    return Row.of(numbers, spec.name, runs)


def row_of_cell(cell: StoredCell) -> Row:
    """The row of a stored cell: as it was stored, else made now."""
    return cell.row or row_of(cell.experiment.spec, cell.runs)


def by_workload(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of a cell (one or more, oldest first) by the workload that they have shown. One that told of no device
    counts where most of the cell's runs do."""
    keys = [_workload_of(run) for run in runs]
    known = Counter(key for key in keys if key != UNKNOWN)
    usual = known.most_common(1)[0][0] if known else UNKNOWN
    found: dict[str, list[Run]] = {}
    for run, key in zip(runs, keys, strict=True):
        found.setdefault(usual if key == UNKNOWN else key, []).append(run)
    return found


def _workload_of(run: Run) -> str:
    fingerprint = run.fingerprint or {}
    told = (fingerprint.get("workload") or {}).get("device_models")
    return str(fingerprint.get("workload_key") or UNKNOWN) if told else UNKNOWN


def _shares(rates: Sequence[tuple[Run, Measurement]]) -> Iterator[Share]:
    grouped: dict[tuple[str, str], list[tuple[Run, float]]] = {}
    for run, one in sorted(rates, key=lambda pair: pair[0].started_at or 0.0):
        told: Mapping[str, Any] = run.fingerprint or {}
        parts = str(told.get("subject_key") or ""), str(told.get("rig_key") or "")
        grouped.setdefault(parts, []).append((run, float(one.value or 0.0)))
    for (subject, rig), theirs in grouped.items():
        in_order = sorted(theirs, key=lambda pair: pair[0].plan.repetition)
        yield Share(subject, rig, theirs[0][0].id, tuple(value for _, value in in_order))


def _by_run(rates: Sequence[tuple[Run, Measurement]]) -> dict[str, float]:
    return {run.id: float(one.value) for run, one in rates if one.value is not None}


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

    def rates(self, metric: str = RATE) -> list[tuple[Run, Measurement]]:
        """(run, its measurement of ``metric``) of those that have a value, in the order of their repetitions; none
        where they have no unit in common."""
        return [] if self.mixed_units(metric) else self._known(metric)

    def mixed_units(self, metric: str = RATE) -> str | None:
        """In which units the runs measured ``metric``, in words; None where it is one."""
        counts = Counter(one.unit for _, one in self._known(metric))
        if len(counts) < 2:
            return None
        return f"its runs measured other units: {', '.join(f'{unit} ({n})' for unit, n in counts.items())}"

    def _known(self, metric: str) -> list[tuple[Run, Measurement]]:
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


def _precision(spec: ExperimentSpec, runs: Sequence[Run], mixed: bool) -> Precision | None:
    if spec.precision_target is None:
        return None
    rates, first = first_stage_rates(spec, runs)
    if first < 2 or mixed:
        return Precision(spec.precision_target, None, False, None)
    found = stein(rates, first, spec.precision_target)
    return Precision(spec.precision_target, found.half_width_ratio, found.met, found.wanted)


def _validity(runs: Sequence[Run], basis: Basis, measured: Measured) -> Validity:
    """Each reason and advice once, however many runs have it: those of the runs that the numbers rest on, else of all.
    What nobody can do anything about is told of the runs (tbd show)."""
    mixed = measured.mixed_units()
    own = (f"no rate over all runs, for {mixed}; submit it anew",) if mixed else ()
    if basis.grade is Grade.BROKEN:
        reasons = {reason.code: reason for run in runs for reason in why_not_sound(run)}
        return Validity(tuple(reasons.values()) or (Reason("not_run", "no run has ended yet", False),))
    judged = [run.validity for run in basis.runs if run.validity]
    reasons = {reason.code: reason for one in judged for reason in one.reasons}
    notes = {_kind(note): note for one in reversed(judged) for note in one.advice}
    return Validity(tuple(reasons.values()), (*own, *notes.values()))


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
            lent = measured.lent() if metric == RATE and len(known) < lending.FEW else None
            measurements[metric] = between_runs.over_runs(runs, scope, places=places, first_stage=stage, lent=lent)
        else:
            found = [analysis.measurement(metric) for _, analysis in measured.of(metric)]
            why = measured.mixed_units(metric)
            reasons[metric] = why or next((one.reason for one in found if one and one.reason), otherwise)
    return measurements, reasons
