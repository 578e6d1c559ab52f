"""Which devices an attempt holds. ``place`` is pure: plan and nodes in, placement or reason out."""

import math
import sys
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Any

from orchestrator.domain.asked.plan import ITS_DEVICES, WHOLE_NODE, Needs
from orchestrator.domain.value.health import DeviceState, Health
from orchestrator.domain.words.plain import Plain

# A node with less room than this on the disk of its attempts gets none. A judgement: a job and its log take a few MB,
# one with profiles of a large model some tens.
LEAST_FREE_BYTES = 64 * 2**20

# Since when something is taken: not at all; since this pass, later than all before; so that nobody waits for it.
FREE, JUST_NOW, NEVER = -math.inf, sys.float_info.max, math.inf


class NodeState(StrEnum):
    """Whether new runs may be placed on a node."""

    AVAILABLE = "available"
    DRAINING = "draining"
    QUARANTINED = "quarantined"
    SUSPECT = "suspect"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class Device(Plain):
    """A GPU (kind ``cuda``, id is its UUID) or a set of CPU cores (kind ``cpu``) on a node."""

    id: str
    kind: str
    name: str
    cores: tuple[int, ...] = ()
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Node:
    """A machine of the cluster as its agent describes it. ``inventory`` is that whole description; ``reason`` says why
    the node is suspect or unreachable. ``health``: of the GPUs that are not well."""

    name: str
    devices: tuple[Device, ...]
    state: NodeState = NodeState.AVAILABLE
    address: str = "127.0.0.1"
    inventory: Mapping[str, Any] = field(default_factory=dict, repr=False)
    reason: str | None = None
    health: Mapping[str, Health] = field(default_factory=dict)

    def of_state(self, state: DeviceState) -> Mapping[str, Health]:
        """The devices that are of one state, with the reasons."""
        return {device: found for device, found in self.health.items() if found.state is state}

    @property
    def fabrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Fabric -> {interface, address, speed_bits_per_s, source}: those that connect this node with others."""
        found: Mapping[str, Mapping[str, Any]] = self.inventory.get("fabrics") or {}
        return found

    @property
    def gpus_withheld(self) -> Mapping[str, str]:
        """GPU -> why it cannot be had now: others compute on it, or it is bad."""
        bad = {device: "; ".join(found.reasons) for device, found in self.of_state(DeviceState.BAD).items()}
        return {**bad, **(self.inventory.get("gpus_withheld") or {})}

    @property
    def unfit(self) -> Mapping[str, str]:
        """Environment -> why the node's driver or GPUs can carry no CUDA variant of it."""
        found: Mapping[str, str] = self.inventory.get("interpreters_unfit") or {}
        return found

    def lacks(self, interpreter: str | None) -> bool:
        """Whether it is known to have no such environment."""
        there = self.inventory.get("interpreters")
        return interpreter is not None and there is not None and interpreter not in there

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
        """Those of the kind that are not bad."""
        return self._offered.get(kind, ((), ()))[0]

    def are_alike(self, kind: str) -> Hashable:
        """Equal for nodes whose ``devices_of`` the kind are equal, as far as a run meets them."""
        return self._offered.get(kind, ((), ()))[1]

    @cached_property
    def _offered(self) -> Mapping[str, tuple[tuple[Device, ...], tuple[Hashable, ...]]]:
        """Once a node, which is the same in many passes: of each kind the devices and what they are alike by."""
        bad = self.of_state(DeviceState.BAD)
        found: dict[str, list[Device]] = {}
        for device in self.devices:
            if device.id not in bad:
                found.setdefault(device.kind, []).append(device)
        return {kind: (tuple(devices), tuple(map(kind_of, devices))) for kind, devices in found.items()}


@dataclass(frozen=True)
class NodeShare(Plain):
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
        return [share.to_json() for share in self.shares]

    @classmethod
    def from_json(cls, data: Sequence[Mapping[str, Any]]) -> "Placement":
        """Raises ValueError."""
        return cls(tuple(map(NodeShare.from_json, data)))


