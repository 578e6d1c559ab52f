"""What of a spec is refused before anything runs: names that are not there, and cells that nothing could carry out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.domain.asked.catalog import Catalog, FrameworkFacts, ModelFacts, StrategyFacts
from orchestrator.domain.asked.facts import Facts
from orchestrator.domain.asked.fields import AXES
from orchestrator.domain.asked.spec import LARGEST_THAT_FITS, ExperimentSpec
from orchestrator.domain.asked.topology import Topology
from orchestrator.domain.expansion import convergence
from orchestrator.domain.expansion.repetitions import repeats_of
from orchestrator.domain.runs.wanted_precision import FIRST_STAGE
from orchestrator.domain.words.errors import Problem
from orchestrator.domain.words.spelling import did_you_mean
from workers.trainer.protocol import OWN_DATA, OWN_SCRIPT, usual_warm_up_s

# Fields of the spec whose meaning is not built yet: the value that may stand there, and what it waits for.
_NOT_BUILT: tuple[tuple[str, Any, str], ...] = (("placement", "any", "a series that stays on the devices it began on"),)


def in_spec(spec: ExperimentSpec, catalog: Catalog) -> list[Problem]:
    """What is wrong with the fields by themselves."""
    found = [*_unbuilt(spec), *_unknown_names(spec, catalog), *_wrong_options(spec, catalog)]
    return [*found, *_wrong_excludes(spec), *_too_few_for_precision(spec), *convergence.problems_of(spec, catalog)]


def wrong_limit(spec: ExperimentSpec, cells: Iterable[Mapping[str, Any]], facts: Facts) -> list[Problem]:
    """A limit of memory that is missing where a search on CPU devices would else take all that the host has, or one for
    GPUs, whose memory limits itself."""
    found = {(device_of(cell, facts), cell["per_device_batch_size"] == LARGEST_THAT_FITS) for cell in cells}
    if spec.memory_limit_bytes is None and ("cpu", True) in found:
        message = "per_device_batch_size max wants it on CPU devices: the bytes that a device's processes may use"
        return [Problem("/memory_limit_bytes", message)]
    if spec.memory_limit_bytes is not None and any(device == "cuda" for device, _ in found):
        return [Problem("/memory_limit_bytes", "is for CPU devices: a GPU has its own limit. Leave it out")]
    return []


def why_impossible(cell: Mapping[str, Any], facts: Facts) -> tuple[str, ...] | None:
    """Why no node could ever carry out the cell, or None: axis, or ``options/NAME``; reason; axes it is about too."""
    model, framework = facts.catalog.models[cell["model"]], facts.catalog.frameworks[cell["framework"]]
    if framework.name not in model.frameworks:
        return "framework", model.why_not_in(framework.name)
    device = device_of(cell, facts)
    checks = (
        ("device", device, framework.devices),
        ("precision", cell["precision"], framework.precisions_on(device)),
        ("data", cell["data"], facts.datasets_of(model, cell["options"])),
        ("size", cell["size"], tuple(model.sizes)),
    )
    for axis, value, offered in checks:
        if value not in offered:
            return axis, f"{axis} {value} is not offered for {model.name} in {framework.name}: {', '.join(offered)}"
    return (
        _why_untold(cell, model)
        or _why_without_option(cell, model)
        or _why_ambiguous(cell, facts)
        or _why_undistributable(cell, framework)
        or _why_imprecise(cell, framework, model, device)
        or _why_unconnected(cell, facts)
        or _why_uninterpretable(cell, framework)
        or _why_unfit(cell, framework, device, facts)
        or why_indivisible(cell)
    )


def _why_untold(cell: Mapping[str, Any], model: ModelFacts) -> tuple[str, str] | None:
    """A batch that the command of a project does not name would change nothing of it."""
    named = model.facts.get("named_in_command")
    if named is None:
        return None
    axis = "per_device_batch_size" if cell["global_batch_size"] is None else "global_batch_size"
    if cell[axis] == LARGEST_THAT_FITS:
        return axis, f"no largest batch is looked for with {model.name}, a script of somebody's own"
    if "per_device_batch_size" not in named and (axis, cell[axis]) != ("per_device_batch_size", 1):
        return axis, f"the command of {model.name} has no {{per_device_batch_size}}: per_device_batch_size is 1"
    return None


def _why_without_option(cell: Mapping[str, Any], model: ModelFacts) -> tuple[str, ...] | None:
    """Values that are wrong at every size have been refused before."""
    for name in sorted(set(cell["options"]) & set(model.options)):
        if problem := model.options[name].problem_at(cell["options"][name], cell["size"]):
            return f"options/{name}", problem, "size"
    return None


def _why_ambiguous(cell: Mapping[str, Any], facts: Facts) -> tuple[str, str] | None:
    """A name that stands for different files on different nodes names no data."""
    known = facts.catalog.datasets.get(cell["data"])
    differs = known.facts.get("differs") if known else None
    return ("data", differs) if differs else None


def _why_undistributable(cell: Mapping[str, Any], framework: FrameworkFacts) -> tuple[str, str] | None:
    if cell["strategy"] == "auto":
        if framework.strategy_for(cell["topology"]) is None:
            return "topology", f"{framework.name} has no strategy for topology {cell['topology']}"
        return None
    strategy = framework.strategies.get(cell["strategy"])
    if strategy is None:
        return "strategy", f"{framework.name} has the strategies {', '.join(framework.strategies)}"
    if not strategy.reaches(cell["topology"]):
        reach = Topology(strategy.max_nodes, strategy.max_devices_per_node)
        return "topology", f"strategy {strategy.name} of {framework.name} reaches {reach} at most"
    if cell["precision"] in strategy.lacks:
        return "precision", f"strategy {strategy.name} of {framework.name} does not train in {cell['precision']}"
    return None


def _why_imprecise(
    cell: Mapping[str, Any], framework: FrameworkFacts, model: ModelFacts, device: str
) -> tuple[str, ...] | None:
    precision, strategy = cell["precision"], strategy_of(cell, framework).name
    for what, *axes in ((model.name, "model"), (strategy, "strategy", "topology")):
        if why := framework.why_not_precise(precision, device, what):
            return "precision", f"{precision} of {framework.name} does not go with {what}: {why}", *axes
    return None


def _why_unconnected(cell: Mapping[str, Any], facts: Facts) -> tuple[str, str] | None:
    """Nodes that come later may have the fabric; where there are nodes, and none has it, the spec is mistaken."""
    if cell["topology"].nodes == 1 or facts.fabrics is None or cell["fabric"] in facts.fabrics:
        return None
    have = f"the nodes have {', '.join(facts.fabrics)}" if facts.fabrics else "no node has any"
    return "fabric", f"no node has the fabric {cell['fabric']} ({have}; TBD_FABRICS can declare one)"


def _why_uninterpretable(cell: Mapping[str, Any], framework: FrameworkFacts) -> tuple[str, str] | None:
    offered = sorted({strategy.interpreter for strategy in framework.strategies.values()})
    if cell["interpreter"] not in ("auto", *offered):
        return "interpreter", f"{framework.name} runs in the interpreters {', '.join(offered)}"
    return None


def _why_unfit(cell: Mapping[str, Any], framework: FrameworkFacts, device: str, facts: Facts) -> tuple[str, str] | None:
    """No node's driver and GPUs can carry the environment that the cell would run in."""
    name = strategy_of(cell, framework).interpreter if cell["interpreter"] == "auto" else cell["interpreter"]
    if device != "cuda" or name not in facts.unfit:
        return None
    return "framework", f"no node can run {framework.name} on GPUs: the environment {name}: {facts.unfit[name]}"


