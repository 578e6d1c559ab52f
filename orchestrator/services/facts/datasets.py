"""The datasets: those that come with tbd and those that were registered on nodes, and what each node has of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.asked.catalog import Catalog, DatasetFacts
from orchestrator.domain.asked.datasets import extended, on_nodes
from orchestrator.domain.asked.placement import Node, NodeState
from orchestrator.services.context import Context
from workers.trainer.base.manifest import folder_name


@dataclass(frozen=True)
class DatasetOnNode:
    """``state``: prepared (trainers can read it), registered or unprepared (made ready at first use), absent (it would
    have to be registered there), unknown (the node has not been reached)."""

    node: str
    state: str


@dataclass(frozen=True)
class DatasetStatus:
    """A dataset and what each node has of it. ``problem``: why nothing can be run on it."""

    facts: DatasetFacts
    nodes: Sequence[DatasetOnNode]
    problem: str | None = None


def datasets(context: Context) -> list[DatasetStatus]:
    """All datasets by name."""
    return of_nodes(context.catalog, sorted(context.cluster.nodes(), key=lambda node: node.name))


def of_nodes(catalog: Catalog, nodes: Sequence[Node]) -> list[DatasetStatus]:
    """All datasets by name, given what the nodes' inventories tell."""
    known = extended(catalog, on_nodes(nodes)).datasets
    return [
        DatasetStatus(
            facts, [DatasetOnNode(node.name, _state(facts.facts, node)) for node in nodes], facts.facts.get("differs")
        )
        for _, facts in sorted(known.items())
    ]


def _state(facts: Mapping[str, Any], node: Node) -> str:
    registered, prepared = node.inventory.get("datasets"), node.inventory.get("prepared_datasets")
    if node.state is NodeState.UNREACHABLE or registered is None or prepared is None:
        return "unknown"
    if facts.get("registered"):
        own = registered.get(facts["name"])
        if own is None:
            return "absent"
        return "prepared" if folder_name(own) in prepared else "registered"
    return "prepared" if folder_name(facts) in prepared else "unprepared"
