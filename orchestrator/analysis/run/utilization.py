"""How busy the hardware was while the run was steady: TBD's equations 1 and 3, and the energy.

Equation numbers: Zhu et al., IISWC 2018. GPUs and CPU devices get different methods, which are named: the union of
operator intervals on a CPU device is the analogue of eq. 1, not the same thing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis.log import windows
from orchestrator.analysis.log.events import NodeLog
from orchestrator.analysis.log.windows import Span
from orchestrator.domain.value.measurement import Measurement
from workers.trainer import protocol

NOTHING_READ = "no reading of the sampler falls into the steady part"
NO_ACTIVITY = "the framework's adapter does not report its activity"
NOTHING_RECORDED = "the profiler has recorded nothing: on a GPU, CUPTI is missing or serves another tool"


@dataclass(frozen=True)
class NodeSpan:
    """A node's log and the steady part of its timed phase, on its own clock."""

    log: NodeLog
    span: Span

    def gpus(self) -> list[str]:
        """Subjects of the readings of the GPUs that the attempt holds here."""
        return [f"device:{device['id']}" for device in self.devices() if device["kind"] == "cuda"]

    def cores(self) -> list[int]:
        """The cores of the attempt's CPU devices here; with GPUs, all that its processes may use: not tbd's own."""
        cores = {int(core) for device in self.devices() for core in device.get("cores") or ()}
        kept = self.log.opened["inventory"].get("housekeeping_cores") or ()
        return sorted(cores) or [core for core in self.all_cores() if core not in kept]

    def usable_cores(self) -> list[int]:
        """The cores that the node's agent, and all that it starts, may use: a container may have a part of the machine
        only, and what goes on in the rest of it is no load on this node."""
        usable = set(self.log.opened["inventory"].get("cores") or self.all_cores())
        return [core for core in self.all_cores() if core in usable]

    def all_cores(self) -> list[int]:
        return [int(subject[5:]) for subject in windows.subjects(self.log.readings, "core_active_s")]

    def devices(self) -> list[dict[str, Any]]:
        """Devices of the processes that ran here; all of them where the log's node is not named in the job."""
        processes, name = self.log.job["processes"], self.log.opened["node"]
        here = [process for process in processes if process.get("node") == name] or processes
        return [device for process in here for device in process["devices"]]


def compute_utilization(nodes: Sequence[NodeSpan], scope: str) -> Measurement:
    """Return eq. 1: on GPUs NVML's busy time in the steady part, on CPU devices the operators' union when profiled."""
    busy = [windows.mean(node.log.readings, node.span, "busy_ratio", gpu) for node in nodes for gpu in node.gpus()]
    if busy:
        return _mean_of(busy, "compute_utilization_ratio", "NVML busy time, steady part; mean of devices", scope)
    activities = [data for _, data in sorted(active([node.log for node in nodes]).items())]
    if not activities:
        return missing("compute_utilization_ratio", why_no_activity([node.log for node in nodes]))
    active_s = sum(protocol.number(data["active_s"]) for data in activities)
    elapsed_s = sum(protocol.number(data["elapsed_s"]) for data in activities)
    return Measurement(
        metric="compute_utilization_ratio",
        value=active_s / elapsed_s if elapsed_s > 0 else None,
        unit="1",
        n=float(len(activities)),
        scope=f"{sum(int(data['steps']) for data in activities)} profiled steps after the timed phase",
        method=union_method(activities[0]),
        reason=None if elapsed_s > 0 else "the profiled phase took no time",
    )


def active(logs: Iterable[NodeLog]) -> dict[int, Mapping[str, Any]]:
    """Rank -> what its process says of the time in which it computed: {active_s, elapsed_s, steps, method}.

    From the timeline of ``kernels`` where the plan asks for that profile, else from the phase ``activity``: adapters
    form the union in the same way for both, and the first has more steps.
    """
    logs = list(logs)
    found: dict[int, Mapping[str, Any]] = {}
    for kind in ("activity", "kernels"):
        for log in logs:
            for rank, data in log.of(kind):
                if data["active_s"] is not None:
                    found[int(rank or 0)] = data
    return found


