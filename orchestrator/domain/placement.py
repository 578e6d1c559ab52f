"""Which devices an attempt holds. ``place`` is pure: plan and nodes in, placement or reason out."""

import math
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orchestrator.domain.plan import ITS_DEVICES, WHOLE_NODE, Needs

# A node with less room than this on the disk of its attempts gets none. A judgement: a job and its log take a few MB,
# one with profiles of a large model some tens.
LEAST_FREE_BYTES = 64 * 2**20

JUST_NOW = sys.float_info.max  # later than whatever has begun: what is placed in this pass


class NodeState(StrEnum):
    """Whether new runs may be placed on a node."""

    AVAILABLE = "available"
    DRAINING = "draining"
    QUARANTINED = "quarantined"
    SUSPECT = "suspect"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class Device:
    """A GPU (kind ``cuda``, id is its UUID) or a set of CPU cores (kind ``cpu``) on a node."""

    id: str
    kind: str
    name: str
    cores: tuple[int, ...] = ()
    memory_bytes: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "cores": list(self.cores),
            "memory_bytes": self.memory_bytes,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Device":
        return cls(
            id=data["id"],
            kind=data["kind"],
            name=data["name"],
            cores=tuple(data.get("cores") or ()),
            memory_bytes=data.get("memory_bytes"),
        )


@dataclass(frozen=True)
class Node:
    """A machine of the cluster as its agent describes it. ``inventory`` is that whole description; ``reason`` says why
    the node is suspect or unreachable."""

    name: str
    devices: tuple[Device, ...]
    state: NodeState = NodeState.AVAILABLE
    address: str = "127.0.0.1"
    inventory: Mapping[str, Any] = field(default_factory=dict, repr=False)
    reason: str | None = None

    @property
    def fabrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Fabric -> {interface, address, speed_bits_per_s, source}: those that connect this node with others."""
        found: Mapping[str, Mapping[str, Any]] = self.inventory.get("fabrics") or {}
        return found

    @property
    def gpus_withheld(self) -> Mapping[str, str]:
        """GPU -> why it cannot be had now: others compute on it, or the driver has lost it."""
        found: Mapping[str, str] = self.inventory.get("gpus_withheld") or {}
        return found

    @property
    def has_room(self) -> bool:
        """Whether an attempt's files find room; also where the inventory does not tell."""
        free = self.inventory.get("disk_free_bytes")
        return free is None or free >= LEAST_FREE_BYTES

    def has_dataset(self, name: str, sha256: str) -> bool:
        """Whether these files are registered there by that name."""
        found = (self.inventory.get("datasets") or {}).get(name) or {}
        return bool(found.get("sha256") == sha256)

    def devices_of(self, kind: str) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.kind == kind)


@dataclass(frozen=True)
class NodeShare:
    """The devices of one node that an attempt holds."""

    node: str
    devices: tuple[Device, ...]


@dataclass(frozen=True)
class Placement:
    """The devices of the nodes that an attempt holds, in rank order."""

    shares: tuple[NodeShare, ...]

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(share.node for share in self.shares)

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {"node": share.node, "devices": [device.to_json() for device in share.devices]} for share in self.shares
        ]

    @classmethod
    def from_json(cls, data: Sequence[Mapping[str, Any]]) -> "Placement":
        return cls(
            tuple(
                NodeShare(item["node"], tuple(Device.from_json(device) for device in item["devices"])) for item in data
            )
        )


@dataclass(frozen=True)
class NotNow:
    """No placement, and why: shown to the person who waits."""

    reason: str


@dataclass(frozen=True)
class _Hold:
    """Devices of one node that one run has since ``began``; ``whole``: and that nobody else has any beside it.
    ``kept_for``: they are not had yet, but kept for that run."""

    devices: frozenset[str]
    kinds: frozenset[str]
    whole: bool
    began: float
    kept_for: str | None = None

    def bars(self, needs: Needs, device: Device) -> bool:
        """Whether what asks for ``needs`` cannot have ``device`` beside it. GPUs are driven by cores that CPU devices
        compute on, so that the two kinds are not shared out at once."""
        if self.whole or needs.exclusive == WHOLE_NODE or device.id in self.devices:
            return True
        return not self.kinds <= {needs.device}


