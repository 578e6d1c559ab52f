"""A plan: one cell of the grid and one repetition, with nothing left open."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from orchestrator.domain.asked.topology import Topology
from workers.trainer.protocol import EXCHANGE_TIMEOUT_S, usual_place, usual_warm_up_s

# Fields of a plan that say how long and when, not what: never part of a cell's identity.
_NOT_OF_THE_CELL = ("repetition",)


# What an attempt has for itself: the node, or no more than its devices.
WHOLE_NODE, ITS_DEVICES = "node", "device"

# What a switch is that a plan does not name.
OFF = False

# What a pin names: the side of the confirmation; the hash of the interpreter's environment; a variable that an agent
# recorded, None: it is not set; the commit of the folder of TBD_SUITE_PATH that the model is from.
SIDE, DEFINITION, VARIABLE, SUITE = "side", "definition", "variable:", "suite"

# Fields that plans have not always had. Without a value they are left out, so that plans keep their identity.
_LATER = {
    "exchange_timeout_s": EXCHANGE_TIMEOUT_S,
    "memory_limit_bytes": None,
    "search": False,
    "exclusive": WHOLE_NODE,
    "implied": (),
    "data_sha256": None,
    "target": None,
    "evaluate_every": None,
    "max_epochs": None,
    "device_ids": (),
    "pins": (),
}

# Fields that JSON has in another form.
_WRITTEN_ANEW = ("options", "topology", "profile", "node_names", "implied", "device_ids", "pins")


@dataclass(frozen=True)
class Needs:
    """What a plan asks of nodes: all that its placement depends on. ``dataset``: name and digest of one that has to be
    registered on them."""

    nodes: int
    devices_per_node: int
    device: str
    gpu_model: str | None
    node_names: tuple[str, ...]
    fabric: str | None
    memory_bytes: int | None = None
    exclusive: str = WHOLE_NODE
    dataset: tuple[str, str] | None = None
    device_ids: tuple[str, ...] = ()
    interpreter: str | None = None

    @cached_property
    def key(self) -> str:
        """Equal for equal needs, on every machine and in every version of Python."""
        asked = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.memory_bytes is None:
            del asked["memory_bytes"]
        if self.exclusive == WHOLE_NODE:
            del asked["exclusive"]
        if self.dataset is None:
            del asked["dataset"]
        if not self.device_ids:
            del asked["device_ids"]
        if self.interpreter is None:
            del asked["interpreter"]
        return _digest(asked)


@dataclass(frozen=True)
class Plan:
    """What one run carries out. Equal plans of an experiment run once.

    ``options``: those of the model, the switches of the framework that are on, and those of the strategy that were
    named. They are sorted (name, value) pairs, ``profile`` and ``node_names`` sorted names, so that equal plans are
    equal and hash alike.
    ``fabric`` is None where one node takes part, ``global_batch_size`` is always given.
    ``memory_limit_bytes`` is of one CPU device; ``search``: it is a try for the largest batch, no repetition of a cell.
    ``exclusive`` is ``node`` (nothing else of tbd runs on its nodes meanwhile) or ``device``. ``implied``: those of the
    ``options`` that go without saying: at a default that was declared when plans without it had been stored.
    ``data_sha256``: which files are meant, where ``data`` was registered on nodes.
    ``target``, ``evaluate_every``, ``max_epochs``: of mode convergence, see ``ExperimentSpec``.
    ``device_ids``: the only devices that it may have. ``pins``: what a confirmation fixes of its subject (``PINS``), as
    sorted (name, value) pairs; its runs belong to no series.
    ``data_on``: where synthetic batches lie; not given, the usual place, which is no part of the identity.
    ``warm_up_s``: likewise.
    """

    model: str
    options: tuple[tuple[str, Any], ...]
    framework: str
    strategy: str
    interpreter: str
    topology: Topology
    fabric: str | None
    device: str
    precision: str
    per_device_batch_size: int
    global_batch_size: int
    data: str
    size: str
    seed: int
    mode: str = "throughput"
    gpu_model: str | None = None
    node_names: tuple[str, ...] = ()
    placement: str = "any"
    profile: tuple[str, ...] = ()
    max_steps: int | None = None
    min_measure_s: float | None = None
    max_measure_s: float | None = None
    timeout_s: float = 3600.0
    exchange_timeout_s: float = EXCHANGE_TIMEOUT_S
    memory_limit_bytes: int | None = None
    search: bool = False
    exclusive: str = WHOLE_NODE
    implied: tuple[str, ...] = ()
    data_sha256: str | None = None
    data_on: str = ""
    warm_up_s: float | None = None
    target: float | None = None
    evaluate_every: int | None = None
    max_epochs: float | None = None
    device_ids: tuple[str, ...] = ()
    pins: tuple[tuple[str, str | None], ...] = ()
    repetition: int = 1

    def __post_init__(self) -> None:
        if not self.data_on:
            object.__setattr__(self, "data_on", usual_place(self.device))
        if self.warm_up_s is None:
            object.__setattr__(self, "warm_up_s", usual_warm_up_s(self.device, self.mode))

    def option(self, name: str) -> Any:
        """The value of an option. A switch that is off is not noted: plans keep the identity that they had before
        there was such a switch."""
        return dict(self.options).get(name, OFF)

    def told(self, name: str) -> Any:
        """The value of a field as JSON has it."""
        value = getattr(self, name)
        if name in ("options", "pins"):
            return dict(value)
        if name == "topology":
            return str(value)
        return list(value) if isinstance(value, tuple) else value

    @property
    def nodes(self) -> int:
        return self.topology.nodes

    @property
    def devices_per_node(self) -> int:
        return self.topology.devices_per_node

    @property
    def world_size(self) -> int:
        return self.topology.world_size

    @cached_property
    def needs(self) -> Needs:
        """What it asks of nodes; the fabric only where several take part."""
        fabric = self.fabric if self.nodes > 1 else None
        asked = (self.device, self.gpu_model, self.node_names, fabric, self.memory_limit_bytes, self.exclusive)
        dataset = (self.data, self.data_sha256) if self.data_sha256 is not None else None
        return Needs(
            self.nodes,
            self.devices_per_node,
            *asked,
            dataset=dataset,
            device_ids=self.device_ids,
            interpreter=self.interpreter,
        )

    @cached_property
    def key(self) -> str:
        """Identity of the plan: equal for equal plans, on every machine and in every version of Python."""
        return _digest(self.identity())

    @cached_property
    def cell_key(self) -> str:
        """Identity of the cell that the plan repeats."""
        return _digest({name: value for name, value in self.identity().items() if name not in _NOT_OF_THE_CELL})

    def repeated(self, repetition: int) -> "Plan":
        """The same cell, another repetition."""
        other = replace(self, repetition=repetition)
        other.__dict__["cell_key"] = self.cell_key  # what a cell is does not depend on it, and it is dear to find
        return other

    def to_json(self) -> dict[str, Any]:
        # Not dataclasses.asdict: it copies deeply, which made it the dearest part of accepting an experiment.
        data = {name: getattr(self, name) for name in self.__dataclass_fields__}
        for name, default in _LATER.items():
            if data[name] == default:
                del data[name]
        if self.data_on == usual_place(self.device):
            del data["data_on"]
        if self.warm_up_s == usual_warm_up_s(self.device, self.mode):
            del data["warm_up_s"]
        return data | {name: self.told(name) for name in _WRITTEN_ANEW if name in data}

    def identity(self) -> dict[str, Any]:
        """Its JSON without what goes without saying: equal for equal plans, whenever they were made."""
        data = self.to_json()
        for name in data.pop("implied", ()):
            data["options"].pop(name, None)
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Plan":
        fields = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        if "topology" in fields:
            fields["topology"] = Topology.parse(fields["topology"])
        fields["options"] = tuple(sorted(data["options"].items()))
        fields["pins"] = tuple(sorted((data.get("pins") or {}).items()))
        for name in ("profile", "node_names", "implied", "device_ids"):
            fields[name] = tuple(sorted(data.get(name) or ()))
        return cls(**fields)


def _digest(data: Mapping[str, Any]) -> str:
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
