"""The step of a stored run for the model ``replay``, which its facts name by ``replays``, the option with the run."""

from collections.abc import Sequence

from orchestrator.analysis.s_sgd.inputs import NotAnInput, inputs_of
from orchestrator.analysis.s_sgd.replay import layers_to_wait_for
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.expansion.convergence import CONVERGENCE
from orchestrator.domain.words.errors import InvalidRequest, NotFound, Problem
from orchestrator.services.context import Context

Layers = list[tuple[int, float, float]]


class NotReplayable(Exception):  # noqa: N818 - reads as what happened
    """The text says why, and what would be."""


def check_replays(context: Context, plans: Sequence[Plan]) -> None:
    """Raises InvalidRequest: the run that one of ``plans`` is to replay cannot be."""
    for plan in plans:
        if plan.repetition > 1 or context.catalog.models[plan.model].replays is None:
            continue
        try:
            replayed(context, plan)
        except NotReplayable as error:
            raise InvalidRequest([Problem("/options/run", str(error))]) from None
        if problem := _meaningless(plan):
            raise InvalidRequest([problem])


def _meaningless(plan: Plan) -> Problem | None:
    """What would label the results of a replay with something that it does not do."""
    if plan.search or plan.per_device_batch_size != 1:
        return Problem("/per_device_batch_size", f"{plan.model} waits as long for any batch: ask for a batch of 1")
    if plan.precision != "fp32":
        return Problem("/precision", f"{plan.model} exchanges fp32, as many bytes as its run: {plan.precision} is none")
    if plan.mode == CONVERGENCE:
        return Problem("/mode", f"{plan.model} learns nothing: there is no target to train to")
    return None


def replayed(context: Context, plan: Plan) -> Layers | None:
    """The layers that ``plan`` waits for; None where it trains.

    Raises:
        NotReplayable: its run is not there, or tells no step of one device.
    """
    option = context.catalog.models[plan.model].replays
    if option is None:
        return None
    run_id = str(dict(plan.options).get(option) or "")
    try:
        return _layers(context, run_id)
    except NotFound:
        told = f"there is no run {run_id}" if run_id else f"{plan.model} needs the run that it is to replay"
        raise NotReplayable(f"{told}: name one of one device with a profile of layers") from None


def _layers(context: Context, run_id: str) -> Layers:
    """Raises NotFound, NotReplayable."""
    run = context.store.run(run_id)
    step = run.analysis.measurement("step_time_s") if run.usable and run.analysis else None
    profiles = context.store.profiles(run_id)
    if run.plan.world_size != 1:
        raise NotReplayable(f"{run_id} is of {run.plan.world_size} devices, which exchange in a step: name one of 1x1")
    if step is None or not step.value:
        raise NotReplayable(f"{run_id} tells no time of a step: name a run that completed")
    if not profiles.layers:
        raise NotReplayable(f"{run_id} has no profile of layers: name one with --profile layers")
    try:
        layers = layers_to_wait_for(inputs_of(profiles.layers[0], step.value))
    except NotAnInput as error:
        raise NotReplayable(f"the profile of layers of {run_id} cannot be used: {error}") from None
    if not layers:
        raise NotReplayable(f"no layer of {run_id} has parameters: nothing would be exchanged")
    return layers
