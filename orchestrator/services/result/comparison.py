"""Cells against each other: those of one experiment in *pairs*, by one of its axes (which framework is faster?), and
those of two experiments or runs as its two *sides*, cell by cell where the workload is the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from orchestrator.analysis.cell import between_runs
from orchestrator.analysis.cell.row import RATE, row_of, scope_of
from orchestrator.analysis.statistics import blocks
from orchestrator.domain.asked.fingerprint import WORKLOAD_FIELDS, differences, workload_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion import groups
from orchestrator.domain.expansion.groups import Group
from orchestrator.domain.expansion.repetitions import repeats_of, variance_chooses
from orchestrator.domain.runs.basis import Basis
from orchestrator.domain.runs.row import Row
from orchestrator.domain.value.measurement import Grade, Measurement
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.result.rated import (
    STAGED,
    RatedCell,
    cells_of,
    hardware_of,
    rated,
    scope_over,
    unit_of,
    why_no_rate,
)
from orchestrator.services.result.results import all_of_experiment

Which = Literal["baseline", "candidate"]
SIDES: tuple[Which, Which] = ("baseline", "candidate")


@dataclass(frozen=True)
class Side:
    """A cell of a pair: what it has on the axis, that in words, and its mean rate over ``n_runs``."""

    value: Any
    label: str
    plan: Plan
    rate: float | None
    n_runs: int


@dataclass(frozen=True)
class ComparedPair:
    """``b`` against ``a``. ``group``: what they agree in, of the axes that have several values.

    ``found`` has the verdict, which speaks of the runs of ``basis``; ``notes`` say what differs beside the axis.
    """

    group: Mapping[str, Any]
    a: Side
    b: Side
    found: blocks.Pair
    unit: str | None
    basis: Basis
    method: str
    notes: tuple[str, ...] = ()

    @property
    def scope(self) -> str | None:
        return scope_of(self.basis) if self.basis.runs else None

    @property
    def grade(self) -> Grade:
        return self.basis.grade


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
    words, or why nothing can be told. ``p`` is that of no difference, ``p_holm`` is adjusted for all cells of the two.
    """

    plan: Plan
    baseline: Measurement | None
    candidate: Measurement | None
    changes: Sequence[Change]
    text: str
    verdict: Literal["slower", "faster", "cannot_tell"] = "cannot_tell"
    difference: Measurement | None = None
    smallest_detectable_ratio: float | None = None
    p: float | None = None
    p_holm: float | None = None


@dataclass(frozen=True)
class NotCompared:
    """A cell that takes part in no verdict, and why."""

    plan: Plan
    reason: str


@dataclass(frozen=True)
class Unmatched(NotCompared):
    """A cell of one side only."""

    side: Which


@dataclass(frozen=True)
class Pairs:
    """``axis`` is None where no axis has several values; ``axes`` are all that have, the first one is taken by itself.
    ``baseline``: what the cells were compared with, in words. ``scope``: what all verdicts together speak of."""

    axis: str | None
    axes: Sequence[str]
    baseline: str | None
    pairs: Sequence[ComparedPair]
    not_compared: Sequence[NotCompared]
    scope: str | None = None


@dataclass(frozen=True)
class Sides:
    """``baseline`` and ``candidate`` are the ids that were compared."""

    baseline: str
    candidate: str
    cells: Sequence[ComparedCell]
    unmatched: Sequence[Unmatched]


