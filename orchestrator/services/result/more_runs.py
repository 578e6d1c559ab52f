"""What would tell more of why a run takes as long as it does, and the command lines that would supply it."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.asked.facts import facts_of
from orchestrator.domain.asked.fields import BY_NAME
from orchestrator.domain.asked.plan import WHOLE_NODE, Plan
from orchestrator.services.context import Context
from orchestrator.services.result.rank_steps import ObservedCell
from workers.trainer.protocol import usual_place

# Judgement: from so many runs on an interval over them is worth having. So many are asked for: they also tell a slow
# rank from noise (docs/read_results/s-sgd-model.md).
ENOUGH_RUNS, RUNS_ASKED_FOR = 3, 6


@dataclass(frozen=True)
class Missing:
    """What would tell more, and the command that would supply it; None where nothing can."""

    what: str
    command: str | None


def missing(
    context: Context, plan: Plan, many: ObservedCell, one: ObservedCell | None, blocks: int
) -> Iterator[Missing]:
    """What the waterfall of the cell of ``plan`` lacks. ``one``: its counterpart of one device, None without one;
    ``blocks``: how many speak."""
    topologies = ("1x1", str(plan.topology))
    why_no_profile = _why_unprofiled(context, plan) or many.unexposed
    profile = plan.profile if why_no_profile else ("layers",)
    wanted = command(context, plan, topologies, profile, RUNS_ASKED_FOR if blocks < ENOUGH_RUNS else None)
    named = False
    if one is None:
        named = True
        yield Missing("there is no cell of one device with its workload, batch, interpreter and kind of device", wanted)
    elif many.layers is None or one.layers is None:
        named = why_no_profile is None
        reasons = {"several devices": many, "one device": one}
        told = [f"of {name} ({side.why_no_layers})" for name, side in reasons.items() if side.layers is None]
        text = why_no_profile or f"there is no profile of layers {' nor '.join(told)}"
        yield Missing(f"forward, backward, update and the exposed exchange: {text}", wanted if named else None)
    if many.layers is None and many.why_no_activity:
        yield Missing(f"what the ranks compute: {many.why_no_activity}", None)
    if many.layers is not None and many.unexposed:
        yield Missing(f"the exposed exchange by itself: {many.unexposed}", None)
    if blocks < ENOUGH_RUNS:
        text = f"narrow intervals: {blocks} run{'s' * (blocks > 1)} of each tell little of the noise"
        yield Missing(text, None if named else wanted)


def _why_unprofiled(context: Context, plan: Plan) -> str | None:
    framework = context.catalog.frameworks.get(plan.framework)
    strategy = framework.strategies.get(plan.strategy) if framework else None
    if framework is None or strategy is None:
        return f"there is no {plan.strategy} of {plan.framework} any more"
    lacks = {*strategy.lacks, *framework.lacks.get(plan.device, ())}
    if "layers" not in framework.abilities or "layers" in lacks:
        return f"{plan.framework} makes no profile of layers with {plan.strategy} on {plan.device} devices"
    return None


def command(
    context: Context, plan: Plan, topologies: tuple[str, ...], profile: tuple[str, ...], repeats: int | None = None
) -> str | None:
    """The command line that runs the cell of ``plan`` on these topologies; None in mode convergence, which only a spec
    can ask for."""
    if plan.mode != "throughput":
        return None
    model = context.catalog.models.get(plan.model)
    defaults = {name: option.default for name, option in model.options.items()} if model else {}
    words = ["tbd", "run", plan.model, "-f", plan.framework, "--strategy", plan.strategy]
    words += ["--topology", ",".join(dict.fromkeys(topologies)), "--batch", str(plan.per_device_batch_size)]
    for name, default in _usual(context, plan).items():
        value = getattr(plan, name)
        option = BY_NAME[name].option
        if option is not None and value not in (None, default):
            words += [option.flags[-1], str(value)]
    for name, value in plan.options:
        if name not in plan.implied and value != defaults.get(name):
            words += ["--option", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    if profile:
        words += ["--profile", ",".join(profile)]
    if repeats:
        words += ["--repeats", str(repeats)]
    return shlex.join(words)


def _usual(context: Context, plan: Plan) -> dict[str, Any]:
    """What a plan has where its command line names no such option."""
    framework = context.catalog.frameworks.get(plan.framework)
    strategy = framework.strategies.get(plan.strategy) if framework else None
    return {
        "size": "full",
        "precision": "fp32",
        "data": "synthetic",
        "fabric": "ethernet",
        "seed": 1,
        "exclusive": WHOLE_NODE,
        "gpu_model": None,
        "memory_limit_bytes": None,
        "interpreter": strategy.interpreter if strategy else None,
        "device": facts_of(context.catalog, context.cluster.nodes()).device,
        "data_on": usual_place(plan.device),
    }
