"""How busy the hardware was while the run was steady: TBD's equations 1 and 3, and the energy.

Equation numbers: Zhu et al., IISWC 2018. GPUs and CPU devices get different methods, which are named: the union of
operator intervals on a CPU device is the analogue of eq. 1, not the same thing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis import windows
from orchestrator.analysis.events import NodeLog
from orchestrator.analysis.windows import Span
from orchestrator.domain.measurement import Measurement
from workers.trainer import protocol

NOTHING_READ = "no reading of the sampler falls into the steady part"


@dataclass(frozen=True)
class NodeSpan:
    """A node's log and the steady part of its timed phase, on its own clock."""

    log: NodeLog
    span: Span

    def gpus(self) -> list[str]:
        """Subjects of the readings of the GPUs that the attempt holds here."""
        return [f"device:{device['id']}" for device in self._devices() if device["kind"] == "cuda"]

    def cores(self) -> list[int]:
        """The cores of the attempt's CPU devices here; with GPUs, all cores: its processes may use them."""
        cores = {int(core) for device in self._devices() for core in device.get("cores") or ()}
        return sorted(cores) or self.all_cores()

    def usable_cores(self) -> list[int]:
        """The cores that the node's agent, and all that it starts, may use: a container may have a part of the machine
        only, and what goes on in the rest of it is no load on this node."""
        usable = set(self.log.opened["inventory"].get("cores") or self.all_cores())
        return [core for core in self.all_cores() if core in usable]

    def all_cores(self) -> list[int]:
        return [int(subject[5:]) for subject in windows.subjects(self.log.readings, "core_active_s")]

    def _devices(self) -> list[dict[str, Any]]:
        """Devices of the processes that ran here; all of them where the log's node is not named in the job."""
        processes, name = self.log.job["processes"], self.log.opened["node"]
        here = [process for process in processes if process.get("node") == name] or processes
        return [device for process in here for device in process["devices"]]


def compute_utilization(nodes: Sequence[NodeSpan], scope: str) -> Measurement:
    """Return eq. 1: on GPUs NVML's busy time in the steady part, on CPU devices the operators' union when profiled."""
    busy = [windows.mean(node.log.readings, node.span, "busy_ratio", gpu) for node in nodes for gpu in node.gpus()]
    if busy:
        return _mean_of(busy, "compute_utilization_ratio", "NVML busy time, steady part; mean of devices", scope)
    activities = [data for node in nodes for _, data in node.log.of("activity") if data["active_s"] is not None]
    if not activities:
        return _missing("compute_utilization_ratio", "the framework's adapter does not report its activity")
    active = sum(protocol.number(data["active_s"]) for data in activities)
    elapsed = sum(protocol.number(data["elapsed_s"]) for data in activities)
    return Measurement(
        metric="compute_utilization_ratio",
        value=active / elapsed if elapsed > 0 else None,
        unit="1",
        n=float(len(activities)),
        scope=f"{sum(int(data['steps']) for data in activities)} profiled steps after the timed phase",
        method=str(activities[0]["method"]),
        reason=None if elapsed > 0 else "the profiled phase took no time",
    )


def cpu_utilization(nodes: Sequence[NodeSpan], scope: str, host: bool = False) -> Measurement:
    """Return eq. 3: active time of the attempt's cores (or all of the host) / (cores x elapsed)."""
    metric = "host_cpu_utilization_ratio" if host else "cpu_utilization_ratio"
    active = available = 0.0
    for node in nodes:
        for core in node.all_cores() if host else node.cores():
            busy_s, covered_s = windows.amount(node.log.readings, node.span, "core_active_s", f"core:{core}")
            active += busy_s
            available += covered_s
    if available <= 0:
        return _missing(metric, NOTHING_READ)
    method = f"active time of the {'host' if host else 'attempt'}'s logical cores / (cores x elapsed), /proc/stat"
    return Measurement(metric=metric, value=min(1.0, active / available), unit="1", scope=scope, method=method)


def power(nodes: Sequence[NodeSpan], scope: str) -> Measurement:
    """Return the mean power of all GPUs held; host and CPU devices are not included."""
    gpus = [(node, gpu) for node in nodes for gpu in node.gpus()]
    levels = [windows.mean(node.log.readings, node.span, "power_w", gpu) for node, gpu in gpus]
    known = [level for level in levels if level is not None]
    if not gpus or len(known) < len(gpus):
        return _missing("power_w", "no power reading of a device" if gpus else "a CPU device has no power reading")
    return Measurement(metric="power_w", value=sum(known), unit="W", scope=scope, method="NVML power, mean by time")


def energy_per_work(nodes: Sequence[NodeSpan], work: float, duration_s: float, scope: str) -> Measurement:
    """Return joules per unit of work from the devices' energy counters, over the steady part; host excluded."""
    gpus = [(node, gpu) for node in nodes for gpu in node.gpus()]
    joules = 0.0
    for node, gpu in gpus:
        amount_j, covered_s = windows.amount(node.log.readings, node.span, "energy_j", gpu)
        if covered_s <= 0:
            return _missing("energy_per_work_j", f"no energy counter was read on {gpu}")
        joules += amount_j / covered_s * duration_s
    if not gpus:
        return _missing("energy_per_work_j", "a CPU device has no energy counter")
    method = "NVML energy counter, steady part, all held devices, host excluded"
    return Measurement(metric="energy_per_work_j", value=joules / work, unit="J", scope=scope, method=method)


def _mean_of(values: Sequence[float | None], metric: str, method: str, scope: str) -> Measurement:
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return _missing(metric, NOTHING_READ)
    return Measurement(metric=metric, value=sum(known) / len(known), unit="1", scope=scope, method=method)


def _missing(metric: str, reason: str) -> Measurement:
    units = {"power_w": "W", "energy_per_work_j": "J"}
    return Measurement(metric=metric, value=None, unit=units.get(metric, "1"), method="not measured", reason=reason)
