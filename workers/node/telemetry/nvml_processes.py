"""Which processes compute on a device, as the driver lists them, old drivers too. Called by ``nvml`` only."""

from __future__ import annotations

from typing import Any, NamedTuple

# nvml.h: the list of version 3 came with driver 510, that of version 2 with 450; the layout of their rows is the same.
# nvidia-ml-py asks for the newest only, and raises something that is no NVMLError where the driver lacks it.
_LISTS = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
_FUNCTION_NOT_FOUND = 13


class NoProcessList(Exception):  # noqa: N818 - reads as what happened
    """The driver has none of the lists that nvidia-ml-py can read."""


class Process(NamedTuple):
    """A process by the driver's pid; the bytes that it holds, None where the driver does not tell (some say 0)."""

    pid: int
    memory_bytes: int | None


def listed(nvml: Any, handle: Any) -> list[Process]:
    """Return the processes that compute on a device.

    Raises:
        NVMLError: the driver refuses.
        NoProcessList: the driver has no such function.
    """
    functions = [getattr(nvml, name) for name in _LISTS if hasattr(nvml, name)]
    for function in functions or [nvml.nvmlDeviceGetComputeRunningProcesses]:
        try:
            found = function(handle)
        except nvml.NVMLError as error:
            if getattr(error, "value", None) != _FUNCTION_NOT_FOUND:
                raise
        else:
            return [Process(one.pid, getattr(one, "usedGpuMemory", None) or None) for one in found]
    raise NoProcessList
