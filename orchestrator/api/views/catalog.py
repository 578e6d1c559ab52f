"""Models, frameworks, datasets and nodes, as they are answered."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from orchestrator.api.views.common import Json, PageView, View, fields_of
from orchestrator.api.views.runs import DeviceView
from orchestrator.domain.around.device_health import DeviceEvent
from orchestrator.domain.asked.catalog import ModelFacts, OptionFacts, QualityFacts, StrategyFacts, SwitchFacts, Variant
from orchestrator.domain.asked.placement import Node
from orchestrator.domain.value.health import Health
from orchestrator.services.facts.checks import NodeFacts
from orchestrator.services.facts.datasets import DatasetOnNode, DatasetStatus
from orchestrator.services.facts.devices import DeviceRecord
from orchestrator.services.facts.frameworks import FrameworkStatus, InterpreterOnNode


def _values(by_name: Mapping[str, Any]) -> list[Any]:
    return list(by_name.values())


@fields_of(OptionFacts, "name", "type", "default", "choices", "minimum", "maximum", "help", "sizes")
class OptionView(View):
    """An option that a spec may set. ``sizes``: where it may be other than its default; empty: everywhere."""


@fields_of(Variant)
class VariantView(View):
    """What values of options change in the facts of a model: ``when`` has the values, ``facts`` what is other then."""


@fields_of(QualityFacts)
class QualityView(View):
    """What a trained model is judged by, and what the literature reports of it (``target``)."""


@fields_of(
    ModelFacts,
    "name",
    "domain",
    "frameworks",
    "parameters",
    "layers",
    "flops_per_sample",
    "dominant_layer",
    "work_unit",
    "work_unit_definition",
    "datasets",
    "maintainers",
)
class ModelView(View):
    """A model of the suite. ``parameters``, ``layers`` and ``flops_per_sample`` (one forward pass, two per
    multiply-add) are those of full size with all options at their defaults; ``sizes`` has the facts of each,
    ``variants`` what other values of options change."""

    sizes: Json
    quality: QualityView | None
    optimizer: Json
    paper: str | None
    sources: Json
    options: Annotated[list[OptionView], BeforeValidator(_values)]
    variants: list[VariantView]


@fields_of(StrategyFacts, "name", "interpreter", "max_nodes", "max_devices_per_node")
class StrategyView(View):
    """How a framework distributes, and how far that reaches. ``options``: what a spec may set with this strategy."""

    options: Annotated[list[OptionView], BeforeValidator(_values)]


@fields_of(SwitchFacts, "name", "help", "devices", "inputs")
class SwitchView(View):
    """An option of a spec that is true or false, for all models of the framework, or for those of some ``inputs``.
    ``not_with``: model, strategy, precision, profile or other switch that it does not go with, and why."""

    not_with: Json


@fields_of(InterpreterOnNode)
class InterpreterView(View):
    """A named environment of one node; ``ready`` is null where the node cannot be asked."""


class FrameworkView(View):
    """What an adapter declares, and where it can run."""

    name: str
    devices: list[str]
    precisions: list[str]
    abilities: list[str]
    data_on: dict[str, list[str]] = Field(
        description="kind of device -> where synthetic batches may lie, the usual place first"
    )
    switches: list[SwitchView]
    strategies: list[StrategyView]
    interpreters: list[InterpreterView]


@fields_of(DatasetOnNode)
class DatasetOnNodeView(View):
    """What a node has of a dataset. ``state``: prepared, registered or unprepared (both made ready at first use),
    absent (to be registered there), unknown (the node has not been reached)."""


class DatasetView(View):
    """Real files. ``registered``: by a person, on nodes, and not by tbd; ``sha256`` then tells which files are meant.
    ``problem``: why no run can use it now. ``splits``: what is in each, such as {"train": {"pairs": 133317}}, as it was
    counted when the files were made or registered."""

    name: str
    domain: str
    description: str | None
    layout: str | None
    interpreter: str | None
    files: int | None
    splits: dict[str, dict[str, int]] | None
    classes: int | None
    bytes: int | None
    licence: str | None
    source: str | None
    registered: bool
    sha256: str | None
    problem: str | None
    nodes: list[DatasetOnNodeView]


@fields_of(Health)
class DeviceHealthView(View):
    """How well a device is. ``state``: well; suspect (used where the others do not suffice); bad (withheld)."""


@fields_of(Node)
class NodeView(View):
    """A machine. ``state``: available, draining, quarantined, suspect or unreachable; ``reason``: why it is one of the
    last two. ``health``: of the devices that are not well, by id."""

    devices: list[DeviceView]
    health: dict[str, DeviceHealthView]


@fields_of(NodeFacts, without=("facts",))
class NodeFactsView(View):
    """What a node says of itself to whoever checks it, ``took_s`` seconds after it was asked; null with a reason where
    it says nothing."""

    facts: Json | None


@fields_of(DeviceEvent)
class DeviceEventView(View):
    """What happened to a device. ``kind``: xid, ailment (its driver said so), crash (of a training on it), cleared.
    ``ended_at``: since when it counts no more; null: it counts."""


@fields_of(DeviceRecord, without=("events",))
class DeviceRecordView(View):
    """A device, how it is, and what happened to it, newest first. ``number``: of its driver."""

    health: DeviceHealthView
    events: PageView[DeviceEventView]


def framework_view(status: FrameworkStatus) -> FrameworkView:
    facts = status.facts
    return FrameworkView.of(
        facts,
        switches=_values(facts.switches),
        strategies=_values(facts.strategies),
        interpreters=status.interpreters,
    )


def dataset_view(dataset: DatasetStatus) -> DatasetView:
    told = dataset.facts.facts
    facts: dict[str, Any] = {name: told.get(name) for name in DatasetView.model_fields}
    own = {"name": dataset.facts.name, "domain": dataset.facts.domain, "registered": bool(told.get("registered"))}
    nodes = [DatasetOnNodeView.of(one) for one in dataset.nodes]
    return DatasetView(**facts | own | {"problem": dataset.problem, "nodes": nodes})
