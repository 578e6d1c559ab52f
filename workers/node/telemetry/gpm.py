"""NVIDIA's GPM counters: how much of a device's pipes worked between two samples, and what went over its links.

Called by ``nvml`` only.

Owns the samples. The driver counts between two of them, which have to lie 100 ms or more apart (NVML reference, "GPM");
the first two figures of a session were seen to be off and are dropped. Every metric has a return code of its own, and
what a metric that cannot be had is due to is told apart: ``unsupported`` (the device or the driver has no such counter)
and ``no_permission`` (it has, and this user may not read it).
"""

from __future__ import annotations

import time
from typing import Any, Callable

_PERCENT, _MIB = 0.01, 2.0**20
# reading -> GPM's number of it (nvml.h, nvmlGpmMetricId_t), and what its unit (percent, MiB/s) is in ours.
COUNTERS = {
    "sm_active_ratio": (2, _PERCENT),
    "sm_occupancy_ratio": (3, _PERCENT),
    "tensor_pipe_ratio": (5, _PERCENT),
    "dram_active_ratio": (10, _PERCENT),
    "fp32_pipe_ratio": (12, _PERCENT),
    "pcie_sent_bytes_per_s": (20, _MIB),
    "pcie_received_bytes_per_s": (21, _MIB),
    "nvlink_received_bytes_per_s": (60, _MIB),
    "nvlink_sent_bytes_per_s": (61, _MIB),
}
LEAST_WINDOW_S = 0.1
DROPPED = 2
OK_CODE = 0


class Gpm:
    """The samples of one device.

    Args:
        nvml: the driver's module, initialised.
        handle: the device.
    """

    def __init__(self, nvml: Any, handle: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._nvml = nvml
        self._handle = handle
        self._clock = clock
        self._samples: list[Any] = []  # the one in use, and one to spare
        self._taken_t = 0.0
        self._figures = 0

    def read(self) -> dict[str, Any]:
        """Return metric -> ratio since the last call, of traffic bytes a second; or the driver's return code (an int)
        where it refused one.

        Empty where there is nothing to say yet: at the first call, sooner than 100 ms after the last sample, and for
        the first two figures.

        Raises:
            NVMLError: the driver refused all of them.
        """
        now = self._clock()
        if not self._samples:
            self._begin(now)
            return {}
        if now - self._taken_t < LEAST_WINDOW_S:
            return {}
        nvml = self._nvml
        before, after = self._samples
        nvml.nvmlGpmSampleGet(self._handle, after)
        found = self._between(before, after)
        self._samples, self._taken_t = [after, before], now
        self._figures += 1
        refused = {name: value for name, value in found.items() if isinstance(value, int)}
        return found if self._figures > DROPPED else refused

    def _begin(self, now: float) -> None:
        nvml = self._nvml
        if not nvml.nvmlGpmQueryDeviceSupport(self._handle).isSupportedDevice:
            raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
        samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()]
        nvml.nvmlGpmSampleGet(self._handle, samples[0])
        self._samples, self._taken_t = samples, now

    def _between(self, before: Any, after: Any) -> dict[str, Any]:
        nvml = self._nvml
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(COUNTERS)
        asked.sample1, asked.sample2 = before, after
        for index, (number, _) in enumerate(COUNTERS.values()):
            asked.metrics[index].metricId = number
        nvml.nvmlGpmMetricsGet(asked)
        return {name: _value(asked.metrics[index], unit) for index, (name, (_, unit)) in enumerate(COUNTERS.items())}

    def close(self) -> None:
        """Give the samples back to the driver."""
        for sample in self._samples:
            self._nvml.nvmlGpmSampleFree(sample)
        self._samples = []


def _value(metric: Any, unit: float) -> float | int:
    code = int(metric.nvmlReturn)
    return code if code != OK_CODE else float(metric.value) * unit
