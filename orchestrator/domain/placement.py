"""Which devices an attempt holds. ``place`` is pure: plan and nodes in, placement or reason out."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from orchestrator.domain.plan import ITS_DEVICES, WHOLE_NODE, Needs

# A node with less room than this on the disk of its attempts gets none. A judgement: a job and its log take a few MB,
# one with profiles of a large model some tens.
LEAST_FREE_BYTES = 64 * 2**20


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


class Held:
    """What attempts hold: node -> devices. Owns who may join whom on a node."""

    def __init__(self, held: Mapping[str, Collection[str]] = MappingProxyType({})) -> None:
        self._devices = {node: set(devices) for node, devices in held.items()}
        self._closed = set(held)
        self._awaited: set[str] = set()

    def add(self, placement: Placement, exclusive: str) -> None:
        """Note what an attempt holds; ``exclusive`` is its plan's."""
        for share in placement.shares:
            self._devices.setdefault(share.node, set()).update(device.id for device in share.devices)
        if exclusive == WHOLE_NODE:
            self._closed.update(placement.nodes)

    def await_whole(self, needs: Needs, nodes: Sequence[Node]) -> None:
        """Let nobody join those on nodes that ``needs`` waits to have as a whole. A node whose devices are taken in
        turn would never be free."""
        if needs.exclusive == WHOLE_NODE:
            self._awaited.update(node.name for node in nodes if _fits(needs, node))

    def left(self, needs: Needs, node: Node) -> tuple[Device, ...]:
        """The devices of ``node`` that fit ``needs`` and can be had now."""
        taken = self._devices.get(node.name, ())
        may_join = needs.exclusive == ITS_DEVICES and node.name not in self._closed | self._awaited
        kinds = {device.kind for device in node.devices if device.id in taken}
        if taken and not (may_join and kinds <= {needs.device}):  # GPUs are driven by cores that CPU devices compute on
            return ()
        return tuple(device for device in _usable(needs, node) if device.id not in taken)


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
        return NotNow(_why_none_fits(needs, nodes))
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
        return NotNow(_why_none_free(needs, len(roomy), len(free)))
    chosen = free[: needs.nodes]
    return Placement(tuple(NodeShare(name, devices[: needs.devices_per_node]) for name, devices in chosen))


def _why_none_free(needs: Needs, fitting: int, free: int) -> str:
    missing = needs.nodes - free
    if needs.exclusive == ITS_DEVICES:
        return f"waits for {needs.devices_per_node} free device(s) on {missing} of {fitting} nodes"
    return f"waits for {missing} of {fitting} nodes to become free"


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


def _why_none_fits(needs: Needs, nodes: Sequence[Node]) -> str:
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
    return f"needs {wanted}; the cluster has {have}"


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
