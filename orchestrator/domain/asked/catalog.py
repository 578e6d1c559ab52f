"""What can be measured: models, frameworks and datasets as their facts files declare them. Only types live here;
``orchestrator.services.facts.catalog`` reads the TOML."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.domain.asked.topology import Topology
from orchestrator.domain.value.health import Xid
from orchestrator.domain.value.peaks import DataSheet
from orchestrator.domain.value.profile import NO_KINDS, KernelKinds
from workers.trainer.protocol import STRATEGY


@dataclass(frozen=True)
class OptionFacts:
    """One declared option of a model or a strategy: its type and what it may be.

    ``sizes``: those at which it may be other than its default; all where none is named. ``later``: it was declared when
    plans without it had been stored, which are those of its default and keep their identity.
    """

    name: str
    type: str
    default: Any
    choices: tuple[Any, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    help: str = ""
    sizes: tuple[str, ...] = ()
    later: bool = False

    def problem(self, value: Any) -> str | None:
        """Return what is wrong with ``value``, or None."""
        accepted = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}
        if not isinstance(value, accepted[self.type]) or (isinstance(value, bool) and self.type != "bool"):
            return f"option {self.name} is of type {self.type}, not {value!r}"
        if self.choices and value not in self.choices:
            return f"option {self.name} is one of {', '.join(map(str, self.choices))}, not {value!r}"
        return self._out_of_range(value)

    def problem_at(self, value: Any, size: str) -> str | None:
        """Return why ``value`` is not offered at ``size``, or None."""
        if not self.sizes or size in self.sizes or value == self.default:
            return None
        return f"option {self.name} is {value} only at the sizes {', '.join(self.sizes)}, not at {size}"

    def _out_of_range(self, value: Any) -> str | None:
        if self.minimum is not None and value < self.minimum:
            return f"option {self.name} is at least {self.minimum}, not {value!r}"
        if self.maximum is not None and value > self.maximum:
            return f"option {self.name} is at most {self.maximum}, not {value!r}"
        return None


@dataclass(frozen=True)
class Variant:
    """What values of options change in the facts of their model: where a plan has each option of ``when`` (option ->
    value), ``facts``, nested as the model's are, take the place of these."""

    when: Mapping[str, Any]
    facts: Mapping[str, Any]

    def applies(self, options: Mapping[str, Any]) -> bool:
        return all(options.get(name) == value for name, value in self.when.items())


@dataclass(frozen=True)
class QualityFacts:
    """What a trained model is judged by, and what the literature reports of it: ``target``; None: nothing, and
    ``source`` says why. ``better``: higher or lower."""

    metric: str
    target: float | None
    better: str
    dataset: str
    source: str


