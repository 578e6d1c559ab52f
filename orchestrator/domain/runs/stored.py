"""What the store answers with, beside experiments and runs: pages, changes of state, and what whole runs have found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from orchestrator.domain.runs.row import Row
from orchestrator.domain.runs.run import Experiment, Run
from orchestrator.domain.value.calibration import Calibration
from orchestrator.domain.value.measurement import Transfer
from orchestrator.domain.words.errors import Damaged

Item = TypeVar("Item")


@dataclass(frozen=True)
class Page(Generic[Item]):
    """A part of a list; ``next_cursor`` is opaque and None at the end. ``damaged`` are the rows of this part that are
    there and cannot be read."""

    items: Sequence[Item]
    next_cursor: str | None = None
    damaged: Sequence[Damaged] = ()


@dataclass(frozen=True)
class DamagedHold:
    """An attempt of a run that holds devices and cannot be read: all that is known of it. ``nodes`` are those that its
    placement names; ``cancel_requested``: somebody wants its processes ended."""

    attempt_id: str
    nodes: tuple[str, ...]
    cancel_requested: bool


@dataclass(frozen=True)
class OpenRuns:
    """What the reconciler sees to beside the queue."""

    runs: Sequence[Run]
    damaged: Sequence[DamagedHold] = ()


@dataclass(frozen=True)
class QueuedRun:
    """Of a queued run what its turn depends on. ``devices``: how many it takes."""

    id: str
    owner: str
    priority: int
    created_at: float
    devices: int


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
class StoredCell:
    """A cell of an experiment (without its ``run_counts``) with its runs, oldest first, as ``Store.runs`` has them.
    ``row``: as it was stored when the last of these ended, None where a run is left or another version made it."""

    experiment: Experiment
    runs: Sequence[Run]
    row: Row | None = None


@dataclass(frozen=True)
class EarlierRun:
    """What a completed run tells of those to come: how long it took, and how fast it trained where it may be
    believed."""

    duration_s: float | None
    throughput: float | None


@dataclass(frozen=True)
class StoredTransfer(Transfer):
    """What a netbench found, with where: ``nodes`` are sorted names. ``valid``: the run was."""

    experiment_id: str
    run_id: str
    created_at: float
    valid: bool
    topology: str
    fabric: str | None
    device: str
    nodes: tuple[str, ...]
    code_version: str


# Judgements. Beyond these two calibrations of one device differ by more than they usually do: clocks, power, cooling or
# neighbours have changed, or the library has.
CHANGED_RATIO = {"cuda": 0.03, "cpu": 0.10}


@dataclass(frozen=True)
class StoredCalibration(Calibration):
    """What a calibration found. ``previous_flops_per_s`` is what the valid one before it found for the same device and
    arithmetic, when it was stored; ``valid``: the run was."""

    experiment_id: str
    run_id: str
    created_at: float
    valid: bool
    previous_flops_per_s: float | None
    code_version: str

    @property
    def change_ratio(self) -> float | None:
        """How much faster (or, negative, slower) the device was found than by its valid calibration before."""
        return self.flops_per_s / self.previous_flops_per_s - 1.0 if self.previous_flops_per_s else None

    @property
    def changed(self) -> bool:
        """Whether the change is more than two calibrations of a device usually differ by (``CHANGED_RATIO``)."""
        return self.change_ratio is not None and abs(self.change_ratio) > CHANGED_RATIO.get(self.device_kind, 0.1)

    def to_job(self) -> dict[str, Any]:
        """The peak as a job tells it (``workers.trainer.protocol``: ``peaks``)."""
        return {"flops_per_s": self.flops_per_s, "run_id": self.run_id, "at": self.created_at}
