"""What the store answers with, beside experiments and runs: pages, changes of state, and what whole runs have found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from orchestrator.domain.calibration import Calibration
from orchestrator.domain.errors import Damaged
from orchestrator.domain.measurement import Transfer
from orchestrator.domain.run import Experiment, Run

Item = TypeVar("Item")


@dataclass(frozen=True)
class Page(Generic[Item]):
    """A part of a list; ``next_cursor`` is opaque and None at the end. ``damaged`` are the rows of this part that are
    there and cannot be read."""

    items: Sequence[Item]
    next_cursor: str | None = None
    damaged: Sequence[Damaged] = ()


@dataclass(frozen=True)
class Idempotency:
    """An ``Idempotency-Key`` of ``owner`` and a SHA-256 of the request it came with, its body above all."""

    owner: str
    key: str
    body_sha256: str


@dataclass(frozen=True)
class Change:
    """One change of state, numbered per store: what an experiment's event stream is made of."""

    number: int
    at: float
    experiment_id: str
    run_id: str | None
    state: str
    data: Mapping[str, Any]


@dataclass(frozen=True)
class Found:
    """An experiment or a run that a short text may stand for: enough of it to choose by. ``name``: the experiment's."""

    kind: Literal["experiment", "run"]
    id: str
    experiment_id: str
    name: str
    state: str
    created_at: float


@dataclass(frozen=True)
class Cell:
    """A cell of an experiment (without its ``run_counts``) with its runs, oldest first, as ``Store.runs`` has them."""

    experiment: Experiment
    runs: Sequence[Run]


@dataclass(frozen=True)
class EarlierRun:
    """What a completed run tells of those to come: how long it took, and how fast it trained where it may be
    believed."""

    duration_s: float | None
    throughput: float | None


@dataclass(frozen=True)
class StoredTransfer:
    """What a netbench found, with where: ``nodes`` are sorted names. ``valid``: the run was."""

    experiment_id: str
    run_id: str
    created_at: float
    valid: bool
    topology: str
    fabric: str | None
    device: str
    nodes: tuple[str, ...]
    transfer: Transfer
    code_version: str


@dataclass(frozen=True)
class StoredCalibration:
    """What a calibration found. ``previous_flops_per_s`` is what the valid one before it found for the same device and
    arithmetic, when it was stored; ``valid``: the run was."""

    experiment_id: str
    run_id: str
    created_at: float
    valid: bool
    calibration: Calibration
    previous_flops_per_s: float | None
    code_version: str

    def to_job(self) -> dict[str, Any]:
        """The peak as a job tells it (``workers.trainer.protocol``: ``peaks``)."""
        return {"flops_per_s": self.calibration.flops_per_s, "run_id": self.run_id, "at": self.created_at}
