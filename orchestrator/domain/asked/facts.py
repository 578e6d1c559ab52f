"""What a sweep is expanded by, beside its spec: the catalogue, and what the cluster was when it was submitted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.domain.asked import datasets
from orchestrator.domain.asked.catalog import Catalog, ModelFacts
from orchestrator.domain.asked.placement import Node, is_of_model


@dataclass(frozen=True)
class Facts:
    """What was known when the experiment was submitted. ``device``, ``pool`` and the datasets that were registered on
    nodes (in ``catalog``) depend on the cluster: they are stored with the experiment, so that a node that comes later
    changes no plan that was made.

    ``device`` is what ``auto`` stands for; ``pool`` is (nodes, devices of that kind on each of them), the most devices
    that a topology can take; ``fabrics`` are those that any node has, None where that is not known. ``nodes``: of each
    node, the names of its devices of that kind, and how many have it; none where that was not noted yet. ``unfit``:
    environment -> why no node with GPUs can carry its CUDA variant.
    """

    catalog: Catalog
    device: str
    pool: tuple[int, int]
    fabrics: tuple[str, ...] | None = None
    nodes: tuple[tuple[tuple[str, int], ...], ...] = ()
    unfit: Mapping[str, str] = field(default_factory=dict)

    def pool_of(self, gpu_model: str | None) -> tuple[int, int]:
        """The pool of the devices whose name contains ``gpu_model``."""
        if gpu_model is None or not self.nodes:
            return self.pool
        return _pool([sum(n for name, n in node if is_of_model(name, gpu_model)) for node in self.nodes])

    @property
    def registered(self) -> dict[str, dict[str, Any]]:
        """The facts of the datasets that were registered on nodes, by name."""
        return {name: dict(one.facts) for name, one in self.catalog.datasets.items() if one.facts.get("registered")}

    def digest_of(self, data: str) -> str | None:
        """Which files ``data`` stands for, where it was registered on nodes."""
        return self.registered.get(data, {}).get("sha256")

    def datasets_of(self, model: ModelFacts, options: Mapping[str, Any]) -> tuple[str, ...]:
        """What ``model`` can train on with these options: the data that its facts name, and what was registered and is
        read alike."""
        known = self.catalog.datasets
        own = tuple(model.facts_with(options).get("datasets", model.datasets))
        loaders = {known[name].facts.get("loader") for name in own if name in known} - {None}
        alike = [name for name, facts in self.registered.items() if facts.get("loader") in loaders]
        return (*own, *(name for name in alike if name not in own))

    def to_json(self) -> dict[str, Any]:
        fabrics = None if self.fabrics is None else list(self.fabrics)
        nodes = [[list(device) for device in node] for node in self.nodes]
        found: dict[str, Any] = {"device": self.device, "pool": list(self.pool), "fabrics": fabrics, "nodes": nodes}
        found |= {"datasets": self.registered} if self.registered else {}
        return found | ({"unfit": dict(self.unfit)} if self.unfit else {})

    @classmethod
    def from_json(cls, catalog: Catalog, data: Mapping[str, Any]) -> "Facts":
        fabrics = data.get("fabrics")
        registered = {name: datasets.of_facts(facts) for name, facts in (data.get("datasets") or {}).items()}
        catalog = datasets.extended(catalog, registered) if registered else catalog
        pool = (data["pool"][0], data["pool"][1])
        nodes = tuple(tuple((name, count) for name, count in node) for node in data.get("nodes") or ())
        fabrics = None if fabrics is None else tuple(fabrics)
        return cls(catalog, data["device"], pool, fabrics, nodes, data.get("unfit") or {})


def facts_of(catalog: Catalog, nodes: Sequence[Node], device: str | None = None) -> Facts:
    """The facts as of now. ``device``, where none is given: GPUs where any node has one, be it in use by
    others, else CPU devices."""
    registered = datasets.on_nodes(nodes)
    catalog = datasets.extended(catalog, registered) if registered else catalog
    device = device or ("cuda" if any(node.devices_of("cuda") or node.gpus_withheld for node in nodes) else "cpu")
    named = [tuple(sorted(Counter(one.name for one in node.devices_of(device)).items())) for node in nodes]
    counts = [sum(count for _, count in node) for node in named]
    described = [node for node in nodes if "fabrics" in node.inventory]  # others have not been reached yet
    fabrics = tuple(sorted({fabric for node in described for fabric in node.fabrics})) if described else None
    return Facts(catalog, device, _pool(counts), fabrics, tuple(node for node in named if node), _unfit(nodes))


def _unfit(nodes: Sequence[Node]) -> dict[str, str]:
    """Environment -> why the first of the nodes with GPUs cannot carry it, where none of them can."""
    told = [node.unfit for node in nodes if node.devices_of("cuda") or node.gpus_withheld]
    return {name: why for name, why in (told[0] if told else {}).items() if all(name in one for one in told)}


def _pool(counts: Sequence[int]) -> tuple[int, int]:
    """(nodes, devices on each) that take up most of nodes with so many devices; of equals the one of fewer nodes."""
    shapes = [(sum(1 for count in counts if count >= most), most) for most in Counter(counts) if most]
    return max(shapes, key=lambda shape: (shape[0] * shape[1], shape[1]), default=(0, 0))