@dataclass(frozen=True)
class NotNow:
    """No placement, and why: shown to the person who waits."""

    reason: str


@dataclass(frozen=True)
class Offer:
    """What nodes have for ``needs``, whoever holds it: the same all through a pass.

    ``devices``: node -> those that fit, of the nodes that take runs and have room for their files, by name. ``equals``:
    these nodes by name, those together that have equal devices. ``refused``: why waiting for others is no help.
    ``slow``: those of the nodes that get nothing in this pass, and may be kept for whoever waits.
    """

    needs: Needs
    devices: Mapping[str, tuple[Device, ...]]
    equals: Sequence[Sequence[str]]
    refused: NotNow | None
    slow: frozenset[str] = frozenset()


@dataclass
class _Taken:
    """What is taken of one node, and when the newest who has it began: by device, by kind of device, as a whole."""

    devices: dict[str, float] = field(default_factory=dict)
    kinds: dict[str, float] = field(default_factory=dict)
    whole: float = FREE

    def add(self, devices: Iterable[Device], whole: bool, began: float) -> None:
        for device in devices:
            self.devices[device.id] = max(began, self.devices.get(device.id, FREE))
            self.kinds[device.kind] = max(began, self.kinds.get(device.kind, FREE))
        if whole:
            self.whole = max(began, self.whole)

    def barred_since(self, needs: Needs) -> float:
        """Since when ``needs`` can have nothing of the node. GPUs are driven by cores that CPU devices compute on, so
        that the two kinds are not shared out at once."""
        since = self.whole
        for kind, began in self.kinds.items():
            if began > since and (needs.exclusive == WHOLE_NODE or kind != needs.device):
                since = began
        return since


@dataclass(frozen=True)
class _Hold:
    """What a run has of one node."""

    run_id: str
    devices: tuple[Device, ...]
    whole: bool

    def is_in_the_way(self, needs: Needs, share: NodeShare) -> bool:
        """Whether ``needs`` cannot have ``share`` before this ends."""
        if self.whole or needs.exclusive == WHOLE_NODE:
            return True
        return any(device.kind != needs.device or device in share.devices for device in self.devices)


@dataclass(frozen=True)
class Kept:
    """What is kept for a run that waits, and the runs that have to end before it can have that, but for guests."""

    shares: tuple[NodeShare, ...]
    awaited: tuple[str, ...]


class _Open:
    """The nodes of an offer of which something may be left, so that those of which nothing is are passed over in no
    time: what is taken is not given back while this lives."""

    def __init__(self, equals: Sequence[Sequence[str]]) -> None:
        self._equals = equals
        # Of each set of equals: place -> the first one from there on that is open, or a step towards it.
        self._next = [list(range(len(alike) + 1)) for alike in equals]

    def in_turn(self, shift: int) -> Iterator[tuple[int, int, str]]:
        """(set, place, node), by name, equal ones together, each set of equals from another one on with each shift."""
        for number, alike in enumerate(self._equals):
            first = shift % len(alike)
            for begin, end in ((first, len(alike)), (0, first)):
                at = self._from(number, begin)
                while at < end:
                    yield number, at, alike[at]
                    at = self._from(number, at + 1)

    def close(self, number: int, at: int) -> None:
        self._next[number][at] = at + 1

    def _from(self, number: int, at: int) -> int:
        following = self._next[number]
        while following[at] != at:
            following[at] = following[following[at]]  # half of the way is saved to whoever comes next
            at = following[at]
        return at


