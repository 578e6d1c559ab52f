"""What the profiling phases of a run have found: memory by class, kernels, layers. Stored apart from the analysis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from orchestrator.domain.words.plain import Plain

# TBD's classes of memory (Zhu et al., IISWC 2018, section 3.4.3), in the paper's order.
PAPER_CLASSES = ("weights", "weight_gradients", "feature_maps", "workspace", "dynamic")

KERNEL_KINDS = (
    "convolution",
    "matrix product",
    "normalisation",
    "element-wise",
    "memory",
    "communication",
    "other",
)

# Why ``LayerTimes.exposed_exchange_s`` is None where the trainer has not said.
UNTOLD_EXPOSURE = "its trainer is of a version of tbd that did not tell how much of the exchange is exposed"

# A kind and what names of its kernels contain, a regular expression; the first that matches counts.
Kinds = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class KernelKinds:
    """What kind of work a kernel does, by its name. ``gpu``: kernels of the vendor's libraries, which come before
    those of the framework; ``frameworks``: by the framework's name."""

    gpu: Kinds = ()
    frameworks: Mapping[str, Kinds] = field(default_factory=dict)


# By these every kernel is of the kind ``other``.
NO_KINDS = KernelKinds()


@dataclass(frozen=True)
class Share:
    """Bytes of one class: its own maximum, and what it had when the whole was greatest."""

    max_bytes: int
    at_peak_bytes: int


@dataclass(frozen=True)
class MemoryProfile:
    """Where one rank's memory went. The shares at the peak and ``residual_bytes`` add up to ``peak_bytes``.

    ``classes`` are the paper's five. ``parts`` are what ``dynamic`` consists of: optimizer_state, input, other.
    ``peak_bytes`` was measured (``peak_method``) independently of the list of allocations that the shares come from.
    ``outside_bytes``: held on the device beyond the framework's allocator; None where nothing tells.
    """

    rank: int
    method: str
    steps: int
    classes: Mapping[str, Share]
    parts: Mapping[str, Share]
    peak_bytes: int
    peak_method: str
    outside_bytes: int | None = None

    @property
    def residual_bytes(self) -> int:
        """What the measured peak has beyond the shares; negative where they are more."""
        return self.peak_bytes - sum(share.at_peak_bytes for share in self.classes.values())

    @property
    def residual_ratio(self) -> float:
        return self.residual_bytes / self.peak_bytes


@dataclass(frozen=True)
class Kernel:
    """One kernel (GPU) or operator (CPU device) over all profiled steps; ``share_ratio`` is of the sum of all totals.

    ``fp32_utilization_ratio``: operations executed / (peak x its time), from hardware counters; else None and a reason.
    """

    name: str
    kind: str
    calls: int
    total_s: float
    share_ratio: float
    fp32_utilization_ratio: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class KernelTable:
    """The kernels of one rank, the longest first. ``active_s``: the union of their intervals within ``elapsed_s``."""

    rank: int
    method: str
    steps: int
    elapsed_s: float
    active_s: float
    rows: tuple[Kernel, ...]


@dataclass(frozen=True)
class Layer:
    """One layer that computes something: seconds per step, forward and backward."""

    name: str
    kind: str
    parameters_bytes: int
    forward_s: float | None
    backward_s: float | None


@dataclass(frozen=True)
class GradientExchange:
    """One bucket or key of gradients: when it was exchanged, in seconds from the start of the backward pass."""

    name: str
    bytes: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class LayerTimes:
    """Where one rank's step went. ``breakdown``: the parts of ``workers.trainer.protocol.BREAKDOWN`` in seconds per
    step, None where one cannot be told, and ``reasons`` why. ``serialised``: the profiler kept layers from overlapping.
    ``exposed_exchange_s``: of a step, in which the exchange goes on and nothing is computed; None with a reason too.
    """

    rank: int
    method: str
    steps: int
    elapsed_s: float
    serialised: bool
    breakdown: Mapping[str, float | None]
    reasons: Mapping[str, str]
    rows: tuple[Layer, ...]
    exchanges: tuple[GradientExchange, ...] = ()
    exposed_exchange_s: float | None = None


@dataclass(frozen=True)
class Profiles(Plain):
    """All profiles of a run, by rank. ``reasons``: profile -> why there is none (of some rank)."""

    memory: tuple[MemoryProfile, ...] = ()
    kernels: tuple[KernelTable, ...] = ()
    layers: tuple[LayerTimes, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.memory or self.kernels or self.layers or self.reasons)


def merged(tables: Sequence[KernelTable]) -> tuple[Kernel, ...]:
    """The kernels of all ranks in one table: calls and times added up, the longest first.

    The utilisation of a kernel is the mean over its time, and is not known where one rank's is not.
    """
    by_name: dict[str, list[Kernel]] = {}
    for table in tables:
        for row in table.rows:
            by_name.setdefault(row.name, []).append(row)
    whole = sum(row.total_s for table in tables for row in table.rows)
    rows = [_merged(found, whole) for found in by_name.values()]
    return tuple(sorted(rows, key=lambda row: (-row.total_s, row.name)))


def _merged(found: Sequence[Kernel], whole_s: float) -> Kernel:
    total_s = sum(row.total_s for row in found)
    utilization: float | None = None
    reason = next((row.reason for row in found if row.fp32_utilization_ratio is None), None)
    if all(row.fp32_utilization_ratio is not None for row in found) and total_s > 0:
        utilization = sum((row.fp32_utilization_ratio or 0.0) * row.total_s for row in found) / total_s
    return Kernel(
        name=found[0].name,
        kind=found[0].kind,
        calls=sum(row.calls for row in found),
        total_s=total_s,
        share_ratio=total_s / whole_s if whole_s > 0 else 0.0,
        fp32_utilization_ratio=utilization,
        reason=reason,
    )
