"""Why nothing should be trained on a device although the driver shows it: what the driver itself says of its health.

Called by ``nvml`` only. Questions that a driver, an older nvidia-ml-py or an instance of MIG does not answer tell
nothing. Each reason names the way out.
"""

from __future__ import annotations

import ctypes
from typing import Any, Callable, Iterator

_RECOVERY_FIELD = 230
# nvml.h, nvmlDeviceGpuRecoveryAction_t
_RECOVERIES = {
    1: "the GPU has to be reset (nvidia-smi --gpu-reset)",
    2: "the host has to be started anew",
    3: "nothing may go from GPU to GPU until it has been reset",
    4: "the GPU has to be drained and reset (nvidia-smi --gpu-reset)",
    5: "the IMEX domain has to be set up anew",
    6: "the bus has to be reset: start the host anew",
    7: "the host has to be started anew",
}
# nvml.h, nvmlGpuFabricState_t: 0 is a device without such a fabric.
_FABRIC_STATES = {1: "has not begun", 2: "is still going on"}
_FABRIC_ENDED = 3
_UNKNOWN_ERROR = 999


def of(nvml: Any, handle: Any) -> Iterator[str]:
    """Yield the reasons, none for a device that is well.

    Args:
        nvml: the driver's module, initialised.
        handle: the device.
    """
    ask: Callable[[Callable[[], Any]], Any] = lambda question: _answer(nvml, question)  # noqa: E731
    unreadable = _code(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
    if unreadable == _UNKNOWN_ERROR:
        yield (
            "the driver answers with an unknown error. A container loses its GPUs when systemd reads its units anew "
            "(NVIDIA's container toolkit before 1.18): start the container anew; else look at dmesg"
        )
    action = ask(lambda: _field(nvml, handle, _RECOVERY_FIELD))
    if action:
        yield f"the driver asks for a recovery: {_RECOVERIES.get(action, f'action {action} of nvml.h')}"
    rows = ask(lambda: list(nvml.nvmlDeviceGetRemappedRows(handle))) or [0, 0, 0, 0]
    if rows[3]:
        yield "rows of its memory could not be replaced: the board has to be exchanged"
    elif rows[2]:
        yield "rows of its memory wait to be replaced, which a reset does (nvidia-smi --gpu-reset)"
    amiss = ask(lambda: _fabric_amiss(nvml, handle))
    if amiss:
        yield (
            f"its registration with the NVLink fabric {amiss}, without which CUDA does not begin "
            "(error 802): start nvidia-fabricmanager in the version of the driver (systemctl status "
            "nvidia-fabricmanager)"
        )


def _code(nvml: Any, question: Callable[[], Any]) -> int | None:
    try:
        question()
    except nvml.NVMLError as error:
        return getattr(error, "value", None)
    return None


def _answer(nvml: Any, question: Callable[[], Any]) -> Any:
    try:
        return question()
    except (nvml.NVMLError, AttributeError):
        return None


def _field(nvml: Any, handle: Any, number: int) -> int | None:
    (found,) = nvml.nvmlDeviceGetFieldValues(handle, [number])
    return int(found.value.uiVal) if found.nvmlReturn == 0 else None


def _fabric_amiss(nvml: Any, handle: Any) -> str | None:
    """How far its registration came, in words; None where it is through, or there is no such fabric."""
    told = nvml.c_nvmlGpuFabricInfo_t()
    nvml.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(told))
    if told.state == _FABRIC_ENDED and told.status:  # which says nothing before that
        return f"has failed (error {told.status} of NVML)"
    return _FABRIC_STATES.get(told.state)
