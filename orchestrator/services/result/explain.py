"""Why a run of several devices takes as long as it does: its cell's waterfall, its straggler, and what would tell more;
and by which parts it differs from the same cell in another framework."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.analysis.cell.scaling import Ratio, speedup
from orchestrator.analysis.s_sgd.explain.cell_difference import Difference, differences
from orchestrator.analysis.s_sgd.explain.waterfall import Waterfall, waterfall
from orchestrator.domain.asked.fingerprint import WORKLOAD_FIELDS, workload_of
from orchestrator.domain.asked.placement import Device
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.expansion.repetitions import repeats_of, variance_chooses
from orchestrator.domain.runs.row import Row
from orchestrator.domain.runs.run import TERMINAL, Run
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.errors import Conflict, InvalidRequest, Problem
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.result import results
from orchestrator.services.result.more_runs import Missing, missing
from orchestrator.services.result.one_device import counterpart
from orchestrator.services.result.rank_steps import ObservedCell, observed
from orchestrator.services.result.rated import RatedCell, hardware_of, rated, why_no_rate
from orchestrator.services.result.scaling import is_synchronous

# Fields of the workload in which the cell of another framework may differ.
_OF_THE_FRAMEWORK = {"framework", "strategy", "options", "data_on"}


@dataclass(frozen=True)
class Held:
    """The device that a rank held, and its node."""

    device: Device
    node: str


@dataclass(frozen=True)
class Against:
    """The parts by which another cell differs: the other less this one."""

    run: Run
    row: Row
    parts: tuple[Difference, ...]
    paired: bool


@dataclass(frozen=True)
class Explanation:
    """``one``: the cell of one device. ``held``: what the straggler held, None where its runs held different devices;
    ``why_no_straggler``: why there is none, or why the slowest rank is not named one. ``source``: what tells of each
    rank."""

    run: Run
    row: Row
    one: Row | None
    rate: Measurement | None
    efficiency: Ratio | None
    found: Waterfall
    source: str
    held: Held | None
    why_no_straggler: str | None
    missing: tuple[Missing, ...]
    against: Against | None


LAYERS = "the profiles of layers, scaled to timed steps"
ACTIVITY = "two profiled steps of each run, scaled to timed steps"


def explain(context: Context, run: Run, other: Run | None = None) -> Explanation:
    """The waterfall of the cell of ``run``, over all of its runs that count.

    Raises:
        InvalidRequest: it has one device, or an asynchronous strategy; or ``other`` is of another workload.
        Conflict: a run has not ended, or gives no number.
    """
    _check_may_be_explained(context, run.plan, run.id)
    rows = results.all_of_experiment(context, run.experiment_id)
    cell = _counted(run, rows)
    alone = counterpart(context, cell.row, rows)
    if alone is not None:  # grades are never mixed: cells that are compared have one basis
        cell, alone = rated([cell.row, alone.row])
    many, one = observed(context, cell), observed(context, alone) if alone and alone.rates else None
    sides, source = [many.layers, one.layers if one else None], LAYERS
    if many.layers is None or (one is not None and one.layers is None):
        sides, source = [many.activity, one.activity if one else None], ACTIVITY
    together = alone is not None and alone.row.experiment_id == cell.row.experiment_id
    found = waterfall(sides[0] or {}, sides[1], together, _stage(context, cell.row))
    return Explanation(
        run=run,
        row=cell.row,
        one=alone.row if alone else None,
        rate=cell.row.measurements.get("throughput"),
        efficiency=_efficiency(cell, alone) if together else None,
        found=found,
        source=source,
        held=_held(cell, found),
        why_no_straggler=_why_no_straggler(cell, found, many),
        missing=tuple(missing(context, cell.row.plan, many, one, found.blocks)),
        against=_against(context, cell, other) if other else None,
    )


def _check_may_be_explained(context: Context, plan: Plan, name: str) -> None:
    if plan.world_size == 1:
        raise _refused(f"{name} has one device, which waits for no other: tbd show {name} --layers has its parts")
    if not is_synchronous(context, plan):
        told = f"the strategy {plan.strategy} is asynchronous: no step of a rank waits for the others, so that an "
        raise _refused(told + "iteration has no parts that add up. Explain a synchronous strategy (tbd frameworks)")


def _counted(run: Run, rows: Sequence[Row]) -> RatedCell:
    """The cell of the run, which has a rate, among the rows of its experiment."""
    if run.state not in TERMINAL:
        raise Conflict(f"{run.id} is {run.state.value}: what it did can be told when it has ended (tbd watch {run.id})")
    if not run.usable:
        raise Conflict(f"{run.id} gives no number: {_why_unusable(run)}. tbd show {run.id} says more")
    row = next((one for one in rows if one.plan.cell_key == run.plan.cell_key), None)
    (cell,) = rated([row]) if row else (None,)
    if cell is None or not cell.rates:
        raise Conflict(f"the cell of {run.id} has no rate: {why_no_rate(cell) if cell else 'its search was given up'}")
    return cell


def _why_unusable(run: Run) -> str:
    if run.failure:
        return f"it failed ({run.failure.kind.value}: {run.failure.message})"
    reasons = run.validity.reasons if run.validity else ()
    return "; ".join(reason.text for reason in reasons) or f"it is {run.state.value}"


def _refused(text: str, pointer: str = "/run_id") -> InvalidRequest:
    return InvalidRequest([Problem(pointer, text)])


def _stage(context: Context, row: Row) -> range | None:
    """The blocks that tell the noise, where variance chose how many there are."""
    spec = query.experiment(context, row.experiment_id).spec
    return range(1, repeats_of(spec) + 1) if variance_chooses(spec) else None


def _efficiency(cell: RatedCell, alone: RatedCell | None) -> Ratio | None:
    found = speedup(alone.rates, cell.rates) if alone else None
    return found.over(cell.row.plan.world_size) if found else None


def _held(cell: RatedCell, found: Waterfall) -> Held | None:
    """What the straggler held, where that was the same in all runs."""
    if found.straggler is None:
        return None
    held = [_devices(run)[found.straggler.rank : found.straggler.rank + 1] for run in cell.basis.runs]
    same = {(one.node, one.device.id) for each in held for one in each}
    return held[0][0] if len(same) == 1 and all(held) else None


def _devices(run: Run) -> list[Held]:
    """By rank: ranks are counted over the devices of the nodes of the placement."""
    shares = run.attempt.placement.shares if run.attempt else ()
    return [Held(device, share.node) for share in shares for device in share.devices]


def _why_no_straggler(cell: RatedCell, found: Waterfall, many: ObservedCell) -> str | None:
    if found.straggler and found.straggler.named:
        return None
    if found.straggler:
        if found.blocks == 1:
            return "one run does not tell a slow rank from noise"
        return f"no rank computes longer than the others beyond the noise of {found.blocks} runs"
    ranks = {len(run.ranks) for run in many.activity.values()}
    if ranks == {1} and cell.row.plan.world_size > 1:
        return "one process drives all ranks, and reports them together"
    return many.why_no_activity or "not every rank of every run told what it computes"


def _against(context: Context, cell: RatedCell, other: Run) -> Against:
    """By what the cell of ``other`` differs.

    Raises as ``explain``.
    """
    theirs = _counted(other, results.all_of_experiment(context, other.experiment_id))
    mine, yours = workload_of(cell.row.plan), workload_of(theirs.row.plan)
    fields = [one for one in WORKLOAD_FIELDS if one not in _OF_THE_FRAMEWORK]
    differing = [field for field in fields if mine.get(field) != yours.get(field)]
    if differing:
        told = [f"{field} ({cell.row.plan.told(field)}, there {other.plan.told(field)})" for field in differing]
        text = f"{other.id} is of another workload: {', '.join(told)}"
        raise _refused(f"{text}. Cells that are set side by side differ in framework and strategy only", "/other")
    devices = hardware_of(cell.row), hardware_of(theirs.row)
    if None not in devices and devices[0] != devices[1]:
        raise _refused(f"{other.id} ran on other devices: {devices[1]}, not {devices[0]}", "/other")
    cell, theirs = rated([cell.row, theirs.row])
    first, second = observed(context, cell), observed(context, theirs)
    sides = [side.layers if side.layers is not None else side.activity for side in (first, second)]
    together = cell.row.experiment_id == theirs.row.experiment_id
    parts = differences(sides[0], sides[1], together, _stage(context, cell.row) if together else None)
    return Against(other, theirs.row, parts, together)
