"""The one place that talks to NVIDIA's driver (through NVML); no other module imports pynvml.

Owns which metrics of which device can be had: each is tried once, and what then cannot be read (``no_permission``,
``unsupported``; ``lost`` where the driver has lost the device) is not asked for again. A GPU that is divided (MIG) is
not shown, its instances are. A host without a driver is a normal case: it has no GPUs, and ``reason`` says
why. All calls go through one lock: NVML serialises them in the driver anyway, and one of them at a time is what a
measurement beside can bear.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Callable, Mapping, NamedTuple, TypeVar

from workers.node.telemetry import ailments, fields, gpm, nvml_events, nvml_processes
from workers.node.telemetry.fields import Field
from workers.node.telemetry.nvml_processes import NoProcessList, Process

OK = "ok"
NO_PERMISSION = "no_permission"
UNSUPPORTED = "unsupported"
LOST = "lost"
# The driver lists processes, and never one of ours: it names them by the pids of another namespace, as older ones do in
# containers. Whose they are cannot be told.
OWN_PIDS_UNSEEN = "own_pids_unseen"

# nvml.h, nvmlReturn_t
_FUNCTION_NOT_FOUND = 13
_NOT_SUPPORTED = (3, _FUNCTION_NOT_FOUND, 25)  # 3: NOT_SUPPORTED, 25: ARGUMENT_VERSION_MISMATCH
_NO_PERMISSION = (4,)
_GPU_IS_LOST = 15
_RESET_REQUIRED = 16
_REFUSAL = {
    **dict.fromkeys(_NO_PERMISSION, NO_PERMISSION),
    **dict.fromkeys(_NOT_SUPPORTED, UNSUPPORTED),
    _GPU_IS_LOST: LOST,
    _RESET_REQUIRED: LOST,
}
_FINAL = (NO_PERMISSION, UNSUPPORTED, LOST)

Value = TypeVar("Value")

_MILLI = 1e-3
_MEGA = 1e6


class Gpu(NamedTuple):
    """A GPU, or an instance of a divided one, as the inventory shows it; addressed by UUID, which survives reordering
    and hiding. ``number`` is the driver's, of an instance that of its GPU and its own: ``3:0``. ``near_cores`` are the
    logical cores of its NUMA node; None where the driver does not say."""

    id: str
    name: str
    memory_bytes: int | None
    power_limit_w: float | None
    number: str
    near_cores: tuple[int, ...] | None = None


class Use(NamedTuple):
    """Who uses a device now, as far as the driver tells: None is not known."""

    lost: bool
    pids: list[int] | None
    used_bytes: int | None
    busy_ratio: float | None


def _driver() -> Any:
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


class Nvml:
    """A session with NVML, open as long as the agent lives.

    Args:
        module: what stands for pynvml; None to import it.
        clock: tells how far samples of the counters lie apart.
    """

    def __init__(self, module: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gpm: dict[str, gpm.Gpm] = {}
        self._fields: dict[str, fields.Fields] = {}
        self._lock = threading.Lock()
        self._nvml = module if module is not None else _driver()
        self._handles: dict[str, Any] = {}
        self._numbers: dict[str, str] = {}
        self._events: nvml_events.Events | None = None
        self._own_pids_seen = False
        # GPUs that nothing can be started on, by UUID, with the reason.
        self.unusable: dict[str, str] = {}
        self.reason: str | None = None
        self.driver_version: str | None = None
        # The newest CUDA that the driver can carry, as the driver counts: 13000 is 13.0.
        self.cuda_version: int | None = None
        self.availability: dict[str, dict[str, str]] = {}
        self._open()

    def _open(self) -> None:
        if self._nvml is None:
            self.reason = "the Python package nvidia-ml-py is not installed"
            return
        try:
            self._nvml.nvmlInit()
            self.driver_version = _text(self._nvml.nvmlSystemGetDriverVersion())
            self.cuda_version = self._or_none(lambda: int(self._nvml.nvmlSystemGetCudaDriverVersion()))
            for index in range(self._nvml.nvmlDeviceGetCount()):
                self._take_up(index)
        except self._nvml.NVMLError as error:
            self.reason = f"NVML: {error}"
            return
        if not self._handles:
            self.reason = "; ".join(self.unusable.values()) or "the NVIDIA driver shows no device"

    def _take_up(self, index: int) -> None:
        """Take up the GPU ``index``, or its instances. One that has fallen off the bus costs only itself."""
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = _text(nvml.nvmlDeviceGetUUID(handle))
        except nvml.NVMLError as error:
            self.unusable[f"GPU {index}"] = f"GPU {index}: {error}"
            return
        if not self._or_none(lambda: nvml.nvmlDeviceGetMigMode(handle)[0]):
            self._handles[uuid], self._numbers[uuid] = handle, str(index)
            return
        instances = 0
        for number in range(self._or_none(lambda: int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))) or 0):
            instance = self._or_none(lambda: nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number))  # noqa: B023
            if instance is not None:
                own = _text(nvml.nvmlDeviceGetUUID(instance))
                self._handles[own], self._numbers[own] = instance, f"{index}:{number}"
                instances += 1
        if not instances:
            self.unusable[uuid] = (
                f"GPU {index} ({uuid}) is in MIG mode and has no instances: make some (nvidia-smi mig -cgi … -C), or"
                f" switch it off (nvidia-smi -i {index} -mig 0)"
            )

    def _or_none(self, ask: Callable[[], Value]) -> Value | None:
        """What the driver answers; None where it refuses, or where an older nvidia-ml-py cannot ask."""
        try:
            return ask()
        except (self._nvml.NVMLError, AttributeError):
            return None

    def gpus(self) -> list[Gpu]:
        """Return the GPUs of this host, in the driver's order."""
        with self._lock:
            return [self._gpu(uuid, handle) for uuid, handle in self._handles.items()]

    def _gpu(self, uuid: str, handle: Any) -> Gpu:
        nvml = self._nvml
        memory = self._try(uuid, "memory_bytes", lambda: float(nvml.nvmlDeviceGetMemoryInfo(handle).total))
        limit = self._try(uuid, "power_limit_w", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) * _MILLI)
        name = self._try(uuid, "name", lambda: _text(nvml.nvmlDeviceGetName(handle)))
        near = self._or_none(lambda: _near_cores(nvml, handle))
        total = int(memory) if memory is not None else None
        return Gpu(uuid, name or "?", total, limit, self._numbers[uuid], near)

    def use(self, uuid: str) -> Use:
        """Return who uses the device now. Holds the driver's lock for milliseconds: only while nothing is measured."""
        with self._lock:
            handle, nvml = self._handles[uuid], self._nvml
            listed = self._listed(uuid, "foreign_device_processes")
            used = self._try(uuid, "device_memory_bytes", lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used))
            busy = self._try(uuid, "busy_ratio", lambda: float(nvml.nvmlDeviceGetUtilizationRates(handle).gpu) / 100)
            pids = None if listed is None else [process.pid for process in listed]
            return Use(LOST in self.availability[uuid].values(), pids, used, busy)

    def ailments(self, uuid: str) -> list[str]:
        """Return why nothing should be trained on the device; see ``ailments``. Only while nothing is measured."""
        with self._lock:
            return list(ailments.of(self._nvml, self._handles[uuid]))

    def read(self, uuid: str) -> dict[str, float | None]:
        """Return what the device ``uuid`` shows now, in the units of ``protocol.READINGS``.

        ``energy_j`` is the counter's total since the driver was loaded; everything else is the present value. A metric
        that cannot be read is None; ``availability`` says why. An unknown device has no metrics.
        """
        with self._lock:
            handle = self._handles.get(uuid)
            if handle is None:
                return {}
            numbered = self._numbered(uuid, handle, fields.OFTEN)
            found = {metric: self._try(uuid, metric, read) for metric, read in self._readers(uuid, handle).items()}
            counted = self._counters(uuid, handle)
            found.update(counted)
            found.update(numbered)
            # Where the driver has no counters of its own, fields tell of the links.
            known = self.availability[uuid]
            links = {name: field for name, field in fields.TRAFFIC.items() if known.get(name) in _FINAL}
            if links:
                found.update(self._numbered(uuid, handle, links, "by_field:"))
            return found

    def _numbered(self, uuid: str, handle: Any, wanted: Mapping[str, Field], way: str = "") -> dict[str, float | None]:
        """The fields ``wanted``, by reading; None where there is none, as with other metrics. ``way``: what stands
        before their names in ``availability``, where a reading can be had in another way too."""
        known = self.availability.setdefault(uuid, {})
        told: dict[str, float | None] = dict.fromkeys(wanted)
        asked = {name: field for name, field in wanted.items() if known.get(way + name) not in _FINAL}
        if not asked:
            return told
        if uuid not in self._fields:
            self._fields[uuid] = fields.Fields(self._nvml, handle, self._clock)
        try:
            found = self._fields[uuid].read(asked)
        except (self._nvml.NVMLError, AttributeError) as error:
            code = getattr(error, "value", None) if isinstance(error, self._nvml.NVMLError) else _NOT_SUPPORTED[0]
            found = dict.fromkeys(asked, code)
        for name, value in found.items():
            if not isinstance(value, int):
                known[way + name], told[name] = OK, value
            elif value in _REFUSAL:
                known[way + name] = _REFUSAL[value]
        return told

    def _counters(self, uuid: str, handle: Any) -> dict[str, float | None]:
        """The counters of ``gpm.COUNTERS`` since the last reading; None where there is none, as with other metrics."""
        known = self.availability.setdefault(uuid, {})
        nothing: dict[str, float | None] = dict.fromkeys(gpm.COUNTERS)
        if all(known.get(metric, OK) != OK for metric in gpm.COUNTERS):
            return nothing
        try:
            found = self._gpm.setdefault(uuid, gpm.Gpm(self._nvml, handle, self._clock)).read()
        except (self._nvml.NVMLError, AttributeError) as error:
            # An older nvidia-ml-py has no such functions at all.
            code = getattr(error, "value", None) if isinstance(error, self._nvml.NVMLError) else _NOT_SUPPORTED[0]
            found = {metric: code for metric in gpm.COUNTERS if code in _REFUSAL}
        for metric, value in found.items():
            if not isinstance(value, int):
                known[metric] = OK
            elif value in _REFUSAL:
                known[metric] = _REFUSAL[value]
        return {**nothing, **{metric: value for metric, value in found.items() if not isinstance(value, int)}}

    def _readers(self, uuid: str, handle: Any) -> Mapping[str, Callable[[], float]]:
        nvml = self._nvml
        told: dict[str, Callable[[], float]] = {
            "busy_ratio": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
            "device_memory_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) * _MILLI,
            "energy_j": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) * _MILLI,
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "sm_clock_hz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * _MEGA,
            "memory_clock_hz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM) * _MEGA,
        }
        # A mask is what holds at this moment: where the driver adds up the time of each cause, it is not asked for.
        if self.availability[uuid].get("software_slowed_s") != OK:
            told["throttle_reasons"] = lambda: self._throttle_reasons(handle)
        return told

    def _throttle_reasons(self, handle: Any) -> int:
        """Drivers before 535 know it by another name, and so does an older nvidia-ml-py."""
        nvml = self._nvml
        newer = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        try:
            if newer is not None:
                return int(newer(handle))
        except nvml.NVMLError as error:
            if getattr(error, "value", None) != _FUNCTION_NOT_FOUND:
                raise
        return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))

    def foreign_processes(self, uuid: str, own: set[int]) -> int | None:
        """Return how many processes compute on ``uuid`` that are not among the pids ``own``.

        None until the driver has listed one of ours: before that, its pids may be those of another namespace. Holds the
        driver's lock for milliseconds: not for the hot loop.
        """
        metric = "foreign_device_processes"
        with self._lock:
            listed = self._listed(uuid, metric)
            if listed is None:
                return None
            pids = {process.pid for process in listed}
            self._own_pids_seen |= bool(pids & own)
            if not self._own_pids_seen:
                self.availability[uuid][metric] = OWN_PIDS_UNSEEN
                return None
            return len(pids - own)

    def processes_memory(self, uuid: str) -> int | None:
        """Return the bytes that all compute processes hold on ``uuid``, contexts and libraries included; None where the
        driver does not tell of one of them. Not for the hot loop either."""
        with self._lock:
            listed = self._listed(uuid, "processes_memory_bytes")
            held = [process.memory_bytes for process in listed or ()]
            return None if listed is None or None in held else sum(amount or 0 for amount in held)

    def faults(self, uuid: str) -> dict[str, float | None]:
        """Return ``uncorrected_ecc_errors`` (since the driver was loaded), ``xid`` (the code of the last XID error
        since the last call; 0: none) and ``fields.SELDOM`` (since the last call). Not for the hot loop."""
        with self._lock:
            handle, nvml = self._handles.get(uuid), self._nvml
            if handle is None:
                return {}
            events = self._listening()
            # 1: uncorrected (nvmlMemoryErrorType_t), 0: since the driver was loaded (nvmlEccCounterType_t)
            errors = self._try(uuid, "uncorrected_ecc_errors", lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0))
            found = {"uncorrected_ecc_errors": errors, "xid": self._try(uuid, "xid", lambda: events.last_xid(uuid))}
            return {**found, **self._numbered(uuid, handle, fields.SELDOM)}

    def xids(self) -> list[dict[str, Any]]:
        """Return the XID errors of all devices since the first call of this or of ``faults``; see
        ``nvml_events.Events.heard``."""
        with self._lock:
            return self._listening().heard() if self._handles else []

    def _listening(self) -> nvml_events.Events:
        if self._events is None:
            self._events = nvml_events.Events(self._nvml, self._handles)
        return self._events

    def rig(self, uuid: str) -> dict[str, Any]:
        """Return how a device is set up, as far as that moves speed; what the driver does not tell is left out.

        ``power_limit_w``, ``ecc``, ``vbios``, ``application_clock_hz`` (of the multiprocessors), ``pcie`` (its greatest
        generation and the width of now) and ``nvlinks`` (those that are up).
        """
        with self._lock:
            handle, nvml = self._handles.get(uuid), self._nvml
            if handle is None:
                return {}
            asked: dict[str, Callable[[], Any]] = {
                "power_limit_w": lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) * _MILLI,
                "ecc": lambda: bool(nvml.nvmlDeviceGetEccMode(handle)[0]),
                "vbios": lambda: _text(nvml.nvmlDeviceGetVbiosVersion(handle)),
                "application_clock_hz": lambda: nvml.nvmlDeviceGetApplicationsClock(handle, nvml.NVML_CLOCK_SM) * _MEGA,
                "pcie": lambda: [
                    int(nvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
                    int(nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
                ],
                "nvlinks": lambda: self._links_up(handle),
            }
            found = {name: self._or_none(ask) for name, ask in asked.items()}
            return {name: value for name, value in found.items() if value is not None}

    def links(self, uuid: str) -> dict[str, int]:
        """Return ``pcie_width`` and ``pcie_most_width`` (lanes), and ``nvlinks`` (those that are up), as far as the
        driver tells."""
        with self._lock:
            handle, nvml = self._handles[uuid], self._nvml
            asked: dict[str, Callable[[], int]] = {
                "pcie_width": lambda: int(nvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
                "pcie_most_width": lambda: int(nvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
                "nvlinks": lambda: self._links_up(handle),
            }
            found = {name: self._or_none(ask) for name, ask in asked.items()}
            return {name: value for name, value in found.items() if value is not None}

    def _links_up(self, handle: Any) -> int:
        """How many NVLinks are up; an NVMLError where there are none at all."""
        states = [int(self._nvml.nvmlDeviceGetNvLinkState(handle, 0))]
        for link in range(1, self._nvml.NVML_NVLINK_MAX_LINKS):
            state = self._or_none(lambda: int(self._nvml.nvmlDeviceGetNvLinkState(handle, link)))  # noqa: B023
            states.append(state or 0)
        return sum(states)

    def settings(self, uuid: str) -> dict[str, Any]:
        """Return how a device is set, for whoever checks the machine: None where the driver does not tell.

        ``compute_capability`` ("9.0"), ``persistence``, ``ecc``, ``ecc_pending``, ``remapping_pending`` and
        ``remapping_failed`` (rows of memory), ``sm_clock_hz`` and the most of it, ``throttle_reasons``,
        ``uncorrected_ecc_errors``, and ``counters``: whether GPM's can be read (a word of ``availability``).
        """
        with self._lock:
            handle, nvml = self._handles[uuid], self._nvml
            ask = self._or_none
            unknown: list[Any] = [None] * 4
            ecc = ask(lambda: [bool(one) for one in nvml.nvmlDeviceGetEccMode(handle)]) or unknown
            rows = ask(lambda: list(nvml.nvmlDeviceGetRemappedRows(handle))) or unknown
            return {
                "compute_capability": ask(lambda: "{}.{}".format(*nvml.nvmlDeviceGetCudaComputeCapability(handle))),
                "persistence": ask(lambda: bool(nvml.nvmlDeviceGetPersistenceMode(handle))),
                "ecc": ecc[0],
                "ecc_pending": ecc[1],
                "remapping_pending": rows[2],
                "remapping_failed": rows[3],
                "sm_clock_hz": ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * _MEGA),
                "most_sm_clock_hz": ask(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM) * _MEGA),
                "throttle_reasons": ask(lambda: self._throttle_reasons(handle)),
                "uncorrected_ecc_errors": ask(lambda: int(nvml.nvmlDeviceGetTotalEccErrors(handle, 1, 0))),
                "counters": self._counters_can_be_read(handle),
            }

    def _counters_can_be_read(self, handle: Any) -> str:
        counters = gpm.Gpm(self._nvml, handle, self._clock)
        try:
            counters.read()
        except (self._nvml.NVMLError, AttributeError) as error:
            return _REFUSAL.get(getattr(error, "value", _FUNCTION_NOT_FOUND), UNSUPPORTED)
        finally:
            counters.close()
        return OK

    def _listed(self, uuid: str, metric: str) -> list[Process] | None:
        handle = self._handles.get(uuid)
        if handle is None:
            return None
        try:
            return self._try(uuid, metric, lambda: nvml_processes.listed(self._nvml, handle))
        except NoProcessList:
            self.availability[uuid][metric] = UNSUPPORTED
            return None

    def _try(self, uuid: str, metric: str, read: Callable[[], Value]) -> Value | None:
        """Read one metric. A refusal is final and noted; any other error only loses this reading."""
        known = self.availability.setdefault(uuid, {})
        if known.get(metric) in _FINAL:
            return None
        try:
            value = read()
        except self._nvml.NVMLError as error:
            code = getattr(error, "value", None)
            if code in _REFUSAL:
                known[metric] = _REFUSAL[code]
            return None
        known[metric] = OK
        return value

    def close(self) -> None:
        """End the session; afterwards there are no devices."""
        with self._lock:
            for counters in self._gpm.values():
                counters.close()
            self._gpm = {}
            if self._events is not None:
                self._events.close()
                self._events = None
            if self._handles or self.driver_version:
                self._handles = {}
                self._nvml.nvmlShutdown()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _near_cores(nvml: Any, handle: Any) -> tuple[int, ...]:
    """nvml.h, nvmlDeviceGetCpuAffinity: "the ideal CPU affinity for the device", as bits of 64-bit words."""
    words = -(-os.sysconf("SC_NPROCESSORS_CONF") // 64)
    mask = nvml.nvmlDeviceGetCpuAffinity(handle, words)
    return tuple(64 * index + bit for index in range(words) for bit in range(64) if mask[index] >> bit & 1)
