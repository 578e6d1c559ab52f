"""Compare the cells of one experiment with each other, by one of its axes: which framework is faster?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis.cell.row import scope_of
from orchestrator.analysis.statistics import blocks
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.domain.expansion import groups
from orchestrator.domain.expansion.groups import Group
from orchestrator.domain.expansion.repetitions import planned_of, repeats_of, variance_chooses
from orchestrator.domain.runs.basis import Basis, shared
from orchestrator.domain.runs.row import Row
from orchestrator.domain.value.measurement import Grade
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.result import results

STAGED = "noise of the first stage (Stein), as variance chose how many runs followed"


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
class NotCompared:
    """A cell that takes part in no verdict, and why."""

    plan: Plan
    reason: str


@dataclass(frozen=True)
class Comparisons:
    """``axis`` is None where no axis has several values; ``axes`` are all that have, the first one is taken by itself.
    ``baseline``: what the cells were compared with, in words. ``scope``: what all verdicts together speak of."""

    axis: str | None
    axes: Sequence[str]
    baseline: str | None
    pairs: Sequence[ComparedPair]
    not_compared: Sequence[NotCompared]
    scope: str | None = None


@dataclass(frozen=True)
class ComparedCell:
    """A cell of the family: its row, and its runs by the basis that all share. ``rates`` by repetition are positive;
    ``has_rates``: there are some, positive or not."""

    row: Row
    basis: Basis
    has_rates: bool
    rates: Mapping[int, float]


def comparisons(
    context: Context, experiment_id: str, axis: str | None = None, baseline: str | None = None
) -> Comparisons:
    """Compare the cells of an experiment that differ in ``axis`` only: all pairs, or each with ``baseline``.

    Without ``axis`` it is the framework where there are several, else the first axis that has several values.

    Raises:
        NotFound: there is no such experiment.
        InvalidRequest: there is no such axis or baseline; the text names those that there are.
    """
    spec = query.experiment(context, experiment_id).spec
    rows = {row.plan.cell_key: row for row in results.all_of_experiment(context, experiment_id)}
    plans = [row.plan for row in rows.values()]
    axes = groups.axes_of(spec, plans)
    if axis is None and not axes and baseline is None:
        return Comparisons(None, [], None, [], [NotCompared(plan, "no axis has several values") for plan in plans])
    by = groups.chosen_axis(spec, plans, axis or next(iter(axes), "framework"))
    against = None
    if baseline is not None:
        values = dict.fromkeys(groups.value_of(plan, by) for plan in plans)
        against = groups.label(by, groups.chosen_value(values, by, baseline))
    found = groups.groups_of(spec, plans, by, lambda plan: unit_of(context, plan))
    family = [group for group in found if _has_pairs(group, by, against)]
    cells = cells_of(spec, family, rows)
    pairs = _compared(spec, family, cells, by, against)
    not_compared = _not_compared(plans, family, cells, by, against)
    return Comparisons(by, axes, against, pairs, not_compared, scope_over([cell.basis for cell in cells.values()]))


def scope_over(bases: Sequence[Basis]) -> str | None:
    """What the runs of some cells speak of, all of one rule."""
    known = [basis for basis in bases if basis.runs]
    return scope_of(Basis(tuple(run for basis in known for run in basis.runs), known[0].grade)) if known else None


def unit_of(context: Context, plan: Plan) -> str | None:
    """The unit of work of the plan's model; None where the catalogue has no such model any more."""
    model = context.catalog.models.get(plan.model)
    return model.work_unit if model else None


def _has_pairs(group: Group, by: str, against: str | None) -> bool:
    labels = [groups.label(by, groups.value_of(plan, by)) for plan in group.plans]
    return len(labels) > 1 and (against is None or against in labels)