def pairs(context: Context, experiment_id: str, axis: str | None = None, baseline: str | None = None) -> Pairs:
    """Compare the cells of an experiment that differ in ``axis`` only: all pairs, or each with ``baseline``.

    Without ``axis`` it is the framework where there are several, else the first axis that has several values.

    Raises:
        NotFound: there is no such experiment.
        InvalidRequest: there is no such axis or baseline; the text names those that there are.
    """
    spec = query.experiment(context, experiment_id).spec
    rows = {row.plan.cell_key: row for row in all_of_experiment(context, experiment_id)}
    plans = [row.plan for row in rows.values()]
    axes = groups.axes_of(spec, plans)
    if axis is None and not axes and baseline is None:
        return Pairs(None, [], None, [], [NotCompared(plan, "no axis has several values") for plan in plans])
    by = groups.chosen_axis(spec, plans, axis or next(iter(axes), "framework"))
    against = None
    if baseline is not None:
        values = dict.fromkeys(groups.value_of(plan, by) for plan in plans)
        against = groups.label(by, groups.chosen_value(values, by, baseline))
    found = groups.groups_of(spec, plans, by, lambda plan: unit_of(context, plan))
    family = [group for group in found if _has_pairs(group, by, against)]
    cells = cells_of(family, rows)
    not_compared = _without_verdict(plans, cells, by, against)
    return Pairs(
        by, axes, against, _in_pairs(spec, family, cells, by, against), not_compared, scope_over(cells.values())
    )


def _has_pairs(group: Group, by: str, against: str | None) -> bool:
    labels = [groups.label(by, groups.value_of(plan, by)) for plan in group.plans]
    return len(labels) > 1 and (against is None or against in labels)


def _in_pairs(
    spec: ExperimentSpec, family: Sequence[Group], cells: Mapping[str, RatedCell], by: str, against: str | None
) -> list[ComparedPair]:
    labelled = [
        {groups.label(by, groups.value_of(plan, by)): cells[plan.cell_key] for plan in group.plans} for group in family
    ]
    rates = [{label: cell.rates for label, cell in one.items()} for one in labelled]
    stage = range(1, repeats_of(spec) + 1) if variance_chooses(spec) else None
    return [
        _pair(spec, by, group, pair, of[pair.a], of[pair.b])
        for group, of, found in zip(family, labelled, blocks.compare_groups(rates, against, stage), strict=True)
        for pair in found
    ]


def _pair(spec: ExperimentSpec, by: str, group: Group, found: blocks.Pair, a: RatedCell, b: RatedCell) -> ComparedPair:
    grade = Grade.BROKEN if Grade.BROKEN in (a.basis.grade, b.basis.grade) else a.basis.grade
    return ComparedPair(
        group=group.shared,
        a=_side(by, a, found.a),
        b=_side(by, b, found.b),
        found=found,
        unit=next((cell.row.unit for cell in (a, b) if cell.has_rates), None),
        basis=Basis((*a.basis.runs, *b.basis.runs), grade),
        method=f"{found.method}; {STAGED}" if variance_chooses(spec) else found.method,
        notes=_notes(by, a.row, b.row),
    )


def _side(by: str, cell: RatedCell, label: str) -> Side:
    rates = list(cell.rates.values())
    mean = sum(rates) / len(rates) if rates else None
    return Side(groups.value_of(cell.row.plan, by), label, cell.row.plan, mean, len(rates))


def _notes(by: str, a: Row, b: Row) -> tuple[str, ...]:
    """What differs beside the axis: devices of another kind make another workload."""
    mine, theirs = _devices(a), _devices(b)
    if by in ("device", "topology") or mine is None or theirs is None or mine == theirs:
        return ()
    return (f"they ran on other devices: {mine}; {theirs}",)


def _devices(row: Row) -> str | None:
    hardware = hardware_of(row)
    if hardware is None:
        return None
    models, cores = hardware
    return ", ".join(map(str, models)) + (f" ({', '.join(map(str, cores))} cores)" if any(cores) else "")


def _without_verdict(
    plans: Sequence[Plan], cells: Mapping[str, RatedCell], by: str, against: str | None
) -> list[NotCompared]:
    found = []
    for plan in plans:
        if plan.cell_key not in cells:
            partner = f"there is none of {against} that" if against else "no other cell of its unit of work"
            found.append(NotCompared(plan, f"{partner} differs from it in {by} only"))
        elif not cells[plan.cell_key].rates:
            found.append(NotCompared(plan, why_no_rate(cells[plan.cell_key])))
    return found


