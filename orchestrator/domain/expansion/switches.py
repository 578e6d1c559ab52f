"""Switches of a framework (``compile``, ``xla``) among the options of a spec: what of them is refused, and what is off.
Beside them the options of a strategy (``bucket_mib``), which only the strategies take that have them.

``false`` is what a framework does anyway, so every framework takes it: a sweep over frameworks may list both values of
a switch that only one of them has. ``true`` is refused, cell by cell, where it would mean nothing or cannot be.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestrator.domain.asked.catalog import Catalog, FrameworkFacts, ModelFacts, StrategyFacts, SwitchFacts
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.plan import OFF
from orchestrator.domain.expansion.refusals import device_of, strategy_of

OPTIONS = "options/"  # how the pointer of an option begins


def chosen(cell: Mapping[str, Any], model: ModelFacts) -> dict[str, Any]:
    """The options of a cell, the model's defaults written out: a default that changes later makes another workload, not
    the same one measured anew. A switch that is off is left out: it changes nothing."""
    given = {name: value for name, value in cell["options"].items() if name in model.options or value is not OFF}
    return {name: option.default for name, option in model.options.items()} | given


def why_unswitched(cell: Mapping[str, Any], facts: Facts, profile: Sequence[str]) -> tuple[str, ...] | None:
    """(pointer, reason, further axes that the reason is about) why a switch that is on cannot be, or None.

    The cell is possible but for its switches.
    """
    framework, model = facts.catalog.frameworks[cell["framework"]], facts.catalog.models[cell["model"]]
    on = [name for name, value in cell["options"].items() if name not in model.options and value is not OFF]
    strategy = strategy_of(cell, framework)
    for name in on:
        pointer = OPTIONS + name
        if having := facts.catalog.strategies_with(name):
            if why := _why_not_of(name, cell["options"][name], strategy, framework, having):
                return pointer, why, "strategy", "topology"
            continue
        switch = framework.switches.get(name)
        if switch is None:
            return pointer, _elsewhere(name, framework, facts.catalog)
        if why := _why_meaningless(switch, model):
            return pointer, f"{name} of {framework.name} {why}"
        device = device_of(cell, facts)
        if device not in switch.devices:
            kinds = ", ".join(switch.devices)
            return pointer, f"{name} of {framework.name} is for {kinds} devices, not for {device}", "device"
        beside = [(model.name,), (strategy.name, "strategy", "topology"), (cell["precision"], "precision")]
        beside += [(one,) for one in profile] + [(other, OPTIONS + other) for other in on]
        for what, *axes in beside:
            if reason := switch.not_with.get(what) or switch.not_with.get(f"{device}/{what}"):
                return pointer, f"{name} of {framework.name} does not go with {what}: {reason}", *axes
    return None


def at_default(cell: Mapping[str, Any], strategy: StrategyFacts) -> list[str]:
    """The options of the strategy that the cell names at their defaults: such plans are those that name none."""
    return [name for name, one in strategy.options.items() if cell["options"].get(name) == one.default]


def _why_not_of(
    name: str,
    value: Any,
    strategy: StrategyFacts,
    framework: FrameworkFacts,
    having: Sequence[tuple[FrameworkFacts, StrategyFacts]],
) -> str | None:
    if name in strategy.options:
        return strategy.options[name].problem(value)
    offered = ", ".join(f"{other.name} of {owner.name}" for owner, other in having)
    return f"the strategy {strategy.name} of {framework.name} has no option {name}; there is {offered}"


def _elsewhere(name: str, framework: FrameworkFacts, catalog: Catalog) -> str:
    own = f"it has {', '.join(framework.switches)}" if framework.switches else "it has no switches"
    return f"{framework.name} has no switch {name}, only {', '.join(catalog.switches()[name])}; {own}"


def _why_meaningless(switch: SwitchFacts, model: ModelFacts) -> str | None:
    if "measures" in model.facts:
        return f"is for training: model {model.name} trains nothing"
    given = model.facts.get("input")
    if switch.inputs and given is not None and given not in switch.inputs:
        return f"is for models of {', '.join(switch.inputs)}: {model.name} is given {given}"
    return None