@dataclass(frozen=True)
class ModelFacts:
    """A model of the suite. ``facts`` is its whole ``model.toml``; the rest are the parts that the control plane reads.

    ``parameters``, ``flops_per_sample`` (one forward pass, two per multiply-add) and ``layers`` are those of full size,
    with all options at their defaults; ``variants`` have what other values change.
    ``roles``: how many processes of each role of its own the model has beside a rank's worker.
    """

    name: str
    module: str
    domain: str
    frameworks: tuple[str, ...]
    work_unit: str
    work_unit_definition: str
    sizes: Mapping[str, Mapping[str, Any]]
    options: Mapping[str, OptionFacts]
    datasets: tuple[str, ...]
    facts: Mapping[str, Any] = field(repr=False)
    parameters: int | None = None
    layers: int | None = None
    flops_per_sample: float | None = None
    dominant_layer: str | None = None
    maintainers: tuple[str, ...] = ()
    roles: Mapping[str, int] = field(default_factory=dict)
    quality: QualityFacts | None = None
    variants: tuple[Variant, ...] = ()

    @property
    def optimizer(self) -> Mapping[str, Any]:
        """Its table, or that of each of its optimisers by name."""
        found: Mapping[str, Any] = self.facts.get("optimizer", {})
        return found

    @property
    def paper(self) -> str | None:
        return self.facts.get("paper")

    def why_not_in(self, framework: str) -> str:
        """That it is not there in ``framework``, with the reason where the facts have one."""
        why = self.facts.get("not_in", {}).get(framework)
        told = f"model {self.name} is not there for {framework}, only for {', '.join(self.frameworks)}"
        return f"{told}: {why}" if why else told

    @property
    def replays(self) -> str | None:
        """The option with the run whose layers it waits for; None where it trains."""
        return self.facts.get("replays")

    @property
    def sources(self) -> dict[str, str]:
        """Of ``parameters`` and ``flops``: where the number comes from."""
        end = "_source"
        return {name.removesuffix(end): told for name, told in self.facts.items() if name.endswith(end)}

    def facts_with(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The whole facts with ``options``, those left out at their defaults: ``facts`` with every variant that applies
        laid over them, in order."""
        chosen = {name: option.default for name, option in self.options.items()} | dict(options)
        found = dict(self.facts)
        for variant in self.variants:
            if variant.applies(chosen):
                found = _laid_over(found, variant.facts)
        return found


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged, any other value takes the place of the one below."""
    merged = {
        name: _laid_over(below[name], value) if isinstance(value, Mapping) and name in below else value
        for name, value in above.items()
    }
    return {**below, **merged}


@dataclass(frozen=True)
class ExchangeFacts:
    """How a strategy exchanges gradients, as the model of S-SGD has it (docs/read_results/s-sgd-model.md).

    ``overlapped``: beside the backward pass, or after it. ``merged_by``: whose rule merges them, up to the option
    ``bucket_mib``; none: nothing does. ``together``: all are exchanged at once. ``libraries``: kind of device -> the
    library of netbench that times what this strategy does; where there is none, ``unmeasured`` says why.
    ``algorithms``: kind of device -> ``analysis.s_sgd.labels.Algorithm``, by which times among some ranks become those
    among others; a ring where none stands.
    """

    overlapped: bool
    libraries: Mapping[str, str]
    merged_by: str | None = None
    together: bool = False
    unmeasured: str = "netbench cannot time how this strategy exchanges gradients"
    algorithms: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StrategyFacts:
    """How a framework distributes, in which interpreter, how far it reaches, and its layout of processes
    (``workers.trainer.protocol.STRATEGY`` says what each means). ``lacks``: abilities and precisions of the framework
    that are not there with this strategy. ``options``: those that stand among the options of a spec. ``exchange``: None
    where it exchanges nothing, or no model of it is told."""

    name: str
    interpreter: str
    max_nodes: int
    max_devices_per_node: int
    workers: str = "per-device"
    scheduler: bool = False
    servers: str = "none"
    launcher: str = "none"
    synchronous: bool = True
    replica_tolerance: float = 0.0
    step_multiple: int = 1
    threads: str = "per-process"
    lacks: tuple[str, ...] = ()
    options: Mapping[str, OptionFacts] = field(default_factory=dict)
    exchange: ExchangeFacts | None = None

    def reaches(self, topology: Topology) -> bool:
        return topology.nodes <= self.max_nodes and topology.devices_per_node <= self.max_devices_per_node

    def to_job(self) -> dict[str, Any]:
        """What the hosts are told of it (``workers.trainer.protocol.STRATEGY``)."""
        return {"name": self.name} | {name: getattr(self, name) for name in STRATEGY}


@dataclass(frozen=True)
class SwitchFacts:
    """A switch of a framework, which stands among the options of a spec: off where nothing is said.

    ``devices``: the kinds that have it. ``inputs``: the inputs of models that it means something for; none: all.
    ``not_with``: model, strategy, precision, profile or other switch that it does not go with -> why; ``cpu/kernels``:
    not on such devices.
    """

    name: str
    help: str
    devices: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    not_with: Mapping[str, str] = field(default_factory=dict)

    def problem(self, value: Any) -> str | None:
        """Return what is wrong with ``value``, or None."""
        return None if isinstance(value, bool) else f"option {self.name} is a switch, true or false, not {value!r}"


@dataclass(frozen=True)
class FrameworkFacts:
    """What an adapter declares: it is never probed for abilities. ``lacks``: kind of device -> abilities and precisions
    that are not there on it; a strategy has ``lacks`` of its own. ``data_on``: kind of device -> where synthetic
    batches may lie, the usual place first; ``data_on_lacks``: place that the framework never has -> why;
    ``precisions_not_with``: precision -> model or strategy that it does not go with -> why; ``cuda/mirrored``: not on
    such devices."""

    name: str
    devices: tuple[str, ...]
    precisions: tuple[str, ...]
    abilities: tuple[str, ...]
    strategies: Mapping[str, StrategyFacts]
    lacks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    switches: Mapping[str, SwitchFacts] = field(default_factory=dict)
    data_on: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    data_on_lacks: Mapping[str, str] = field(default_factory=dict)
    precisions_not_with: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def precisions_on(self, device: str) -> tuple[str, ...]:
        """Those that there are on this kind of device; a strategy may lack one of them."""
        lacking = self.lacks.get(device, ())
        return tuple(one for one in self.precisions if one not in lacking)

    def why_not_precise(self, precision: str, device: str, model_or_strategy: str) -> str | None:
        """Why a precision that is there on such devices does not go with a model, or with a strategy, or None."""
        found = self.precisions_not_with.get(precision, {})
        return found.get(model_or_strategy) or found.get(f"{device}/{model_or_strategy}")

    def strategy_for(self, topology: Topology) -> StrategyFacts | None:
        """The first declared strategy that reaches the topology: what ``auto`` means."""
        for strategy in self.strategies.values():
            if strategy.reaches(topology):
                return strategy
        return None


@dataclass(frozen=True)
class DatasetFacts:
    """Real files, prepared on each node at first use: those that come with tbd, and those that were registered on
    nodes, which ``facts`` says."""

    name: str
    module: str
    domain: str
    facts: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Catalog:
    """All facts together."""

    models: Mapping[str, ModelFacts]
    frameworks: Mapping[str, FrameworkFacts]
    datasets: Mapping[str, DatasetFacts]
    data_sheets: Sequence[DataSheet] = ()
    kernel_kinds: KernelKinds = NO_KINDS
    xids: Mapping[int, Xid] = field(default_factory=dict)

    def strategies_with(self, option: str) -> list[tuple[FrameworkFacts, StrategyFacts]]:
        """The strategies, each with its framework, that have the option."""
        return [
            (framework, strategy)
            for framework in self.frameworks.values()
            for strategy in framework.strategies.values()
            if option in strategy.options
        ]

    def strategy_options(self, frameworks: Container[str]) -> dict[str, None]:
        """Every option of a strategy of ``frameworks``, in order."""
        asked = (one for name, one in self.frameworks.items() if name in frameworks)
        return {option: None for framework in asked for one in framework.strategies.values() for option in one.options}

    def switches(self) -> dict[str, tuple[str, ...]]:
        """Every switch that there is -> the frameworks that have it."""
        found: dict[str, tuple[str, ...]] = {}
        for framework in self.frameworks.values():
            for name in framework.switches:
                found[name] = (*found.get(name, ()), framework.name)
        return found