def sides(context: Context, baseline: str, candidate: str) -> Sides:
    """Compare ``candidate`` with ``baseline``, each the id of an experiment or of a run.

    Raises:
        NotFound: there is no such thing.
    """
    return sides_of((baseline, _rows(context, baseline)), (candidate, _rows(context, candidate)))


def sides_of(one: tuple[str, Sequence[Row]], other: tuple[str, Sequence[Row]]) -> Sides:
    """The same of the ids of two and their rows."""
    (baseline, left), (candidate, right) = one, other
    matched = _match(left, right)
    taken = {id(row) for both in matched for row in both}
    unmatched = [
        Unmatched(row.plan, _why_unmatched(row.plan, [other.plan for other in others]), side)
        for side, rows, others in zip(SIDES, (left, right), (right, left), strict=True)
        for row in rows
        if id(row) not in taken
    ]
    cells = [_compared(one, other) for one, other in matched]
    adjusted, _ = blocks.holm([cell.p for cell in cells])
    cells = [replace(cell, p_holm=p) for cell, p in zip(cells, adjusted, strict=True)]
    return Sides(baseline, candidate, cells, unmatched)


def _compared(one: Row, other: Row) -> ComparedCell:
    cells = rated([one, other])
    # A rate is told only where there are runs to compare: those of a cell's own number may be others than these.
    baseline, candidate = (cell.row.measurements.get(RATE) if cell.rates else None for cell in cells)
    changes = changes_between(one.fingerprint, other.fingerprint)
    if baseline is None or candidate is None:
        told = zip(SIDES, cells, (baseline, candidate), strict=True)
        text = "; ".join(f"the {side} has none: {why_no_rate(cell)}" for side, cell, rate in told if rate is None)
        return ComparedCell(one.plan, baseline, candidate, changes, text)
    if baseline.unit != candidate.unit:
        text = f"{baseline.unit} and {candidate.unit} are no amounts of one kind of work: the model's unit was changed"
        return ComparedCell(one.plan, baseline, candidate, changes, text)
    mine, theirs = (list(cell.rates.values()) for cell in cells)
    found = between_runs.compare(
        mine,
        theirs,
        (cells[0].places, cells[1].places),
        (one.first_stage, other.first_stage),
        apart=one.experiment_id != other.experiment_id,
        movement=other.movement,
    )
    return ComparedCell(
        plan=one.plan,
        baseline=baseline,
        candidate=candidate,
        changes=changes,
        text=found.text,
        verdict="faster" if found.verdict == "faster" else "slower" if found.verdict == "slower" else "cannot_tell",
        difference=difference(found),
        smallest_detectable_ratio=found.detectable_ratio,
        p=found.p,
    )


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
    matched: list[tuple[Row, Row]] = []
    remaining = list(right)
    for strict in (True, False):
        taken = {id(one) for one, _ in matched}
        for row in left:
            if id(row) in taken:
                continue
            found = next((other for other in remaining if _same_workload(row, other, strict)), None)
            if found is not None:
                matched.append((row, found))
                remaining.remove(found)
    return matched


def _same_workload(one: Row, other: Row, strict: bool) -> bool:
    if strict and one.plan.interpreter != other.plan.interpreter:
        return False
    mine, theirs = hardware_of(one), hardware_of(other)
    return not _differing_axes(one.plan, other.plan) and (mine is None or theirs is None or mine == theirs)


def _differing_axes(one: Plan, other: Plan) -> list[str]:
    left, right = workload_of(one), workload_of(other)
    return [field for field in WORKLOAD_FIELDS if left.get(field) != right.get(field)]


def _why_unmatched(plan: Plan, others: Sequence[Plan]) -> str:
    """What separates it from the nearest cell of the other side."""
    if not others:
        return "the other side has no cells"
    nearest = min(others, key=lambda other: len(_differing_axes(plan, other)))
    differing = _differing_axes(plan, nearest)
    if not differing:
        return "the nearest cell of the other side ran on other devices, or is compared already"
    texts = ", ".join(f"{field} ({plan.told(field)}, there {nearest.told(field)})" for field in differing)
    return f"another workload: the nearest cell differs in {texts}"
