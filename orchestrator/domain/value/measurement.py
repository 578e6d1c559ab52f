"""What an analysis says: measurements with their intervals of confidence, and whether they may be believed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from orchestrator.domain.value.calibration import Calibration
from orchestrator.domain.value.failure import Failure
from orchestrator.domain.value.profile import Profiles
from orchestrator.domain.value.time_series import TimeSeries
from orchestrator.domain.value.timed_intervals import Series
from orchestrator.domain.words.plain import Plain, reader_of


class Scale(StrEnum):
    """On what a mean over runs and its interval are made. It is the metric's, so that no run's value decides it; but a
    logarithm takes values above 0, and where one run has 0 all of them are taken as they are, as ``FROM_ZERO``."""

    POSITIVE = "positive"  # logarithms: rates, times, bytes
    FROM_ZERO = "from_zero"  # as they are, and no interval reaches below 0: what is often just 0, and shares
    ANY = "any"  # as they are


_POSITIVE, _FROM_0, _ANY = Scale

# metric -> (unit, what it is, its scale). Units are SI base units, or the model's own unit of work per second (None: it
# says so).
METRICS: dict[str, tuple[str | None, str, Scale]] = {
    "throughput": (None, "work trained per second in steady state", _POSITIVE),
    "step_time_s": ("s", "mean time of one optimiser update in steady state", _POSITIVE),
    "step_time_p50_s": ("s", "median over intervals of the time of a step", _POSITIVE),
    "step_time_p90_s": ("s", "90th percentile over intervals of the time of a step", _POSITIVE),
    "step_time_p95_s": ("s", "95th percentile over intervals of the time of a step", _POSITIVE),
    "step_time_p99_s": ("s", "99th percentile over intervals of the time of a step", _POSITIVE),
    "warmup_steps": ("1", "steps before steady state, as detected", _FROM_0),
    "warmup_s": ("s", "time of the steps before steady state", _FROM_0),
    "build_s": ("s", "time to build the model, before the first step", _POSITIVE),
    "compute_utilization_ratio": (
        "1",
        "TBD eq. 1: time with at least one kernel (or operator) running / elapsed",
        _FROM_0,
    ),
    "profiled_utilization_ratio": (
        "1",
        "TBD eq. 1 by the union of kernel intervals in the profiled phase, on GPUs",
        _FROM_0,
    ),
    "sm_active_ratio": ("1", "share of the multiprocessors that had a warp, mean over time (GPM)", _FROM_0),
    "fp32_pipe_ratio": ("1", "share of the cycles in which the FP32 pipes worked (GPM)", _FROM_0),
    "tensor_pipe_ratio": ("1", "share of the cycles in which the tensor pipes worked (GPM)", _FROM_0),
    "fp32_utilization_ratio": (
        "1",
        "TBD eq. 2: operations while active / (peak x active time); see its method",
        _FROM_0,
    ),
    "model_flops_per_s": (
        "FLOP/s",
        "operations that the model needs, by its facts, per second of the steady part",
        _POSITIVE,
    ),
    "mfu_data_sheet_ratio": ("1", "model operations per second / the data sheet's dense peak", _POSITIVE),
    "mfu_calibrated_ratio": ("1", "model operations per second / the device's calibrated peak", _POSITIVE),
    "cpu_utilization_ratio": (
        "1",
        "TBD eq. 3: active time of the attempt's logical cores / (cores x elapsed)",
        _FROM_0,
    ),
    "host_cpu_utilization_ratio": ("1", "eq. 3 over all logical cores of the host", _FROM_0),
    "input_ratio": ("1", "share of the steps' time spent waiting for input", _FROM_0),
    "emulator_ratio": ("1", "share of the steps' time spent waiting for games, of a model that plays them", _FROM_0),
    "acting_ratio": ("1", "share of the steps' time in which a model that plays games acts; the rest learns", _FROM_0),
    "peak_memory_bytes": ("B", "greatest memory of the attempt", _POSITIVE),
    "loss_first": ("1", "training loss of the first step", _ANY),
    "loss_last": ("1", "mean training loss of the last tenth of the steps", _ANY),
    "quality_best": (
        "1",
        "best quality of the evaluations, with mode convergence, in the model's metric (its method)",
        _ANY,
    ),
    "quality_final": (
        "1",
        "quality after the last step, with mode convergence, in the model's metric (its method)",
        _ANY,
    ),
    "time_to_target_s": ("s", "seconds of training to the target's quality, evaluations not counted", _POSITIVE),
    "time_to_target_elapsed_s": (
        "s",
        "seconds from the first step to the target's quality, evaluations counted",
        _POSITIVE,
    ),
    "evaluation_s": ("s", "time of all evaluations, with mode convergence; never part of the timed phase", _FROM_0),
    "power_w": ("W", "mean power of all held devices in the timed phase", _POSITIVE),
    "energy_per_work_j": ("J", "energy of all held devices per unit of work", _POSITIVE),
    "replica_distance_ratio": (
        "1",
        "greatest relative distance of two ranks' weights at the end: 0 when all are equal",
        _FROM_0,
    ),
    "memory_residual_ratio": ("1", "share of the measured peak of memory that is in no class, worst rank", _ANY),
    "kernels_other_ratio": ("1", "share of the kernels' time whose kind is not known", _FROM_0),
    "step_input_s": ("s", "time of a step spent waiting for input, by the profile of layers", _FROM_0),
    "step_host_to_device_s": ("s", "time of a step spent copying input to the device", _FROM_0),
    "step_forward_s": ("s", "time of a step's forward pass", _POSITIVE),
    "step_backward_s": ("s", "time of a step's backward pass", _POSITIVE),
    "step_exchange_s": ("s", "time of a step's exchange of gradients", _FROM_0),
    "step_update_s": ("s", "time of a step's update of the weights", _POSITIVE),
    "profile_cost_s": ("s", "time that a profiling phase took; never part of the timed phase", _POSITIVE),
    "profile_slowdown_ratio": ("1", "time of a step under a profiler / time of a step in the timed phase", _POSITIVE),
    "start_up_s": ("s", "from the start of the attempt's log to its first step", _POSITIVE),
}

# What only a run to convergence has, and what is said of it in others.
OF_CONVERGENCE = ("quality_best", "quality_final", "time_to_target_s", "time_to_target_elapsed_s", "evaluation_s")
ONLY_CONVERGENCE = "only with mode convergence"


@dataclass(frozen=True)
class Measurement(Plain):
    """One number computed from events.

    ``value`` is None where it is not available, and ``reason`` says why. ``ci_low`` and ``ci_high`` bound the interval
    of ``confidence``; ``n`` is the number of independent observations behind it (runs, or effective intervals) and
    ``scope`` says in words what it speaks of. ``method`` names how it was produced.
    """

    metric: str
    value: float | None
    unit: str
    method: str
    unit_definition: str | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    confidence: float | None = None
    n: float | None = None
    scope: str | None = None
    reason: str | None = None
    subject: str | None = None


@dataclass(frozen=True)
class Transfer(Plain):
    """How long messages of one size took: point to point (one way, half of a round trip), an all-reduce,
    a push to servers that add up, or a pull from them.

    ``bytes`` is the size of the message, or of one rank's vector. Durations are the slowest rank's, over
    ``repetitions`` within one run. ``algorithm_bytes_per_s`` is bytes over the median, ``bus_bytes_per_s`` what a
    link carries for it: for an all-reduce of n ranks 2 (n - 1) / n times as much (nccl-tests, doc/PERFORMANCE.md).

    In logs, tables and REST it is called an exchange. Here that word is left to the exchange of gradients.
    """

    operation: str
    library: str
    bytes: int
    world_size: int
    ranks: tuple[int, ...]
    busy_cores: bool
    repetitions: int
    duration_min_s: float
    duration_p50_s: float
    duration_mean_s: float
    duration_p90_s: float
    duration_max_s: float
    algorithm_bytes_per_s: float
    bus_bytes_per_s: float


class Grade(StrEnum):
    """How far a run that has ended may be believed. A run that trained rightly is an observation, however its own times
    look: only what was measured apart from them, and declared before, can grade it."""

    SOUND = "sound"
    DISTURBED = "disturbed"  # another run may do better: foreign load, a shared or throttled device
    BROKEN = "broken"  # what ran was not what was asked for: there is no rate


@dataclass(frozen=True)
class Reason(Plain):
    """Why a run is not sound. ``replaceable``: it was disturbed, and another run may do better; else it is broken."""

    code: str
    text: str
    replaceable: bool


@dataclass(frozen=True)
class Advice:
    """A finding that grades nothing, and about which its reader can do something: the text says what."""

    text: str


# A finding that is neither is a fact: it is kept with its run, and no table of cells has it.
Finding = Reason | Advice | str


@dataclass(frozen=True)
class Validity(Plain):
    """How far a run's numbers may be believed, and why. ``notes`` are findings that do not change the grade, ``advice``
    those of them that tables print: their reader can do something about them."""

    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    @classmethod
    def of(cls, findings: Iterable[Finding | None]) -> "Validity":
        """The verdict of rules, each of which found something or nothing."""
        found = [one for one in findings if one is not None]
        reasons = tuple(one for one in found if isinstance(one, Reason))
        notes = [one.text if isinstance(one, Advice) else one for one in found if not isinstance(one, Reason)]
        return cls(reasons, tuple(notes), tuple(one.text for one in found if isinstance(one, Advice)))

    @property
    def grade(self) -> Grade:
        if not self.reasons:
            return Grade.SOUND
        return Grade.DISTURBED if all(reason.replaceable for reason in self.reasons) else Grade.BROKEN

    @property
    def sound(self) -> bool:
        return self.grade is Grade.SOUND

    @property
    def broken(self) -> bool:
        return self.grade is Grade.BROKEN

    def to_json(self) -> dict[str, Any]:
        return {"grade": self.grade.value} | super().to_json()


# What the JSON of an analysis calls otherwise.
_CALLED = {"observed": "circumstances", "exchanges": "transfers"}


@dataclass(frozen=True)
class Analysis:
    """All that the complete logs of an attempt say. A pure function of them made it (``orchestrator.analysis``).

    Attributes:
        circumstances: where it ran, and with what: the inputs of the fingerprint (versions, mathematics, inventory,
            provenance). In the JSON it is called ``observed``.
        summary: what a person wants to know besides (steady-state class, why it stopped, steps).
        transfers: what a netbench found, in the order it was measured; none where the run is broken.
        calibrations: the same of a calibration.
        profiles: what the profiling phases found. They are long tables, no part of the JSON and stored apart
            (``Store.profiles``).
        series: its timed intervals, in which the warm-up of its cell is sought. None where there are none, and
            where the run is broken.
        time_series: what is drawn of it over its time, also where it failed: no part of the JSON, and stored apart.
    """

    validity: Validity
    failure: Failure | None = None
    measurements: tuple[Measurement, ...] = ()
    circumstances: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)
    code_version: str = ""
    transfers: tuple[Transfer, ...] = ()
    profiles: Profiles = field(default_factory=Profiles, compare=False)
    calibrations: tuple[Calibration, ...] = ()
    series: Series | None = None
    time_series: tuple[TimeSeries, ...] = field(default=(), compare=False)

    def measurement(self, metric: str) -> Measurement | None:
        """The measurement of ``metric``, if there is one."""
        return next((m for m in self.measurements if m.metric == metric and m.subject is None), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "validity": self.validity.to_json(),
            "failure": self.failure.to_json() if self.failure else None,
            "measurements": [one.to_json() for one in self.measurements],
            "observed": dict(self.circumstances),
            "summary": dict(self.summary),
            "code_version": self.code_version,
            "exchanges": [one.to_json() for one in self.transfers],
            "calibrations": [one.to_json() for one in self.calibrations],
            "series": self.series.to_json() if self.series else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Analysis":
        """Raises ValueError, and of a series what Python raises at what is none."""
        named = {ours: data[theirs] for theirs, ours in _CALLED.items() if theirs in data}
        series = Series.from_json(data["series"]) if data.get("series") else None
        made: Analysis = reader_of(cls).validate_python({**data, **named, "series": series})
        return made