class Held:
    """What attempts hold, and what is kept for runs that wait: in one pass, so that it only grows. Owns who may join
    whom on a node. ``closed`` are nodes that somebody has as a whole, nobody knows until when.

    What is kept for a run may be lent to a guest, who ends before that run could begin anyway."""

    def __init__(self, closed: Iterable[str] = ()) -> None:
        # By identity, which the offer keeps as long as it is here; and whether for guests.
        self._open: dict[tuple[int, bool], tuple[Offer, _Open]] = {}
        self._had = {node: _Taken(whole=NEVER) for node in closed}
        self._guests: dict[str, _Taken] = {}
        self._kept: dict[str, dict[str, _Taken]] = {}  # by node, and by the run that it is kept for
        self._lent_s: dict[str, float] = {}
        self.longest_lent_s = 0.0
        self._holds: dict[str, list[_Hold]] = {}
        self.all_kept: dict[str, Kept] = {}  # by the run that it is kept for

    def add(
        self,
        placement: Placement,
        exclusive: str,
        began: float = JUST_NOW,
        *,
        run_id: str = "",
        is_guest: bool = False,
    ) -> None:
        """Note what an attempt of ``run_id`` holds; ``exclusive`` is its plan's, ``began`` when it was made."""
        for share in placement.shares:
            taken = self._guests if is_guest else self._had
            taken.setdefault(share.node, _Taken()).add(share.devices, exclusive == WHOLE_NODE, began)
            if not is_guest:
                self._holds.setdefault(share.node, []).append(_Hold(run_id, share.devices, exclusive == WHOLE_NODE))

    def keep(self, offer: Offer, run_id: str) -> None:
        """Keep for ``run_id``, which cannot be placed, what it waits for: whole nodes or devices, as many as it needs.

        Chosen is what is free, then what those have who have had it longest. Nobody joins them there, so whoever is
        waited for was there when this began, and the wait is no longer than what the longest of them had left to run.
        The choice needs no memory: what is kept once only grows older, or becomes free, and stays the first choice.
        What a guest has counts as free: it was, or as good as, when it was lent.

        Nothing is kept where that would not be enough, of nodes that take runs and have room for their files, and
        without what is kept for others: whom waiting alone does not help must not make others wait.
        """
        if offer.refused:
            return
        needs, soonest = offer.needs, []
        for node in offer.devices:
            since = self._since(offer, node)[: needs.devices_per_node]
            soonest.append((since[-1][0], NodeShare(node, tuple(device for _, device in since))))
        best = sorted(soonest, key=_first)[: needs.nodes]
        if best[-1][0] == NEVER:
            return
        for _, share in best:
            kept = self._kept.setdefault(share.node, {}).setdefault(run_id, _Taken())
            kept.add(share.devices, needs.exclusive == WHOLE_NODE, NEVER)
        shares = tuple(share for _, share in best)
        holds = [one for share in shares for one in self._holds.get(share.node, ()) if one.is_in_the_way(needs, share)]
        self.all_kept[run_id] = Kept(shares, tuple(dict.fromkeys(one.run_id for one in holds)))

    def lend(self, run_id: str, for_s: float) -> None:
        """Let those have what is kept for ``run_id`` who end within ``for_s`` seconds."""
        self._lent_s[run_id] = for_s
        self.longest_lent_s = max(for_s, self.longest_lent_s)

    def lender(self, placement: Placement) -> str | None:
        """A run for which something of ``placement`` is kept."""
        for share in placement.shares:
            for run_id, kept in self._kept.get(share.node, {}).items():
                if kept.whole > FREE or any(device.id in kept.devices for device in share.devices):
                    return run_id
        return None

    def not_full(self, offer: Offer, is_guest: bool) -> _Open:
        """The nodes on offer of which something may be left."""
        return self._open.setdefault((id(offer), is_guest), (offer, _Open(offer.equals)))[1]

    def left(self, offer: Offer, node: str, ends_s: float = NEVER) -> tuple[Device, ...]:
        """The devices of ``node`` that can be had now by who ends within ``ends_s`` seconds."""
        left = self._held_by_nobody(offer, node)
        for run_id, kept in self._kept.get(node, {}).items():
            if self._lent_s.get(run_id, 0.0) <= ends_s:
                left = _beside(kept, offer.needs, left)
        return left

    def kept(self, offer: Offer, node: str) -> Collection[str]:
        """The runs for which something of ``node`` is kept that could be had otherwise."""
        runs = self._kept.get(node, {})
        return runs if runs and len(self._held_by_nobody(offer, node)) >= offer.needs.devices_per_node else ()

    def _held_by_nobody(self, offer: Offer, node: str) -> tuple[Device, ...]:
        not_had = _beside(self._had.get(node), offer.needs, offer.devices[node])
        return _beside(self._guests.get(node), offer.needs, not_had)

    def _since(self, offer: Offer, node: str) -> list[tuple[float, Device]]:
        """(since when it cannot be had, device) of the node, the longest first."""
        taken = [one for one in (self._had.get(node), *self._kept.get(node, {}).values()) if one]
        barred = max((one.barred_since(offer.needs) for one in taken), default=FREE)
        if offer.needs.exclusive == WHOLE_NODE:
            return [(barred, device) for device in offer.devices[node]]
        since = []
        for device in offer.devices[node]:
            since.append((max([barred, *(one.devices.get(device.id, FREE) for one in taken)]), device))
        return sorted(since, key=_first)