class Held:
    """What attempts hold, and what is kept for runs that wait. Owns who may join whom on a node. ``closed`` are nodes
    that somebody has as a whole, nobody knows until when."""

    def __init__(self, closed: Iterable[str] = ()) -> None:
        self._holds = {node: [_Hold(frozenset(), frozenset(), True, math.inf)] for node in closed}

    def add(self, placement: Placement, exclusive: str, began: float = JUST_NOW, kept_for: str | None = None) -> None:
        """Note what an attempt holds; ``exclusive`` is its plan's, ``began`` when it was made."""
        for share in placement.shares:
            devices = frozenset(device.id for device in share.devices)
            kinds = frozenset(device.kind for device in share.devices)
            hold = _Hold(devices, kinds, exclusive == WHOLE_NODE, began, kept_for)
            self._holds.setdefault(share.node, []).append(hold)

    def keep(self, needs: Needs, nodes: Sequence[Node], run_id: str) -> None:
        """Keep for ``run_id``, which cannot be placed, what it waits for: whole nodes or devices, as many as it needs.

        Chosen is what is free, then what those have who have had it longest. Nobody joins them there, so whoever is
        waited for was there when this began, and the wait is no longer than what the longest of them had left to run.
        The choice needs no memory: what is kept once only grows older, or becomes free, and stays the first choice.

        Nothing is kept where that would not be enough, of nodes that take runs and have room for their files, and
        without what is kept for others: whom waiting alone does not help must not make others wait.
        """
        soonest = []
        for node in sorted(_roomy(needs, nodes), key=lambda node: node.name):
            since = self._since(needs, node)
            devices = sorted(since, key=lambda device: since[device])[: needs.devices_per_node]
            soonest.append((since[devices[-1]], NodeShare(node.name, tuple(devices))))
        chosen = sorted(soonest, key=lambda one: one[0])[: needs.nodes]
        if len(chosen) == needs.nodes and chosen[-1][0] < math.inf:
            self.add(Placement(tuple(share for _, share in chosen)), needs.exclusive, math.inf, run_id)

    def left(self, needs: Needs, node: Node) -> tuple[Device, ...]:
        """The devices of ``node`` that fit ``needs`` and can be had now."""
        return _beside(self._holds.get(node.name, ()), needs, node)

    def kept(self, needs: Needs, node: Node) -> set[str]:
        """The runs for which devices of ``node`` are kept that ``needs`` could have otherwise."""
        holds = self._holds.get(node.name, ())
        had = [hold for hold in holds if hold.kept_for is None]
        if len(_beside(had, needs, node)) < needs.devices_per_node:
            return set()
        return {hold.kept_for for hold in holds if hold.kept_for is not None}

    def _since(self, needs: Needs, node: Node) -> dict[Device, float]:
        """Since when each device that fits ``needs`` cannot be had by it; minus infinity: it can."""
        holds = self._holds.get(node.name, ())
        return {
            device: max((hold.began for hold in holds if hold.bars(needs, device)), default=-math.inf)
            for device in _usable(needs, node)
        }


def _beside(holds: Iterable[_Hold], needs: Needs, node: Node) -> tuple[Device, ...]:
    return tuple(device for device in _usable(needs, node) if not any(hold.bars(needs, device) for hold in holds))


def place(needs: Needs, nodes: Sequence[Node], held: Held, block: int = 1) -> Placement | NotNow:
    """Choose the devices for ``needs``: all of them at once, or none.

    Args:
        needs: what the plan that is to be run asks of them.
        nodes: all nodes known, in any order.
        held: what other attempts hold.
        block: the repetition that is to be placed, counted from 1.

    A node that is running anything gets nothing more, as co-runners spoil a measurement, unless all that it runs and
    what is to be placed ask for their devices alone (``Needs.exclusive``). Nodes are taken in the order of
    their names, devices in the order of the inventory. Among equal nodes each block begins with another one, so that
    the repetitions of a cell meet all of them, and the cells of a block the same ones where these are free.
    """
    fitting = [node for node in nodes if _fits(needs, node)]
    if len(fitting) < needs.nodes:
        return NotNow(_why_too_few_fit(needs, nodes, len(fitting)))
    ready = [node for node in fitting if node.state is NodeState.AVAILABLE]
    if len(ready) < needs.nodes:
        states = ", ".join(f"{node.name} is {node.state}" for node in fitting if node.state is not NodeState.AVAILABLE)
        return NotNow(f"waits for nodes: {states}")
    roomy = [node for node in ready if node.has_room]
    if len(roomy) < needs.nodes:
        return NotNow(_why_no_room([node for node in ready if not node.has_room]))
    left = {node.name: held.left(needs, node) for node in _in_turn(needs, roomy, block)}
    free = [(name, devices) for name, devices in left.items() if len(devices) >= needs.devices_per_node]
    if len(free) < needs.nodes:
        return NotNow(_why_none_free(needs, roomy, len(free), held))
    chosen = free[: needs.nodes]
    return Placement(tuple(NodeShare(name, devices[: needs.devices_per_node]) for name, devices in chosen))


