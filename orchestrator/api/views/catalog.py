"""Models, frameworks, datasets and nodes, as they are answered."""

from typing import Any

from orchestrator.api.views.common import Json, View
from orchestrator.api.views.runs import DeviceView, device_view
from orchestrator.domain.catalog import DatasetFacts, ModelFacts
from orchestrator.domain.placement import Node
from orchestrator.services.frameworks import FrameworkStatus


class OptionView(View):
    """An option that a spec may set."""

    name: str
    type: str
    default: Any
    choices: list[Any]
    minimum: float | None
    maximum: float | None
    help: str


class ModelView(View):
    """A model of the suite. ``parameters``, ``layers`` and ``flops_per_sample`` (one forward pass, two per
    multiply-add) are those of full size; ``sizes`` has the facts of each."""

    name: str
    domain: str
    frameworks: list[str]
    parameters: int | None
    layers: int | None
    flops_per_sample: float | None
    dominant_layer: str | None
    work_unit: str
    work_unit_definition: str
    sizes: Json
    options: list[OptionView]
    datasets: list[str]
    maintainers: list[str]


class StrategyView(View):
    """How a framework distributes, and how far that reaches."""

    name: str
    interpreter: str
    max_nodes: int
    max_devices_per_node: int


class InterpreterView(View):
    """A named environment of one node; ``ready`` is null where the node cannot be asked."""

    name: str
    node: str
    ready: bool | None
    reason: str | None
    definition: str | None
    versions: Json | None


class FrameworkView(View):
    """What an adapter declares, and where it can run."""

    name: str
    devices: list[str]
    precisions: list[str]
    abilities: list[str]
    strategies: list[StrategyView]
    interpreters: list[InterpreterView]


class DatasetView(View):
    """A registered dataset: real files."""

    name: str
    domain: str
    description: str | None
    layout: str | None
    interpreter: str | None
    files: int | None
    classes: int | None
    bytes: int | None
    licence: str | None
    source: str | None


class NodeView(View):
    """A machine. ``state``: available, draining, quarantined or unreachable."""

    name: str
    state: str
    address: str
    devices: list[DeviceView]
    inventory: Json


def model_view(model: ModelFacts) -> ModelView:
    names = set(ModelView.model_fields) - {"options"}
    plain = {name: getattr(model, name) for name in names}
    plain |= {name: list(plain[name]) for name in ("frameworks", "datasets", "maintainers")}
    plain["sizes"] = {name: dict(size) for name, size in model.sizes.items()}
    options = [
        OptionView(**{name: getattr(one, name) for name in OptionView.model_fields} | {"choices": list(one.choices)})
        for one in model.options.values()
    ]
    return ModelView(**plain, options=options)


def framework_view(status: FrameworkStatus) -> FrameworkView:
    facts = status.facts
    strategies = [
        StrategyView(**{name: getattr(one, name) for name in StrategyView.model_fields})
        for one in facts.strategies.values()
    ]
    interpreters = [
        InterpreterView(**{name: getattr(one, name) for name in InterpreterView.model_fields})
        for one in status.interpreters
    ]
    return FrameworkView(
        name=facts.name,
        devices=list(facts.devices),
        precisions=list(facts.precisions),
        abilities=list(facts.abilities),
        strategies=strategies,
        interpreters=interpreters,
    )


def dataset_view(dataset: DatasetFacts) -> DatasetView:
    facts: dict[str, Any] = {name: dataset.facts.get(name) for name in DatasetView.model_fields}
    return DatasetView(**facts | {"name": dataset.name, "domain": dataset.domain})


def node_view(node: Node) -> NodeView:
    return NodeView(
        name=node.name,
        state=node.state.value,
        address=node.address,
        devices=[device_view(device) for device in node.devices],
        inventory=dict(node.inventory),
    )
