"""How an experiment scales: speed-up and efficiency of its cells against one device, and what is missing, and why."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.analysis.cell.scaling import METHOD, Ratio, speedup
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.expansion import groups
from orchestrator.domain.expansion.groups import Group
from orchestrator.domain.expansion.repetitions import repeats_of, variance_chooses
from orchestrator.domain.expansion.sweep import fruitless, left_out
from orchestrator.domain.runs.run import Experiment
from orchestrator.domain.value.measurement import Measurement
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.result import results
from orchestrator.services.result.rated import STAGED, RatedCell, cells_of, scope_over, unit_of, why_no_rate

ASYNCHRONOUS = "an asynchronous strategy: its steps do not do the work of one step on one device"
ALONE = "there is no cell of one device that differs from it in the topology only: add the topology 1x1"


@dataclass(frozen=True)
class ScaledCell:
    """A cell that has a rate, in the ``group`` of those that differ from it in the topology only.

    ``speedup`` is None with a ``reason`` where there is nothing to compare with; ``efficiency`` also for asynchronous
    strategies. ``baseline`` is the cell of one device, which may be the cell itself.
    """

    group: Mapping[str, Any]
    plan: Plan
    rate: Measurement | None
    baseline: Plan | None
    speedup: Ratio | None
    efficiency: Ratio | None
    reason: str | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class MissingCell:
    """A cell without a rate, by what the spec or the plan says of it, and why it has none."""

    cell: Mapping[str, Any]
    reason: str


@dataclass(frozen=True)
class Scaling:
    """``kind``: weak, the same batch on each device; strong, one batch divided over the devices."""

    kind: Literal["weak", "strong"]
    cells: list[ScaledCell]
    missing: list[MissingCell]
    scope: str | None
    method: str


def scaling(context: Context, experiment_id: str) -> Scaling:
    """Speed-up and efficiency of every cell of the experiment, also while it runs.

    Raises:
        NotFound: there is no such experiment.
    """
    experiment = query.experiment(context, experiment_id)
    spec = experiment.spec
    rows = {row.plan.cell_key: row for row in results.all_of_experiment(context, experiment_id)}
    plans = [row.plan for row in rows.values()]
    found = groups.groups_of(spec, plans, "topology", lambda plan: unit_of(context, plan))
    cells = cells_of(found, rows)
    facts = Facts.from_json(context.catalog, experiment.facts)
    without = left_out(spec, facts) + fruitless(spec, facts, context.store.verdicts_of(experiment_id))
    missing = [MissingCell(one.cell, one.reason) for one in without]
    missing += [MissingCell(_named(one.row.plan), why_no_rate(one)) for one in cells.values() if not one.rates]
    return Scaling(
        kind="weak" if spec.global_batch_size is None else "strong",
        cells=[one for group in found for one in _of_group(context, experiment, group, cells)],
        missing=missing,
        scope=scope_over(cells.values()),
        method=f"{METHOD}; {STAGED}" if variance_chooses(spec) else METHOD,
    )


def _named(plan: Plan) -> Mapping[str, Any]:
    return plan.to_json()


def _of_group(
    context: Context, experiment: Experiment, group: Group, cells: Mapping[str, RatedCell]
) -> Iterator[ScaledCell]:
    """Its cells that have a rate, fewest devices first."""
    ordered = sorted(group.plans, key=lambda plan: (plan.world_size, plan.nodes))
    one = next((cells[plan.cell_key] for plan in ordered if plan.world_size == 1), None)
    for plan in ordered:
        if cells[plan.cell_key].rates:
            yield _scaled(context, experiment, group, one, cells[plan.cell_key])


def _scaled(
    context: Context, experiment: Experiment, group: Group, one: RatedCell | None, cell: RatedCell
) -> ScaledCell:
    plan, spec = cell.row.plan, experiment.spec
    stage = range(1, repeats_of(spec) + 1) if variance_chooses(spec) else None
    reason = _why_no_baseline(one, cell)
    found = None
    if one is cell:
        found = Ratio(1.0, None, None, len(cell.rates))
    elif reason is None and one is not None:
        found = speedup(one.rates, cell.rates, stage)
        reason = None if found else "no block has a run of it and one of its baseline"
    synchronous = is_synchronous(context, plan)
    return ScaledCell(
        group=group.shared,
        plan=plan,
        rate=cell.row.measurements.get("throughput"),
        baseline=one.row.plan if one else None,
        speedup=found,
        efficiency=found.over(plan.world_size) if found and synchronous else None,
        reason=reason or (None if synchronous else ASYNCHRONOUS),
        notes=_notes(one, cell, weak=spec.global_batch_size is None),
    )


def _why_no_baseline(one: RatedCell | None, cell: RatedCell) -> str | None:
    """Why the cell of one device is none that this cell can be measured by; None where it is one."""
    if one is None:
        return ALONE
    if not one.rates:
        return f"its baseline has no rate: {why_no_rate(one)}"
    mine, theirs = cell.row.plan.interpreter, one.row.plan.interpreter
    if mine != theirs:
        return f"its baseline ran in the interpreter {theirs}, it in {mine}: list the strategy or the interpreter"
    devices, those = _devices(cell), _devices(one)
    if devices and those and devices != those:
        return f"its baseline ran on another device: {_device_text(those)}; it on {_device_text(devices)}"
    return None


def _devices(cell: RatedCell) -> set[tuple[str, Any]]:
    """(model, cores) of the devices that it ran on."""
    workload = (cell.row.fingerprint or {}).get("workload") or {}
    models = workload.get("device_models") or []
    cores = workload.get("cores_per_device") or [None] * len(models)
    return set(zip(models, cores, strict=False))


def _device_text(devices: set[tuple[str, Any]]) -> str:
    return ", ".join(sorted(f"{model} ({cores} cores)" if cores else model for model, cores in devices))


def is_synchronous(context: Context, plan: Plan) -> bool:
    framework = context.catalog.frameworks.get(plan.framework)
    strategy = framework.strategies.get(plan.strategy) if framework else None
    return strategy is None or strategy.synchronous


def _notes(one: RatedCell | None, cell: RatedCell, weak: bool) -> tuple[str, ...]:
    """On one device ``auto`` stands for another strategy, as it needs no exchange, and ``max`` for another batch."""
    if one is None or one is cell:
        return ()
    mine, theirs = cell.row.plan, one.row.plan
    found = []
    if mine.strategy != theirs.strategy:
        found.append(f"one device ran with the strategy {theirs.strategy}, several with {mine.strategy}")
    batches = theirs.per_device_batch_size, mine.per_device_batch_size
    if weak and batches[0] != batches[1]:
        found.append(f"one device had a batch of {batches[0]}, each of {mine.topology} one of {batches[1]}")
    return tuple(found)