def _first(pair: tuple[float, object]) -> float:
    return pair[0]


def _beside(taken: _Taken | None, needs: Needs, devices: tuple[Device, ...]) -> tuple[Device, ...]:
    if taken is None:
        return devices
    if taken.barred_since(needs) > FREE:
        return ()
    return tuple(device for device in devices if device.id not in taken.devices)


def offer(needs: Needs, nodes: Sequence[Node], slow: Collection[str] = ()) -> Offer:
    """What ``nodes``, all that are known, in any order, have for ``needs``. ``slow``: those that are suspect only
    because their agents have not answered in time just now, which is mostly over in the next pass."""
    usable = {node.name: _usable(needs, node) for node in nodes}
    fitting = [node for node in nodes if len(usable[node.name]) >= needs.devices_per_node]
    having = [node for node in fitting if not node.lacks(needs.interpreter)]
    if len(having) >= needs.nodes:  # else the run ends where it begins, and says what to install
        fitting = having
    ready = [node for node in fitting if node.state is NodeState.AVAILABLE or node.name in slow]
    roomy = sorted((node for node in ready if node.has_room), key=lambda node: node.name)
    refused = None
    if len(fitting) < needs.nodes:
        refused = NotNow(_why_too_few_fit(needs, nodes, len(fitting)))
    elif len(ready) < needs.nodes:
        states = ", ".join(f"{node.name} is {node.state}" for node in fitting if node.state is not NodeState.AVAILABLE)
        refused = NotNow(f"waits for nodes: {states}")
    elif len(roomy) < needs.nodes:
        refused = NotNow(_why_no_room([node for node in ready if not node.has_room]))
    equals: dict[Hashable, list[str]] = {}
    for node in roomy:
        whole = usable[node.name] is node.devices_of(needs.device)
        kinds = node.are_alike(needs.device) if whole else tuple(map(kind_of, usable[node.name]))
        equals.setdefault(kinds, []).append(node.name)
    devices = {node.name: usable[node.name] for node in roomy}
    return Offer(needs, devices, list(equals.values()), refused, frozenset(devices).intersection(slow))


def without(offer: Offer, avoided: Collection[str]) -> Offer:
    """The same without the GPUs ``avoided``, by id; as it is where the others do not suffice."""
    if offer.refused or not avoided or offer.needs.device != "cuda":
        return offer
    left = {node: tuple(one for one in found if one.id not in avoided) for node, found in offer.devices.items()}
    devices = {node: found for node, found in left.items() if len(found) >= offer.needs.devices_per_node}
    if len(devices) < offer.needs.nodes:
        return offer
    equals = [[node for node in alike if node in devices] for alike in offer.equals]
    return replace(offer, devices=devices, equals=[alike for alike in equals if alike])


