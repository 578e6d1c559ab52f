"""From a spec to plans: the grid, what ``auto`` stands for, what is refused, and which plans are still missing.

``expand`` is called at submission, and again when all runs of the experiment have ended: it is over when ``expand``
returns none. In between, the end of a run asks ``repetitions.missing`` about its own cell only
(``orchestrator.services.review``).
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.catalog import Catalog, FrameworkFacts, ModelFacts, StrategyFacts, parse_topology
from orchestrator.domain.errors import InvalidRequest, Problem
from orchestrator.domain.placement import Node
from orchestrator.domain.plan import Plan
from orchestrator.domain.precision import FIRST_STAGE
from orchestrator.domain.repetitions import Cell, missing, repeats_of
from orchestrator.domain.run import Run
from orchestrator.domain.spec import AXES, LARGEST_THAT_FITS, POWERS_OF_TWO, ExperimentSpec, parse_spec
from orchestrator.domain.spelling import did_you_mean

MAX_RUNS = 20_000  # a judgement: a larger grid is a typing mistake more often than a wish


@dataclass(frozen=True)
class Facts:
    """What was known when the experiment was submitted. Only ``device`` and ``pool`` depend on the cluster: they are
    stored with the experiment, so that a node that comes later changes no plan that was made.

    ``device`` is what ``auto`` stands for; ``pool`` is (nodes, most devices of that kind on one node); ``fabrics`` are
    those that any node has, None where that is not known.
    """

    catalog: Catalog
    device: str
    pool: tuple[int, int]
    fabrics: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        fabrics = None if self.fabrics is None else list(self.fabrics)
        return {"device": self.device, "pool": list(self.pool), "fabrics": fabrics}

    @classmethod
    def from_json(cls, catalog: Catalog, data: Mapping[str, Any]) -> "Facts":
        fabrics = data.get("fabrics")
        pool = (data["pool"][0], data["pool"][1])
        return cls(catalog, data["device"], pool, None if fabrics is None else tuple(fabrics))


def facts_of(catalog: Catalog, nodes: Sequence[Node], device: str | None = None) -> Facts:
    """The facts as of now. ``device``, where none is given: GPUs where any node has one, else CPU devices."""
    device = device or ("cuda" if any(node.devices_of("cuda") for node in nodes) else "cpu")
    counts = [len(node.devices_of(device)) for node in nodes]
    described = [node for node in nodes if "fabrics" in node.inventory]  # others have not been reached yet
    fabrics = tuple(sorted({fabric for node in described for fabric in node.fabrics})) if described else None
    return Facts(catalog, device, (sum(1 for count in counts if count), max(counts, default=0)), fabrics)


# Fields of the spec whose meaning is not built yet: the value that may stand there, and what it waits for.
_NOT_BUILT: tuple[tuple[str, Any, str], ...] = (
    ("placement", "any", "a series that stays on the devices it began on"),
    ("mode", "throughput", "training to a target"),
    ("target", None, "training to a target"),
    ("deadline_s", None, "a deadline for the whole run"),
)


def check(spec: ExperimentSpec, facts: Facts) -> None:
    """Refuse what cannot be carried out, before anything is stored.

    Raises:
        InvalidRequest: with a pointer to each field, and for cells that no framework can do the ``exclude`` lines.
    """
    problems = [*_unbuilt(spec), *_unknown_names(spec, facts.catalog), *_wrong_options(spec, facts.catalog)]
    problems += [*_wrong_excludes(spec), *_too_few_for_precision(spec)]
    if problems:
        raise InvalidRequest(problems)
    cells = list(_cells(spec, facts))
    if not cells:
        raise InvalidRequest([Problem("/exclude", "leaves no cell of the grid")])
    if len(cells) * repeats_of(spec) > MAX_RUNS:
        count = f"{len(cells)} cells x {repeats_of(spec)} repeats"
        raise InvalidRequest([Problem("", f"{count} are more than {MAX_RUNS} runs: split the experiment")])
    refused = [
        (cell, why)
        for cell in cells
        if (why := _why_impossible(cell, facts) or _why_unprofiled(cell, facts, spec.profile))
    ]
    if refused:
        are_all = len(refused) == len(cells)
        refusals = [_refusal(cell, why, are_all) for cell, why in refused]
        raise InvalidRequest(list(dict.fromkeys(refusals))[:20])  # cells that differ otherwise are refused in one line


def check_for_any_machine(spec: ExperimentSpec, catalog: Catalog) -> None:
    """Refuse what no machine could carry out, whatever devices it has: for those who do not know the cluster yet.

    Raises:
        InvalidRequest: as ``check``.
    """
    problems: list[Problem] = []
    for device in ("cpu", "cuda"):
        try:
            return check(spec, Facts(catalog, device, (1, 1)))
        except InvalidRequest as error:
            problems = problems or error.problems
    raise InvalidRequest(problems)


def expand(spec: ExperimentSpec, facts: Facts, runs: Sequence[Run]) -> list[Plan]:
    """Return the plans that are still missing, in the order in which they should run.

    ``orchestrator.domain.repetitions`` says how often each cell is repeated, and in which order.
    """
    by_cell: dict[str, list[Run]] = {}
    for run in runs:
        by_cell.setdefault(run.plan.cell_key, []).append(run)
    cells: dict[str, Cell] = {}
    for choice in _cells(spec, facts):
        plan = _plan(choice, facts, spec)
        cells.setdefault(plan.cell_key, Cell(plan, by_cell.get(plan.cell_key, [])))  # two may resolve to one
    return missing(list(cells.values()), spec)


def cell_keys(spec: ExperimentSpec, facts: Facts) -> set[str]:
    """The identities of all cells of the grid."""
    return {_plan(choice, facts, spec).cell_key for choice in _cells(spec, facts)}


# Fields that say how long a run is.
_LENGTHS = ("max_steps", "min_measure_s", "max_measure_s", "timeout_s")


def place_in_sweep(spec: ExperimentSpec, plan: Plan) -> tuple[Any, ...]:
    """Where the cell of ``plan`` stands in the grid: sorts as the sweep nests its axes. What ``auto`` and the like
    stood for comes by size."""
    axes = [_place_of(getattr(spec, axis) or [], getattr(plan, axis)) for axis in AXES]
    options = dict(plan.options)
    return (*axes, *(_place_of(spec.options[name], options.get(name)) for name in sorted(spec.options)))


def _place_of(values: Sequence[Any], value: Any) -> tuple[int, Any]:
    if value in values:
        return values.index(value), 0
    return len(values), parse_topology(value) if isinstance(value, str) and re.fullmatch(r"\d+x\d+", value) else 0


def spec_of(plan: Plan, name: str) -> ExperimentSpec:
    """The spec whose only cell is that of ``plan``, once: what a repetition by hand submits."""
    data = plan.to_json()
    shared = {axis: data[axis] for axis in AXES if axis not in ("fabric", "global_batch_size")}
    limits = {field: data[field] for field in ("mode", "placement", "profile", *_LENGTHS)}
    nodes = {"gpu_model": plan.gpu_model, "names": list(plan.node_names) or None}
    rest = {"name": name, "options": data["options"], "fabric": plan.fabric or "ethernet", "nodes": nodes, "repeats": 1}
    return parse_spec(shared | limits | rest)


def _cells(spec: ExperimentSpec, facts: Facts) -> Iterator[dict[str, Any]]:
    """The cells of the grid: axis -> value, ``options`` as a dict, exclusions left out."""
    option_names = sorted(spec.options)
    axes = [_axis_values(spec, axis, facts) for axis in AXES]
    grids = itertools.product(*axes, *(spec.options[name] for name in option_names))
    for values in grids:
        cell = dict(zip(AXES, values, strict=False))
        cell["options"] = dict(zip(option_names, values[len(AXES) :], strict=True))
        if not any(_matches(cell, partial) for partial in spec.exclude):
            yield cell


def _axis_values(spec: ExperimentSpec, axis: str, facts: Facts) -> Sequence[Any]:
    values = getattr(spec, axis)
    if values is None:
        return [None]
    if axis == "topology" and POWERS_OF_TWO in values:
        rest = [value for value in values if value != POWERS_OF_TWO]
        return list(dict.fromkeys([*rest, *_powers_of_two(facts.pool)]))
    return list(values)


def _powers_of_two(pool: tuple[int, int]) -> list[str]:
    """1x1, 1x2, 1x4 … up to one whole node, then 2xD, 4xD … up to the whole pool."""
    nodes, devices = pool
    within = [f"1x{2**k}" for k in range(max(devices, 1).bit_length())]
    across = [f"{2**k}x{devices}" for k in range(1, max(nodes, 1).bit_length())]
    return within + across


def _matches(cell: Mapping[str, Any], partial: Mapping[str, Any]) -> bool:
    options = cell["options"]
    return all((cell[key] if key in cell else options.get(key)) == value for key, value in partial.items())


def _refusal(cell: Mapping[str, Any], why: tuple[str, str], are_all: bool) -> Problem:
    """``are_all``: every cell is refused, so that to leave them out would leave nothing."""
    axis, reason = why
    if are_all:
        return Problem(f"/{axis}", reason)
    named = {"model": cell["model"], "framework": cell["framework"]}
    if axis == "profile":  # no axis: what differs between its cells is what they run in
        named["strategy"] = cell["strategy"]
    else:
        named[axis] = cell[axis]
    line = ", ".join(f"{key}: {value}" for key, value in named.items())
    return Problem(f"/{axis}", f"{reason}. To leave this cell out: exclude: [{{{line}}}]")


def _why_impossible(cell: Mapping[str, Any], facts: Facts) -> tuple[str, str] | None:
    """(axis, reason) why no node could ever carry out the cell, or None."""
    model, framework = facts.catalog.models[cell["model"]], facts.catalog.frameworks[cell["framework"]]
    if framework.name not in model.frameworks:
        return (
            "framework",
            f"model {model.name} is not there for {framework.name}, only for {', '.join(model.frameworks)}",
        )
    device = _device(cell, facts)
    checks = (
        ("device", device, framework.devices),
        ("precision", cell["precision"], framework.precisions),
        ("data", cell["data"], model.datasets),
        ("size", cell["size"], tuple(model.sizes)),
    )
    for axis, value, offered in checks:
        if value not in offered:
            return axis, f"{axis} {value} is not offered for {model.name} in {framework.name}: {', '.join(offered)}"
    return (
        _why_undistributable(cell, framework)
        or _why_unconnected(cell, facts)
        or _why_uninterpretable(cell, framework)
        or _why_indivisible(cell)
    )


def _why_undistributable(cell: Mapping[str, Any], framework: FrameworkFacts) -> tuple[str, str] | None:
    nodes, devices = parse_topology(cell["topology"])
    if cell["strategy"] == "auto":
        if framework.strategy_for(nodes, devices) is None:
            return "topology", f"{framework.name} has no strategy for topology {cell['topology']}"
        return None
    strategy = framework.strategies.get(cell["strategy"])
    if strategy is None:
        return "strategy", f"{framework.name} has the strategies {', '.join(framework.strategies)}"
    if nodes > strategy.max_nodes or devices > strategy.max_devices_per_node:
        reach = f"{strategy.max_nodes}x{strategy.max_devices_per_node}"
        return "topology", f"strategy {strategy.name} of {framework.name} reaches {reach} at most"
    return None


def _why_unconnected(cell: Mapping[str, Any], facts: Facts) -> tuple[str, str] | None:
    """Nodes that come later may have the fabric; where there are nodes, and none has it, the spec is mistaken."""
    if parse_topology(cell["topology"])[0] == 1 or facts.fabrics is None or cell["fabric"] in facts.fabrics:
        return None
    have = f"the nodes have {', '.join(facts.fabrics)}" if facts.fabrics else "no node has any"
    return "fabric", f"no node has the fabric {cell['fabric']} ({have}; TBD_FABRICS can declare one)"


def _why_uninterpretable(cell: Mapping[str, Any], framework: FrameworkFacts) -> tuple[str, str] | None:
    offered = sorted({strategy.interpreter for strategy in framework.strategies.values()})
    if cell["interpreter"] not in ("auto", *offered):
        return "interpreter", f"{framework.name} runs in the interpreters {', '.join(offered)}"
    return None


def _why_indivisible(cell: Mapping[str, Any]) -> tuple[str, str] | None:
    nodes, devices = parse_topology(cell["topology"])
    batch = cell["global_batch_size"]
    if batch is not None and batch % (nodes * devices):
        return "global_batch_size", f"{batch} is not divisible by the {nodes * devices} devices of {cell['topology']}"
    return None


def _why_unprofiled(cell: Mapping[str, Any], facts: Facts, profile: Sequence[str]) -> tuple[str, str] | None:
    """Abilities are declared: what an adapter cannot profile is known before anything runs."""
    framework, model = facts.catalog.frameworks[cell["framework"]], facts.catalog.models[cell["model"]]
    if profile and model.facts.get("measures") == "exchange":
        return "profile", f"model {model.name} trains nothing: there is no profile of it"
    strategy = _strategy(cell, framework, *parse_topology(cell["topology"]))
    device = _device(cell, facts)
    lacking = [name for name in profile if name in framework.lacks.get(device, ())]
    if lacking:
        return "profile", f"{framework.name} makes no profile of {', '.join(lacking)} on {device} devices"
    offered = [ability for ability in framework.abilities if ability not in strategy.lacks]
    missing = [name for name in profile if name not in offered]
    if not missing:
        return None
    return "profile", f"{framework.name} with the strategy {strategy.name} makes no profile of {', '.join(missing)}"


def _device(cell: Mapping[str, Any], facts: Facts) -> str:
    return facts.device if cell["device"] == "auto" else str(cell["device"])


def _plan(cell: Mapping[str, Any], facts: Facts, spec: ExperimentSpec) -> Plan:
    framework, model = facts.catalog.frameworks[cell["framework"]], facts.catalog.models[cell["model"]]
    nodes, devices = parse_topology(cell["topology"])
    strategy = _strategy(cell, framework, nodes, devices)
    per_device = cell["per_device_batch_size"] or cell["global_batch_size"] // (nodes * devices)
    return Plan(
        model=model.name,
        options=tuple(sorted(_all_options(cell, model).items())),
        framework=framework.name,
        strategy=strategy.name,
        interpreter=strategy.interpreter if cell["interpreter"] == "auto" else cell["interpreter"],
        topology=cell["topology"],
        fabric=cell["fabric"] if nodes > 1 else None,
        device=_device(cell, facts),
        precision=cell["precision"],
        per_device_batch_size=per_device,
        global_batch_size=per_device * nodes * devices,
        data=cell["data"],
        size=cell["size"],
        seed=cell["seed"],
        mode=spec.mode,
        gpu_model=spec.nodes.gpu_model,
        node_names=tuple(sorted(spec.nodes.names or ())),
        placement=spec.placement,
        profile=tuple(sorted(spec.profile)),
        max_steps=spec.max_steps,
        min_measure_s=spec.min_measure_s,
        max_measure_s=spec.max_measure_s,
        timeout_s=spec.timeout_s,
    )


def _strategy(cell: Mapping[str, Any], framework: FrameworkFacts, nodes: int, devices: int) -> StrategyFacts:
    if cell["strategy"] != "auto":
        return framework.strategies[cell["strategy"]]
    strategy = framework.strategy_for(nodes, devices)
    assert strategy is not None, "check() lets no such cell pass"
    return strategy


def _all_options(cell: Mapping[str, Any], model: ModelFacts) -> dict[str, Any]:
    """Defaults written out: a default that changes later makes another workload, not the same one measured anew."""
    return {name: option.default for name, option in model.options.items()} | cell["options"]


def _unbuilt(spec: ExperimentSpec) -> Iterator[Problem]:
    for field, allowed, what in _NOT_BUILT:
        if getattr(spec, field) != allowed:
            yield Problem(f"/{field}", f"{what} is not built yet: leave {field} out")
    if spec.per_device_batch_size and LARGEST_THAT_FITS in spec.per_device_batch_size:
        yield Problem("/per_device_batch_size", "the search for the largest batch is not built yet: give numbers")


def _too_few_for_precision(spec: ExperimentSpec) -> Iterator[Problem]:
    if spec.precision_target is not None and spec.max_repeats < repeats_of(spec):
        message = f"precision_target begins with {repeats_of(spec)} runs of each cell (at least {FIRST_STAGE})"
        yield Problem("/max_repeats", f"{message}: {spec.max_repeats} are too few")


def _unknown_names(spec: ExperimentSpec, catalog: Catalog) -> Iterator[Problem]:
    known: tuple[tuple[str, Iterable[str]], ...] = (
        ("model", catalog.models),
        ("framework", catalog.frameworks),
        ("data", ("synthetic", *catalog.datasets)),
    )
    for axis, names in known:
        offered = sorted(names)
        for value in getattr(spec, axis):
            if value not in offered:
                yield Problem(f"/{axis}", f"there is no {axis} {value!r}{_offer(value, offered)}")


def _offer(wrong: str, offered: Sequence[str], verb: str = "there are") -> str:
    """How a sentence ends that says that ``wrong`` is not there: what was probably meant, and all there is."""
    hint = did_you_mean(wrong, offered)
    begin = f"{hint} {verb.capitalize()}" if hint else f"; {verb}"
    return f"{begin} {', '.join(offered) or 'none'}"


def _wrong_options(spec: ExperimentSpec, catalog: Catalog) -> Iterator[Problem]:
    for model in (catalog.models[name] for name in spec.model if name in catalog.models):
        for name, values in spec.options.items():
            option = model.options.get(name)
            if option is None:
                declared = _offer(name, sorted(model.options), "it has")
                yield Problem(f"/options/{name}", f"model {model.name} has no option {name}{declared}")
                continue
            wrong = (option.problem(value) for value in values)
            yield from (Problem(f"/options/{name}", text) for text in wrong if text)


def _wrong_excludes(spec: ExperimentSpec) -> Iterator[Problem]:
    for index, partial in enumerate(spec.exclude):
        for key in partial:
            if key not in AXES and key not in spec.options:
                yield Problem(f"/exclude/{index}/{key}", f"{key} is no axis of this sweep{did_you_mean(key, AXES)}")
