"""From the events of the profiling phases to a run's profiles and to the time that each phase took.

A profile that cannot be read has a reason instead of numbers: it never makes a run invalid.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from orchestrator.analysis.log.events import NodeLog
from orchestrator.analysis.profile import kernels, layers, memory
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.value.profile import NO_KINDS, KernelKinds, Profiles
from workers.trainer import protocol

Found = TypeVar("Found")
Data = Mapping[str, Any]

# What Python raises at values of a kind that no profile of ours has.
_IMPOSSIBLE = (ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError)


def profiles_of(
    logs: Sequence[NodeLog],
    kinds: KernelKinds = NO_KINDS,
    counted: Mapping[str, float | None] | None = None,
    uncounted: str | None = None,
) -> Profiles:
    """Return all profiles that the logs hold.

    Args:
        kinds: what kind of work each kernel does, by its name.
        counted: kernel's name -> FP32 utilisation, or None, where hardware counters were read.
        uncounted: why none were, where that is known.
    """
    job = logs[0].job
    framework = str(job["plan"].get("framework") or "")
    gpu = {rank for process in job["processes"] for rank in process["ranks"] if _has_gpu(process)}
    reasons = _reasons(logs)
    return Profiles(
        memory=_each(logs, "allocations", "memory", reasons, memory.profile_of),
        kernels=_each(
            logs,
            "kernels",
            "kernels",
            reasons,
            lambda rank, found: kernels.table_of(rank, found[-1], kinds, framework, rank in gpu, counted, uncounted),
        ),
        layers=_each(logs, "layers", "layers", reasons, lambda rank, found: layers.times_of(rank, found[-1])),
        reasons=reasons,
    )


def _has_gpu(process: Data) -> bool:
    return any(device["kind"] == "cuda" for device in process["devices"])


def _reasons(logs: Sequence[NodeLog]) -> dict[str, str]:
    """Why a profile that was asked for is not there: what the agents say, else that nothing came of it."""
    reasons = {}
    for log in logs:
        for _, data in log.of("profile_failed"):
            failure = data["failure"]
            reasons[str(data["profile"])] = f"{log.node}: {failure['kind']}: {failure['message']}"
    events = {"kernels": "kernels", "layers": "layers", "memory": "allocations"}
    for name in logs[0].job["plan"].get("profile") or ():
        if not any(log.of(events[name]) for log in logs):
            reasons.setdefault(name, "the processes have reported none")
    return reasons


def _each(
    logs: Sequence[NodeLog],
    kind: str,
    profile: str,
    reasons: dict[str, str],
    read: Callable[[int, list[Data]], Found],
) -> tuple[Found, ...]:
    """Return what ``read`` makes of each rank's events of ``kind``, in the order of the ranks."""
    by_rank: dict[int, list[Data]] = {}
    for log in logs:
        for rank, data in log.of(kind):
            by_rank.setdefault(0 if rank is None else rank, []).append(data)
    found = []
    for rank, events in sorted(by_rank.items()):
        try:
            found.append(read(rank, events))
        except _IMPOSSIBLE as error:
            reasons.setdefault(profile, f"rank {rank}: {error}")
    return tuple(found)


def measurements(logs: Sequence[NodeLog], profiles: Profiles, step_time_s: float | None) -> list[Measurement]:
    """Return what profiles come to, and what they cost.

    Args:
        step_time_s: mean time of a step in the timed phase; None where there is none.
    """
    found = [memory.residual(profiles.memory), kernels.other_share(profiles.kernels)]
    return [
        *(one for one in found if one is not None),
        *layers.measurements(profiles.layers),
        *_costs(logs),
        *_slowdowns(profiles, step_time_s),
    ]


def _costs(logs: Sequence[NodeLog]) -> list[Measurement]:
    """How long each profiling phase took: of the slowest rank, by the loop's clock."""
    longest: dict[str, float] = {}
    for log in logs:
        for _, data in log.of("profiled"):
            name = str(data["profile"])
            longest[name] = max(longest.get(name, 0.0), protocol.number(data["elapsed_s"]))
        for _, data in log.of("activity"):
            if data.get("cost_s") is not None:  # logs from before it was measured have none
                longest["activity"] = max(longest.get("activity", 0.0), protocol.number(data["cost_s"]))
    method = "timed by the loop around each phase, reading the profiler included; slowest rank"
    costs: list[tuple[str | None, float]] = [(None, sum(longest.values())), *sorted(longest.items())]
    return [
        Measurement(metric="profile_cost_s", value=elapsed_s, unit="s", method=method, subject=name)
        for name, elapsed_s in costs
        if longest
    ]


def _slowdowns(profiles: Profiles, step_time_s: float | None) -> list[Measurement]:
    """By how much a step takes longer under a profiler, by the profiler's clock: how far its times can be trusted."""
    if step_time_s is None:
        return []
    slowest: dict[str | None, float] = {
        name: max(one.elapsed_s / one.steps for one in found)
        for name, found in (("kernels", profiles.kernels), ("layers", profiles.layers))
        if found and all(one.steps > 0 for one in found)
    }
    if slowest:
        slowest = {None: max(slowest.values()), **slowest}
    method = "time of a profiled step / mean time of a step in the timed phase; slowest rank and profile"
    return [
        Measurement(metric="profile_slowdown_ratio", value=seconds / step_time_s, unit="1", method=method, subject=name)
        for name, seconds in slowest.items()
    ]
