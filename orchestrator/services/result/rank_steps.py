"""What the ranks of a cell's runs did in a timed step, read from their profiles of layers or from their logs."""

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.analysis.cell.row import RATE
from orchestrator.analysis.log.plausible import is_plausible
from orchestrator.analysis.s_sgd.explain.rank_steps import Block, RankStep, RunSteps, Side
from orchestrator.analysis.s_sgd.inputs import NotAnInput, active_step, step_of
from orchestrator.domain.runs.run import Run
from orchestrator.domain.value.profile import UNTOLD_EXPOSURE
from orchestrator.services.context import Context
from orchestrator.services.result.rated import RatedCell
from workers.trainer import protocol

GPU_ACTIVITY = "the kernels of its exchange count as active time on a GPU: only profile: [layers] tells them apart"
NO_REPORT = "its ranks reported nothing of the time in which they compute"


@dataclass(frozen=True)
class ObservedCell:
    """``layers``: block -> its run, by profiles of layers, or None and ``why_no_layers``. ``activity``: by the phase
    that every run ends with; what ranks compute is None there where ``why_no_activity`` says why. ``unexposed``: why no
    trainer of its kind tells how much of the exchange is exposed."""

    layers: Side | None
    why_no_layers: str | None
    activity: Side
    why_no_activity: str | None
    unexposed: str | None


def observed(context: Context, cell: RatedCell) -> ObservedCell:
    """Read the runs that the cell's rates rest on. Blocks are repetitions."""
    rates = cell.row.rates_of(cell.basis)
    steps = [(run, step_s_of(run, rate)) for run, rate in rates if rate > 0]
    by_layers: dict[Block, RunSteps] = {}
    activity: dict[Block, RunSteps] = {}
    why = unexposed = None
    for run, step_s in steps:
        profiles = context.store.profiles(run.id)
        reasons = {one.reasons.get("exposed_exchange_s", UNTOLD_EXPOSURE) for one in profiles.layers}
        reasons -= {UNTOLD_EXPOSURE}
        unexposed = unexposed or next(iter(reasons), None)
        try:
            ranks = tuple(step_of(times, step_s, _input_s(run, step_s)) for times in profiles.layers)
        except NotAnInput as error:
            why = f"the profile of layers of {run.id} cannot be used: {error}"
            continue
        if ranks:
            by_layers[run.plan.repetition] = RunSteps(step_s, ranks)
        else:
            why = why or profiles.reasons.get("layers") or f"{run.id} has no profile of layers"
    for run, step_s in steps:
        activity[run.plan.repetition] = RunSteps(step_s, _active(context, run, step_s))
    untold = any(rank.compute_s is None for run in activity.values() for rank in run.ranks)
    silent = not all(run.ranks for run in activity.values())
    return ObservedCell(
        layers=by_layers if len(by_layers) == len(steps) else None,
        why_no_layers=why,
        activity=activity,
        why_no_activity=NO_REPORT if silent else GPU_ACTIVITY if untold else None,
        unexposed=unexposed,
    )


def step_s_of(run: Run, rate: float) -> float:
    """A timed step of the run, from the warm-up of its cell on: its own is told with its own throughput."""
    own = {name: _value(run, name) for name in ("step_time_s", RATE)}
    return (own["step_time_s"] or 0.0) * (own[RATE] or rate) / rate


def _input_s(run: Run, step_s: float) -> float | None:
    """Waiting for batches, per step, as the loop has timed it."""
    share = _value(run, "input_ratio")
    return None if share is None else share * step_s


def _value(run: Run, metric: str) -> float | None:
    found = run.analysis.measurement(metric) if run.analysis else None
    return found.value if found else None


def _active(context: Context, run: Run, step_s: float) -> tuple[RankStep, ...]:
    """What each rank's phase ``activity`` says."""
    if run.attempt is None:
        return ()
    found: dict[int, RankStep] = {}
    input_s = _input_s(run, step_s) or 0.0
    for entry in context.store.entries(run.attempt.id, kinds=("activity",)):
        if not is_plausible(entry):
            continue
        data: Mapping[str, object] = entry["data"]
        rank = int(entry["rank"] or 0)
        elapsed_s = protocol.number(data["elapsed_s"])
        if run.plan.device != "cpu" or data["active_s"] is None or not elapsed_s > 0:
            found[rank] = RankStep(rank, input_s, 0.0, None)
        else:
            found[rank] = active_step(rank, protocol.number(data["active_s"]), elapsed_s, step_s, input_s)
    return tuple(found[rank] for rank in sorted(found))
