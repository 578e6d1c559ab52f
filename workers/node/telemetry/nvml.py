"""The one place that talks to NVIDIA's driver (through NVML); no other module imports pynvml.

Owns which metrics of which device can be had: each is tried once, and what then cannot be read (``no_permission``,
``unsupported``) is not asked for again. A host without a driver is a normal case: it has no GPUs, and ``reason`` says
why. All calls go through one lock: NVML serialises them in the driver anyway, and one of them at a time is what a
measurement beside can bear.
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from workers.node.telemetry import gpm

OK = "ok"
NO_PERMISSION = "no_permission"
UNSUPPORTED = "unsupported"

# nvml.h, nvmlReturn_t
_NOT_SUPPORTED = (3, 13, 25)  # NOT_SUPPORTED, FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH
_NO_PERMISSION = (4,)
_REFUSAL = {**dict.fromkeys(_NO_PERMISSION, NO_PERMISSION), **dict.fromkeys(_NOT_SUPPORTED, UNSUPPORTED)}

_MILLI = 1e-3
_MEGA = 1e6


class Gpu(NamedTuple):
    """A GPU as the inventory shows it; addressed by UUID, which survives reordering and hiding."""

    id: str
    name: str
    memory_bytes: int | None
    power_limit_w: float | None


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
        self._lock = threading.Lock()
        self._nvml = module if module is not None else _driver()
        self._handles: dict[str, Any] = {}
        self.reason: str | None = None
        self.driver_version: str | None = None
        self.availability: dict[str, dict[str, str]] = {}
        self._open()

    def _open(self) -> None:
        if self._nvml is None:
            self.reason = "the Python package nvidia-ml-py is not installed"
            return
        try:
            self._nvml.nvmlInit()
            self.driver_version = _text(self._nvml.nvmlSystemGetDriverVersion())
            for index in range(self._nvml.nvmlDeviceGetCount()):
                handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
                self._handles[_text(self._nvml.nvmlDeviceGetUUID(handle))] = handle
        except self._nvml.NVMLError as error:
            self.reason = f"NVML: {error}"
            return
        if not self._handles:
            self.reason = "the NVIDIA driver shows no device"

    def gpus(self) -> list[Gpu]:
        """Return the GPUs of this host, in the driver's order."""
        with self._lock:
            return [self._gpu(uuid, handle) for uuid, handle in self._handles.items()]

    def _gpu(self, uuid: str, handle: Any) -> Gpu:
        nvml = self._nvml
        memory = self._try(uuid, "memory_bytes", lambda: float(nvml.nvmlDeviceGetMemoryInfo(handle).total))
        limit = self._try(uuid, "power_limit_w", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) * _MILLI)
        name = _text(nvml.nvmlDeviceGetName(handle))
        return Gpu(uuid, name, int(memory) if memory is not None else None, limit)

    def read(self, uuid: str) -> dict[str, float | None]:
        """Return what the device ``uuid`` shows now, in the units of ``protocol.READINGS``.

        ``energy_j`` is the counter's total since the driver was loaded; everything else is the present value. A metric
        that cannot be read is None; ``availability`` says why. An unknown device has no metrics.
        """
        with self._lock:
            handle = self._handles.get(uuid)
            if handle is None:
                return {}
            found = {metric: self._try(uuid, metric, read) for metric, read in self._readers(handle).items()}
            return {**found, **self._counters(uuid, handle)}

    def _counters(self, uuid: str, handle: Any) -> dict[str, float | None]:
        """The counters of ``gpm.METRICS`` since the last reading; None where there is none, as with other metrics."""
        known = self.availability.setdefault(uuid, {})
        nothing: dict[str, float | None] = dict.fromkeys(gpm.METRICS)
        if all(known.get(metric, OK) != OK for metric in gpm.METRICS):
            return nothing
        try:
            found = self._gpm.setdefault(uuid, gpm.Gpm(self._nvml, handle, self._clock)).read()
        except (self._nvml.NVMLError, AttributeError) as error:
            # An older nvidia-ml-py has no such functions at all.
            code = getattr(error, "value", None) if isinstance(error, self._nvml.NVMLError) else _NOT_SUPPORTED[0]
            found = {metric: code for metric in gpm.METRICS if code in _REFUSAL}
        for metric, value in found.items():
            if not isinstance(value, int):
                known[metric] = OK
            elif value in _REFUSAL:
                known[metric] = _REFUSAL[value]
        return {**nothing, **{metric: value for metric, value in found.items() if not isinstance(value, int)}}

    def _readers(self, handle: Any) -> Mapping[str, Callable[[], float]]:
        nvml = self._nvml
        reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        if reasons is None:  # the name before driver 535
            reasons = nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        return {
            "busy_ratio": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
            "device_memory_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) * _MILLI,
            "energy_j": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) * _MILLI,
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "sm_clock_hz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * _MEGA,
            "memory_clock_hz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM) * _MEGA,
            "throttle_reasons": lambda: reasons(handle),
        }

    def foreign_processes(self, uuid: str, own: set[int]) -> int | None:
        """Return how many processes compute on ``uuid`` that are not among the pids ``own``.

        Holds the driver's lock for milliseconds: not for the hot loop.
        """
        metric = "foreign_device_processes"
        with self._lock:
            handle = self._handles.get(uuid)
            if handle is None:
                return None
            count = self._try(
                uuid,
                metric,
                lambda: sum(item.pid not in own for item in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)),
            )
            return int(count) if count is not None else None

    def processes_memory(self, uuid: str) -> int | None:
        """Return the bytes that all compute processes hold on ``uuid``, contexts and libraries included; None where the
        driver does not tell of one of them. Not for the hot loop either."""
        with self._lock:
            handle = self._handles.get(uuid)
            if handle is None:
                return None
            held = self._try(
                uuid,
                "processes_memory_bytes",
                lambda: _total(
                    [item.usedGpuMemory for item in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle)]
                ),
            )
            return None if held is None or held < 0 else int(held)

    def _try(self, uuid: str, metric: str, read: Callable[[], float]) -> float | None:
        """Read one metric. A refusal is final and noted; any other error only loses this reading."""
        known = self.availability.setdefault(uuid, {})
        if known.get(metric, OK) != OK:
            return None
        try:
            value = read()
        except self._nvml.NVMLError as error:
            code = getattr(error, "value", None)
            if code in _NOT_SUPPORTED:
                known[metric] = UNSUPPORTED
            elif code in _NO_PERMISSION:
                known[metric] = NO_PERMISSION
            return None
        known[metric] = OK
        return value

    def close(self) -> None:
        """End the session; afterwards there are no devices."""
        with self._lock:
            for counters in self._gpm.values():
                counters.close()
            self._gpm = {}
            if self._handles or self.driver_version:
                self._handles = {}
                self._nvml.nvmlShutdown()


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _total(amounts: Sequence[int | None]) -> float:
    """The sum, or -1 where one is not known: that is no refusal, and may be known the next time."""
    return -1.0 if None in amounts else float(sum(amount or 0 for amount in amounts))
