"""What the driver answers to each question that NVML's bindings have for a device, as it is: a fixture for tests.

``python3 -m tests.gpu.nvml_dump FILE``. Questions only: nothing is set.
"""

import json
import sys
from pathlib import Path
from typing import Any, Dict

import pynvml

# Functions of one argument, the device's handle, which all begin so.
QUESTIONS = ("nvmlDeviceGet", "nvmlDeviceIs")
# They wait, take a lot of memory, or want another kind of handle.
LEFT_OUT = ("Accounting", "Vgpu", "VGpu", "FBCSessions", "EncoderSessions", "GpuInstance", "HandleBy")


def answers() -> Dict[str, Any]:
    """Return {driver, devices: [{question: answer, or the driver's error}]}."""
    pynvml.nvmlInit()
    try:
        told = {"driver": _plain(pynvml.nvmlSystemGetDriverVersion())}
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return {**told, "devices": [{**_of(handle), "fields": _fields(handle)} for handle in handles]}
    finally:
        pynvml.nvmlShutdown()


def _of(handle: Any) -> Dict[str, Any]:
    found = {}
    for name in sorted(dir(pynvml)):
        if not name.startswith(QUESTIONS) or any(word in name for word in LEFT_OUT):
            continue
        try:
            found[name] = _plain(getattr(pynvml, name)(handle))
        except pynvml.NVMLError as error:
            found[name] = {"error": error.value}
        except Exception as error:  # it wants more than a handle, or the binding itself is at fault
            found[name] = {"not_asked": type(error).__name__}
    return found


def _fields(handle: Any) -> Dict[str, Any]:
    """Return {name: value, or the driver's error} of the fields that ``nvmlDeviceGetFieldValues`` takes by number."""
    kinds = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
    found = {}
    for name in sorted(dir(pynvml)):
        number = getattr(pynvml, name)
        if not name.startswith("NVML_FI_DEV_") or not isinstance(number, int):
            continue
        try:
            (told,) = pynvml.nvmlDeviceGetFieldValues(handle, [number])
        except pynvml.NVMLError as error:
            found[name] = {"error": error.value}
            continue
        kind = kinds.get(told.valueType)
        found[name] = _plain(getattr(told.value, kind)) if told.nvmlReturn == 0 and kind else {"error": told.nvmlReturn}
    return found


def _plain(value: Any, deep: int = 4) -> Any:
    """Return a structure of C as what JSON can hold."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if deep == 0:
        return repr(value)[:100]
    fields = getattr(value, "_fields_", None)
    if fields is not None:
        return {field[0]: _plain(getattr(value, field[0]), deep - 1) for field in fields}
    if isinstance(value, (list, tuple)) or hasattr(value, "_length_"):
        return [_plain(one, deep - 1) for one in list(value)[:64]]
    return repr(value)[:100]


def main(path: str) -> None:
    """Write the answers."""
    Path(path).write_text(json.dumps(answers(), indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