def why_indivisible(cell: Mapping[str, Any]) -> tuple[str, str] | None:
    batch, topology = cell["global_batch_size"], cell["topology"]
    if batch is not None and batch % topology.world_size:
        return "global_batch_size", f"{batch} is not divisible by the {topology.world_size} devices of {topology}"
    return None


def why_unprofiled(cell: Mapping[str, Any], facts: Facts, profile: Sequence[str]) -> tuple[str, str] | None:
    """Abilities are declared: what an adapter cannot profile is known before anything runs."""
    framework, model = facts.catalog.frameworks[cell["framework"]], facts.catalog.models[cell["model"]]
    if profile and model.facts.get("measures") == "exchange":
        return "profile", f"model {model.name} trains nothing: there is no profile of it"
    strategy = strategy_of(cell, framework)
    device = device_of(cell, facts)
    lacking = [name for name in profile if name in framework.lacks.get(device, ())]
    if lacking:
        return "profile", f"{framework.name} makes no profile of {', '.join(lacking)} on {device} devices"
    offered = [ability for ability in framework.abilities if ability not in strategy.lacks]
    missing = [name for name in profile if name not in offered]
    if not missing:
        return None
    return "profile", f"{framework.name} with the strategy {strategy.name} makes no profile of {', '.join(missing)}"