def place(offer: Offer, held: Held, block: int = 1, tries: int = 0, ends_s: float = NEVER) -> Placement | NotNow:
    """Choose devices of what is on offer: all of them at once, or none.

    Args:
        offer: what the nodes have for the plan that is to be run.
        held: what other attempts hold, and what is kept for others.
        block: the repetition that is to be placed, counted from 1.
        tries: how often it was begun before.
        ends_s: seconds within which it ends, where it may be a guest.

    A node that is running anything gets nothing more, as co-runners spoil a measurement, unless all that it runs and
    what is to be placed ask for their devices alone (``Needs.exclusive``). Nodes are taken in the order of
    their names, devices in the order of the inventory. Among equal nodes each block begins with another one, so that
    the repetitions of a cell meet all of them, and the cells of a block the same ones where these are free. So it is
    with the GPUs of a node; what has failed on some is tried on others, so that a bad one costs attempts and no run.
    """
    if offer.refused:
        return offer.refused
    needs, shares = offer.needs, []
    is_guest = ends_s < NEVER
    nodes = held.not_full(offer, is_guest)
    for number, at, node in nodes.in_turn((block - 1) * needs.nodes):
        devices = held.left(offer, node, ends_s) if node not in offer.slow else ()
        if len(devices) >= needs.devices_per_node:
            devices = _gpus_in_turn(offer, node, devices, block - 1 + tries)
            shares.append(NodeShare(node, devices[: needs.devices_per_node]))
            if len(shares) == needs.nodes:
                return Placement(tuple(shares))
        elif not is_guest or len(held.left(offer, node, 0.0)) < needs.devices_per_node:
            nodes.close(number, at)
    return NotNow(_why_none_free(offer, held, len(shares)))


def _why_none_free(offer: Offer, held: Held, free: int) -> str:
    needs, fitting = offer.needs, len(offer.devices)
    missing = needs.nodes - free
    if needs.exclusive == ITS_DEVICES:
        reason = f"waits for {needs.devices_per_node} free device(s) on {missing} of {fitting} nodes"
    else:
        reason = f"waits for {missing} of {fitting} nodes to become free"
    kept = [set(runs) for node in offer.devices if (runs := held.kept(offer, node))]
    if kept:
        first = ", ".join(sorted(set().union(*kept)))
        reason += f"; what is free on {len(kept)} of them is kept for {first}, which came first"
    if offer.slow:
        reason += f"; {', '.join(sorted(offer.slow))} did not answer in time"
    return reason


def _gpus_in_turn(offer: Offer, node: str, free: tuple[Device, ...], turn: int) -> tuple[Device, ...]:
    """The ``free`` devices of a node; its GPUs, which are equal among themselves, from others on with each turn. Those
    of a gang stay neighbours. CPU devices are made of cores and are in nobody's way."""
    every = offer.devices[node]
    if offer.needs.device != "cuda":
        return free
    first = turn * offer.needs.devices_per_node % len(every)
    places = {device.id: (place - first) % len(every) for place, device in enumerate(every)}
    return tuple(sorted(free, key=lambda device: places[device.id]))


def kind_of(device: Device) -> Hashable:
    """Equal for devices that are equal, as far as a run meets them."""
    return (device.name, len(device.cores), device.memory_bytes)


def _usable(needs: Needs, node: Node) -> tuple[Device, ...]:
    """The devices of ``node`` that fit; none where the node itself does not."""
    if needs.nodes > 1 and needs.fabric not in node.fabrics:
        return ()
    if needs.node_names and node.name not in needs.node_names:
        return ()
    if needs.dataset is not None and not node.has_dataset(*needs.dataset):
        return ()
    if needs.device == "cuda" and needs.interpreter in node.unfit:
        return ()
    devices = node.devices_of(needs.device)
    if needs.memory_bytes is not None:
        devices = tuple(device for device in devices if (device.memory_bytes or 0) >= needs.memory_bytes)
    if needs.device_ids:
        devices = tuple(device for device in devices if device.id in needs.device_ids)
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
    if needs.device_ids:
        wanted += f", of {', '.join(needs.device_ids)}"
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
    if why := node.unfit.get(needs.interpreter or "") if needs.device == "cuda" else None:
        count += f", which cannot carry {needs.interpreter} ({why})"
    return count if needs.nodes == 1 else f"{count} ({', '.join(node.fabrics) or 'no fabric'})"