def _why_none_free(needs: Needs, roomy: Sequence[Node], free: int, held: Held) -> str:
    missing = needs.nodes - free
    if needs.exclusive == ITS_DEVICES:
        reason = f"waits for {needs.devices_per_node} free device(s) on {missing} of {len(roomy)} nodes"
    else:
        reason = f"waits for {missing} of {len(roomy)} nodes to become free"
    kept = [runs for node in roomy if (runs := held.kept(needs, node))]
    if kept:
        reason += f"; {len(kept)} kept for {', '.join(sorted(set().union(*kept)))}, which came first"
    return reason


def _roomy(needs: Needs, nodes: Sequence[Node]) -> list[Node]:
    """Those that have what is needed, take runs, and have room for their files."""
    return [node for node in nodes if node.state is NodeState.AVAILABLE and node.has_room and _fits(needs, node)]


def _in_turn(needs: Needs, nodes: Sequence[Node], block: int) -> list[Node]:
    """``nodes`` by name, equal ones together, each set of equals from another one on with each block."""
    equals: dict[Hashable, list[Node]] = {}
    for node in sorted(nodes, key=lambda node: node.name):
        equals.setdefault(_kind(needs, node), []).append(node)
    turned = []
    for alike in equals.values():
        first = (block - 1) * needs.nodes % len(alike)
        turned += alike[first:] + alike[:first]
    return turned


def _kind(needs: Needs, node: Node) -> Hashable:
    """Equal for nodes whose devices are equal, as far as a run of ``needs`` meets them."""
    return tuple((device.name, len(device.cores), device.memory_bytes) for device in _usable(needs, node))


def _fits(needs: Needs, node: Node) -> bool:
    if needs.nodes > 1 and needs.fabric not in node.fabrics:
        return False
    if needs.node_names and node.name not in needs.node_names:
        return False
    if needs.dataset is not None and not node.has_dataset(*needs.dataset):
        return False
    return len(_usable(needs, node)) >= needs.devices_per_node


def _usable(needs: Needs, node: Node) -> tuple[Device, ...]:
    devices = node.devices_of(needs.device)
    if needs.memory_bytes is not None:
        devices = tuple(device for device in devices if (device.memory_bytes or 0) >= needs.memory_bytes)
    if needs.gpu_model is None:
        return devices
    return tuple(device for device in devices if is_of_model(device.name, needs.gpu_model))


def is_of_model(name: str, gpu_model: str) -> bool:
    """Whether a device of that name is what ``nodes.gpu_model`` asks for."""
    return gpu_model.lower() in name.lower()


def _why_too_few_fit(needs: Needs, nodes: Sequence[Node], fitting: int) -> str:
    wanted = f"{needs.nodes} node(s) with {needs.devices_per_node} {needs.device} device(s)"
    if needs.gpu_model:
        wanted += f" of model {needs.gpu_model}"
    if needs.memory_bytes:
        wanted += f" that have {needs.memory_bytes // 2**20} MiB each"
    if needs.node_names:
        wanted += f" among {', '.join(needs.node_names)}"
    if needs.dataset:
        wanted += f" that have the dataset {needs.dataset[0]} ({needs.dataset[1][:12]}…; tbd datasets register)"
    if needs.nodes > 1:
        wanted += f" connected by {needs.fabric}"
    have = ", ".join(_offer(needs, node) for node in nodes) or "no nodes"
    there = f"; there {'is' if fitting == 1 else 'are'} {fitting}" if fitting else ""
    return f"needs {wanted}{there}; the cluster has {have}"


def _why_no_room(nodes: Sequence[Node]) -> str:
    """In whole MiB: the text is stored whenever it changes."""
    full = ", ".join(
        f"node {node.name} has {node.inventory['disk_free_bytes'] // 2**20} MiB free"
        f" in {node.inventory.get('attempts_folder') or 'the folder of its attempts'}"
        for node in nodes
    )
    return f"waits for room on disk: {full}, and {LEAST_FREE_BYTES // 2**20} MiB are needed; remove files there"


def _offer(needs: Needs, node: Node) -> str:
    if node.state is NodeState.UNREACHABLE and not node.devices:
        return f"{node.name}, which has not answered yet"
    count = f"{node.name}: {len(node.devices_of(needs.device))}"
    if needs.device == "cuda" and node.gpus_withheld:
        count += f" and {len(node.gpus_withheld)} withheld ({'; '.join(node.gpus_withheld.values())})"
    return count if needs.nodes == 1 else f"{count} ({', '.join(node.fabrics) or 'no fabric'})"