def why_no_activity(logs: Iterable[NodeLog]) -> str:
    """Why ``active`` has nothing of a process that trained."""
    return NOTHING_RECORDED if any(log.of("activity") for log in logs) else NO_ACTIVITY


def union_method(data: Mapping[str, Any]) -> str:
    """The method of eq. 1 by what a process says of its active time."""
    method = str(data["method"])
    return f"union of the intervals of the kernel table ({method})" if "rows" in data else method


def cpu_utilization(nodes: Sequence[NodeSpan], scope: str, host: bool = False) -> Measurement:
    """Return eq. 3: active time of the attempt's cores (or all of the host) / (cores x elapsed)."""
    metric = "host_cpu_utilization_ratio" if host else "cpu_utilization_ratio"
    ratio = cores_active([(node, node.all_cores() if host else node.cores()) for node in nodes])
    if ratio is None:
        return missing(metric, NOTHING_READ)
    method = f"active time of the {'host' if host else 'attempt'}'s logical cores / (cores x elapsed), /proc/stat"
    return Measurement(metric=metric, value=ratio, unit="1", scope=scope, method=method)


def cores_active(chosen: Iterable[tuple[NodeSpan, Iterable[int]]]) -> float | None:
    """The active time of some cores of each node / (cores x elapsed); None where none of them was read."""
    active_s = available_s = 0.0
    for node, cores in chosen:
        for core in cores:
            busy_s, covered_s = windows.amount(node.log.readings, node.span, "core_active_s", f"core:{core}")
            active_s += busy_s
            available_s += covered_s
    return min(1.0, active_s / available_s) if available_s > 0 else None


def power(nodes: Sequence[NodeSpan], scope: str) -> Measurement:
    """Return the mean power of all GPUs held; host and CPU devices are not included."""
    gpus = [(node, gpu) for node in nodes for gpu in node.gpus()]
    levels = [windows.mean(node.log.readings, node.span, "power_w", gpu) for node, gpu in gpus]
    known = [level for level in levels if level is not None]
    if not gpus or len(known) < len(gpus):
        return missing("power_w", "no power reading of a device" if gpus else "a CPU device has no power reading")
    return Measurement(metric="power_w", value=sum(known), unit="W", scope=scope, method="NVML power, mean by time")


def energy_per_work(nodes: Sequence[NodeSpan], work: float, duration_s: float, scope: str) -> Measurement:
    """Return joules per unit of work from the devices' energy counters, over the steady part; host excluded."""
    gpus = [(node, gpu) for node in nodes for gpu in node.gpus()]
    joules = 0.0
    for node, gpu in gpus:
        amount_j, covered_s = windows.amount(node.log.readings, node.span, "energy_j", gpu)
        if covered_s <= 0:
            return missing("energy_per_work_j", f"no energy counter was read on {gpu}")
        joules += amount_j / covered_s * duration_s
    if not gpus:
        return missing("energy_per_work_j", "a CPU device has no energy counter")
    method = "NVML energy counter, steady part, all held devices, host excluded"
    return Measurement(metric="energy_per_work_j", value=joules / work, unit="J", scope=scope, method=method)


def _mean_of(values: Sequence[float | None], metric: str, method: str, scope: str) -> Measurement:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return missing(metric, NOTHING_READ)
    return Measurement(metric=metric, value=sum(known) / len(known), unit="1", scope=scope, method=method)


def missing(metric: str, reason: str) -> Measurement:
    """What stands for a number that is not available, with the reason."""
    units = {"power_w": "W", "energy_per_work_j": "J", "model_flops_per_s": "FLOP/s"}
    return Measurement(metric=metric, value=None, unit=units.get(metric, "1"), method="not measured", reason=reason)