def cells_of(spec: ExperimentSpec, family: Sequence[Group], rows: Mapping[str, Row]) -> dict[str, ComparedCell]:
    """cell -> its runs, for all cells of the family. Grades are never mixed, so the family has one rule."""
    keys = list(dict.fromkeys(plan.cell_key for group in family for plan in group.plans))
    bases = shared([rows[key].runs for key in keys], planned_of(spec))
    return {key: _cell(rows[key], basis) for key, basis in zip(keys, bases, strict=True)}


def _cell(row: Row, basis: Basis) -> ComparedCell:
    known = row.rates_of(basis)
    return ComparedCell(row, basis, bool(known), {run.plan.repetition: value for run, value in known if value > 0})


def _compared(
    spec: ExperimentSpec, family: Sequence[Group], cells: Mapping[str, ComparedCell], by: str, against: str | None
) -> list[ComparedPair]:
    labelled = [{groups.label(by, groups.value_of(plan, by)): plan for plan in group.plans} for group in family]
    rates = [{label: cells[plan.cell_key].rates for label, plan in one.items()} for one in labelled]
    stage = range(1, repeats_of(spec) + 1) if variance_chooses(spec) else None
    found = blocks.compare_groups(rates, against, stage)
    return [
        _pair(spec, by, group, pair, cells[plans[pair.a].cell_key], cells[plans[pair.b].cell_key])
        for group, plans, pairs in zip(family, labelled, found, strict=True)
        for pair in pairs
    ]


def _pair(
    spec: ExperimentSpec, by: str, group: Group, found: blocks.Pair, a: ComparedCell, b: ComparedCell
) -> ComparedPair:
    grade = Grade.BROKEN if Grade.BROKEN in (a.basis.grade, b.basis.grade) else a.basis.grade
    return ComparedPair(
        group=group.shared,
        a=_side(by, a, found.a),
        b=_side(by, b, found.b),
        found=found,
        unit=next((cell.row.unit for cell in (a, b) if cell.has_rates), None),
        basis=Basis((*a.basis.runs, *b.basis.runs), grade),
        method=f"{found.method}; {STAGED}" if variance_chooses(spec) else found.method,
        notes=_notes(by, a, b),
    )


def _side(by: str, cell: ComparedCell, label: str) -> Side:
    rates = list(cell.rates.values())
    mean = sum(rates) / len(rates) if rates else None
    return Side(groups.value_of(cell.row.plan, by), label, cell.row.plan, mean, len(rates))


def _notes(by: str, a: ComparedCell, b: ComparedCell) -> tuple[str, ...]:
    """What differs beside the axis: devices of another kind make another workload."""
    if by in ("device", "topology"):
        return ()
    mine, theirs = (_devices(cell.row) for cell in (a, b))
    if not mine or not theirs or mine == theirs:
        return ()
    return (f"they ran on other devices: {mine}; {theirs}",)


def _devices(row: Row) -> str:
    workload = (row.fingerprint or {}).get("workload") or {}
    models, cores = workload.get("device_models") or (), workload.get("cores_per_device") or ()
    return ", ".join(map(str, models)) + (f" ({', '.join(map(str, cores))} cores)" if any(cores) else "")


def _not_compared(
    plans: Sequence[Plan], family: Sequence[Group], cells: Mapping[str, ComparedCell], by: str, against: str | None
) -> list[NotCompared]:
    compared = {plan.cell_key for group in family for plan in group.plans}
    found = []
    for plan in plans:
        if plan.cell_key not in compared:
            partner = f"there is none of {against} that" if against else "no other cell of its unit of work"
            found.append(NotCompared(plan, f"{partner} differs from it in {by} only"))
        elif not cells[plan.cell_key].rates:
            found.append(NotCompared(plan, why_no_rate(cells[plan.cell_key])))
    return found


def why_no_rate(cell: ComparedCell) -> str:
    """Why a cell takes part in no comparison."""
    if "throughput" in cell.row.reasons:
        return cell.row.reasons["throughput"]
    return "its rate is not positive" if cell.has_rates else "none of the runs that are compared here has a rate"