def why_unwarmed(cell: Mapping[str, Any], facts: Facts, spec: ExperimentSpec) -> tuple[str, str] | None:
    """What has no steps before those that count, or all of whose steps count, cannot be warmed up."""
    model = facts.catalog.models[cell["model"]]
    if spec.warm_up_s == "auto" or spec.warm_up_s == usual_warm_up_s(device_of(cell, facts), spec.mode):
        return None
    if spec.mode == convergence.CONVERGENCE:
        return "warm_up_s", "is for mode throughput: to a target every step counts"
    if "measures" in model.facts or cell["framework"] == OWN_SCRIPT:
        return "warm_up_s", f"is for trainings in tbd's own loop: model {model.name} has another"
    return None


def device_of(cell: Mapping[str, Any], facts: Facts) -> str:
    return facts.device if cell["device"] == "auto" else str(cell["device"])


def strategy_of(cell: Mapping[str, Any], framework: FrameworkFacts) -> StrategyFacts:
    if cell["strategy"] != "auto":
        return framework.strategies[cell["strategy"]]
    strategy = framework.strategy_for(cell["topology"])
    assert strategy is not None, "check() lets no such cell pass"
    return strategy


def _unbuilt(spec: ExperimentSpec) -> Iterator[Problem]:
    for field, allowed, what in _NOT_BUILT:
        if getattr(spec, field) != allowed:
            yield Problem(f"/{field}", f"{what} is not built yet: leave {field} out")


def _too_few_for_precision(spec: ExperimentSpec) -> Iterator[Problem]:
    if spec.precision_target is not None and spec.max_repeats < repeats_of(spec):
        message = f"precision_target begins with {repeats_of(spec)} runs of each cell (at least {FIRST_STAGE})"
        yield Problem("/max_repeats", f"{message}: {spec.max_repeats} are too few")


def _unknown_names(spec: ExperimentSpec, catalog: Catalog) -> Iterator[Problem]:
    known: tuple[tuple[str, Iterable[str]], ...] = (
        ("model", catalog.models),
        ("framework", catalog.frameworks),
        ("data", ("synthetic", OWN_DATA, *catalog.datasets)),
    )
    for axis, names in known:
        offered = sorted(names)
        for value in getattr(spec, axis):
            if value not in offered:
                yield Problem(f"/{axis}", f"there is no {axis} {value!r}{_offer(value, offered)}")


def _offer(wrong: str, offered: Sequence[str]) -> str:
    """How a sentence ends that says that ``wrong`` is not there: what was probably meant, and all there is."""
    hint = did_you_mean(wrong, offered)
    begin = f"{hint} There are" if hint else "; there are"
    return f"{begin} {', '.join(offered) or 'none'}"


def _wrong_options(spec: ExperimentSpec, catalog: Catalog) -> Iterator[Problem]:
    switches = catalog.switches()
    own = [name for name, having in switches.items() if set(having) & set(spec.framework)]
    for name in sorted(set(spec.options) & set(switches)):
        facts = catalog.frameworks[switches[name][0]].switches[name]
        yield from (Problem(f"/options/{name}", text) for one in spec.options[name] if (text := facts.problem(one)))
    yield from _wrong_strategy_options(spec, catalog)
    own += catalog.strategy_options(spec.framework)
    for model in (catalog.models[name] for name in spec.model if name in catalog.models):
        for name, values in spec.options.items():
            option = model.options.get(name)
            if option is None:
                if name not in switches and not catalog.strategies_with(name):
                    yield Problem(f"/options/{name}", _unknown_option(name, model, own))
                continue
            wrong = (option.problem(value) for value in values)
            yield from (Problem(f"/options/{name}", text) for text in wrong if text)


def _wrong_strategy_options(spec: ExperimentSpec, catalog: Catalog) -> Iterator[Problem]:
    """Of each option of a strategy, the values that no strategy takes of those that have it."""
    for name in sorted(spec.options):
        having = [strategy.options[name] for _, strategy in catalog.strategies_with(name)]
        for value in spec.options[name] if having else ():
            found = [one.problem(value) for one in having]
            if found[0] and all(found):
                yield Problem(f"/options/{name}", found[0])


def _unknown_option(name: str, model: ModelFacts, others: Sequence[str]) -> str:
    """``others``: switches and options of strategies of the frameworks that are asked for."""
    hint = did_you_mean(name, [*model.options, *others])
    text = f"model {model.name} has no option {name}{f'{hint} It has' if hint else '; it has'}"
    beside = f"; its frameworks have {', '.join(others)}" if others else ""
    return f"{text} {', '.join(sorted(model.options)) or 'none'}{beside}"


def _wrong_excludes(spec: ExperimentSpec) -> Iterator[Problem]:
    for index, partial in enumerate(spec.exclude):
        for key in partial:
            if key not in AXES and key not in spec.options:
                yield Problem(f"/exclude/{index}/{key}", f"{key} is no axis of this sweep{did_you_mean(key, AXES)}")
