"""Compare two experiments or runs, cell by cell, where the workload is the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.analysis.cell import between_runs
from orchestrator.analysis.cell.row import RATE, row_of
from orchestrator.domain.asked.fingerprint import WORKLOAD_FIELDS, differences, workload_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.basis import Basis, alike
from orchestrator.domain.runs.row import Row, place_of
from orchestrator.domain.value.measurement import Measurement
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.result.results import all_of_experiment

Verdict = Literal["slower", "faster", "cannot_tell"]


@dataclass(frozen=True)
class Change:
    """Something of the subject or the rig that is not the same on both sides."""

    part: str
    field: str
    baseline: Any
    candidate: Any


@dataclass(frozen=True)
class ComparedCell:
    """One cell that both sides have. ``difference`` is candidate / baseline - 1, as a ratio, with its interval.

    ``smallest_detectable_ratio`` would be found with 80 % probability at two-sided 5 %; ``text`` is the verdict in
    words, or why nothing can be told.
    """

    plan: Plan
    verdict: Verdict
    baseline: Measurement | None
    candidate: Measurement | None
    difference: Measurement | None
    smallest_detectable_ratio: float | None
    text: str
    changes: Sequence[Change]


@dataclass(frozen=True)
class Unmatched:
    """A cell of one side only."""

    side: Literal["baseline", "candidate"]
    plan: Plan
    reason: str


@dataclass(frozen=True)
class Comparison:
    """``baseline`` and ``candidate`` are the ids that were compared."""

    baseline: str
    candidate: str
    cells: Sequence[ComparedCell]
    unmatched: Sequence[Unmatched]


def compare(context: Context, baseline: str, candidate: str) -> Comparison:
    """Compare ``candidate`` with ``baseline``, each the id of an experiment or of a run.

    Raises:
        NotFound: there is no such thing.
    """
    left, right = _rows(context, baseline), _rows(context, candidate)
    pairs = _match(left, right)
    paired = {id(row) for pair in pairs for row in pair}
    rest = [("baseline", row, right) for row in left if id(row) not in paired]
    rest += [("candidate", row, left) for row in right if id(row) not in paired]
    return Comparison(
        baseline,
        candidate,
        [_compared(one, other) for one, other in pairs],
        [Unmatched(side, row.plan, _why_unmatched(row, others)) for side, row, others in rest],  # type: ignore[arg-type]
    )


def _compared(one: Row, other: Row) -> ComparedCell:
    baseline, candidate = one.measurements.get(RATE), other.measurements.get(RATE)
    changes = changes_between(one.fingerprint, other.fingerprint)
    if baseline is None or candidate is None:
        sides = (("baseline", one), ("candidate", other))
        text = "; ".join(f"the {side} has none: {row.reasons[RATE]}" for side, row in sides if RATE in row.reasons)
        return ComparedCell(one.plan, "cannot_tell", baseline, candidate, None, None, text, changes)
    # Grades are never mixed: where one side is not sound, both rest on what was planned.
    bases = alike([(one.runs, one.planned), (other.runs, other.planned)])
    (mine, here), (theirs, there) = (rates_of(row, basis) for row, basis in zip((one, other), bases, strict=True))
    if not mine or not theirs:
        text = f"the planned runs of the {'candidate' if mine else 'baseline'} have none in one unit"
        both = (baseline if mine else None, candidate if theirs else None)
        return ComparedCell(one.plan, "cannot_tell", *both, None, None, text, changes)
    apart = one.experiment_id != other.experiment_id
    stages = (one.first_stage, other.first_stage)
    found = between_runs.compare(mine, theirs, (here, there), stages, apart, other.movement)
    verdict: Verdict = (
        "faster" if found.verdict == "faster" else "slower" if found.verdict == "slower" else "cannot_tell"
    )
    return ComparedCell(
        one.plan,
        verdict,
        baseline,
        candidate,
        difference(found),
        found.detectable_ratio,
        found.text,
        changes,
    )


def rates_of(row: Row, basis: Basis) -> tuple[list[float], list[str]]:
    """(the rates of the runs of ``basis`` in the order of their repetitions, the nodes of each)."""
    known = row.rates_of(basis)
    return [value for _, value in known], [place_of(run) for run, _ in known]


def difference(found: between_runs.Comparison) -> Measurement:
    """Candidate / baseline - 1, as a ratio, with its interval."""
    return Measurement(
        metric="difference_ratio",
        value=found.ratio - 1,
        unit="1",
        method=found.method,
        ci_low=None if found.ci_low is None else found.ci_low - 1,
        ci_high=None if found.ci_high is None else found.ci_high - 1,
        confidence=None if found.ci_low is None else found.confidence,
        n=float(found.n_baseline + found.n_candidate),
        scope=f"{found.n_baseline} runs against {found.n_candidate}",
    )


def changes_between(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> list[Change]:
    """In what two fingerprints differ, of subject and rig."""
    return [
        Change(part, field, before, after)
        for part in ("subject", "rig")
        for field, before, after in differences((one or {}).get(part) or {}, (other or {}).get(part) or {})
    ]


def _rows(context: Context, identifier: str) -> list[Row]:
    if identifier.startswith("run_"):
        run = query.run(context, identifier)
        return [row_of(context.store.experiment(run.experiment_id).spec, [run])]
    return all_of_experiment(context, identifier)


def _match(left: Sequence[Row], right: Sequence[Row]) -> list[tuple[Row, Row]]:
    """Pairs of cells of one workload: first those with the same interpreter too (an experiment may compare several),
    then what is left, which differs in the interpreter: it belongs to the subject, which is what one compares."""
    pairs: list[tuple[Row, Row]] = []
    remaining = list(right)
    for strict in (True, False):
        taken = {id(one) for one, _ in pairs}
        for row in left:
            if id(row) in taken:
                continue
            found = next((other for other in remaining if _same_workload(row, other, strict)), None)
            if found is not None:
                pairs.append((row, found))
                remaining.remove(found)
    return pairs


def _same_workload(one: Row, other: Row, strict: bool) -> bool:
    if strict and one.plan.interpreter != other.plan.interpreter:
        return False
    mine, theirs = _hardware(one), _hardware(other)
    return not _differing_axes(one.plan, other.plan) and (mine is None or theirs is None or mine == theirs)


def _differing_axes(one: Plan, other: Plan) -> list[str]:
    left, right = workload_of(one), workload_of(other)
    return [field for field in WORKLOAD_FIELDS if left.get(field) != right.get(field)]


def _hardware(row: Row) -> tuple[Any, Any] | None:
    """Device model and cores per device, which belong to the workload; None where no log tells."""
    workload = (row.fingerprint or {}).get("workload") or {}
    if not workload.get("device_models"):
        return None
    return tuple(workload["device_models"]), tuple(workload.get("cores_per_device") or ())


def _why_unmatched(row: Row, others: Sequence[Row]) -> str:
    """What separates it from the nearest cell of the other side."""
    if not others:
        return "the other side has no cells"
    nearest = min(others, key=lambda other: len(_differing_axes(row.plan, other.plan)))
    differing = _differing_axes(row.plan, nearest.plan)
    if not differing:
        return "the nearest cell of the other side ran on other devices, or is compared already"
    mine, theirs = row.plan.to_json(), nearest.plan.to_json()
    texts = ", ".join(f"{field} ({mine[field]}, there {theirs[field]})" for field in differing)
    return f"another workload: the nearest cell differs in {texts}"
