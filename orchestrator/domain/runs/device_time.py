"""Where the time of devices goes: into timed steps, and into what has to be done before, after and between them.

A run has the parts of its log, and the pause around it; ``together`` adds up the runs of an experiment and what lies
between two of them on a device. Pure sums: nothing here measures.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

# Judgement: a longer gap between two runs was another experiment's, or a person's, and no cost of tbd's.
LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True)
class DeviceTime:
    """Seconds of one device, or of several together.

    Attributes:
        start_s: from the opening of the log until the framework is imported and all ranks have met.
        build_s: the model, its weights and its input.
        warmup_s: until the first timed step.
        timed_s: in timed steps, those that are cut off as warm-up later among them.
        end_s: what the log tells of afterwards: profiles, the comparison of replicas, the end of the processes.
        pause_s: around the log, and between runs: placing, storing, analysing.
    """

    start_s: float = 0.0
    build_s: float = 0.0
    warmup_s: float = 0.0
    timed_s: float = 0.0
    end_s: float = 0.0
    pause_s: float = 0.0

    @property
    def timed_ratio(self) -> float | None:
        """The share of timed steps; None where no time has passed."""
        whole_s = sum(asdict(self).values())
        return self.timed_s / whole_s if whole_s > 0 else None

    def __add__(self, other: "DeviceTime") -> "DeviceTime":
        return DeviceTime(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


@dataclass(frozen=True)
class Held:
    """What one run says of its devices: one device's ``time``, and from when until when (seconds since the epoch) they
    were its own."""

    time: DeviceTime
    devices: frozenset[str]
    begun: float
    ended: float


def of_attempt(told: Mapping[str, float] | None, held_s: float | None) -> DeviceTime | None:
    """The time of one device of an attempt: what its logs ``told``, and the rest of the seconds it was held as pause;
    None where one of them is not known."""
    if not told or held_s is None:
        return None
    parts = DeviceTime(**told)
    return parts + DeviceTime(pause_s=max(0.0, held_s - sum(told.values())))


def together(runs: Iterable[Held]) -> DeviceTime:
    """The time of all devices of ``runs``, the pauses between two runs on the same device among it."""
    total, last = DeviceTime(), dict[str, float]()
    for run in sorted(runs, key=lambda one: one.begun):
        for device in run.devices:
            gap_s = run.begun - last.get(device, run.begun)
            total += run.time + DeviceTime(pause_s=gap_s if 0.0 < gap_s <= LONGEST_PAUSE_S else 0.0)
            last[device] = run.ended
    return total
