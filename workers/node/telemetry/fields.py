"""What NVML tells of a device by number, several values at one call (NVML reference, "Field Value Queries").

Called by ``nvml`` only.

Owns the totals of the last reading: what counts from the loading of the driver on is told as what came since. A total
that went back (the counter wrapped, or the driver began anew) tells nothing of that time. Each value has a return code
of its own, and one that is refused leaves the others as they are.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping, NamedTuple

_KIB = 1024.0
_NANO = 1e-9
# All links of a device (nvml.h: "specify the linkId in scopeId … UINT_MAX for all").
_ALL_LINKS = 0xFFFFFFFF
OK_CODE = 0
# nvml.h, nvmlValueType_t -> the member of the union that holds it.
_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


class Field(NamedTuple):
    """``number``: nvml.h, NVML_FI_DEV_…; ``unit``: one of its in ours. ``grows``: it is a total, and a reading has what
    came since the last; ``per_s``: divided by the seconds since."""

    number: int
    unit: float = 1.0
    grows: bool = False
    per_s: bool = False
    scope: int = 0


# reading -> field. Seconds in which a cause held the clocks down: 74 is power, 269 to 271 are heat as seen by the
# driver and by the device, and the power brake.
OFTEN: Mapping[str, Field] = {
    "memory_temperature_c": Field(82),
    "power_capped_s": Field(74, _NANO, grows=True),
    "software_slowed_s": Field(269, _NANO, grows=True),
    "hardware_slowed_s": Field(270, _NANO, grows=True),
    "power_braked_s": Field(271, _NANO, grows=True),
}
# Devices before Hopper have no GPM, whose readings these are too: PCIe in bytes, NVLink in KiB.
TRAFFIC: Mapping[str, Field] = {
    "pcie_sent_bytes_per_s": Field(197, grows=True, per_s=True),
    "pcie_received_bytes_per_s": Field(198, grows=True, per_s=True),
    "nvlink_sent_bytes_per_s": Field(138, _KIB, grows=True, per_s=True, scope=_ALL_LINKS),
    "nvlink_received_bytes_per_s": Field(139, _KIB, grows=True, per_s=True, scope=_ALL_LINKS),
}
# Errors: asked for each ten seconds.
SELDOM: Mapping[str, Field] = {
    "corrected_ecc_errors": Field(3, grows=True),
    "remapped_rows": Field(143, grows=True),
    "pcie_replays": Field(94, grows=True),
    "nvlink_replays": Field(161, grows=True),
    "nvlink_recoveries": Field(162, grows=True),
    "nvlink_crc_errors": Field(163, grows=True),
}


class Fields:
    """The fields of one device.

    Args:
        nvml: the driver's module, initialised.
        handle: the device.
    """

    def __init__(self, nvml: Any, handle: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._nvml = nvml
        self._handle = handle
        self._clock = clock
        self._before: dict[str, tuple[float, float]] = {}  # reading -> (when, total)

    def read(self, wanted: Mapping[str, Field]) -> dict[str, Any]:
        """Return reading -> its value now, None where there is none yet; or the driver's return code (an int) where it
        refused one.

        Raises:
            NVMLError: the driver refused all of them.
            AttributeError: this nvidia-ml-py cannot ask.
        """
        asked = [(field.number, field.scope) if field.scope else field.number for field in wanted.values()]
        now, found = self._clock(), self._nvml.nvmlDeviceGetFieldValues(self._handle, asked)
        told: dict[str, Any] = {}
        for (name, field), one in zip(wanted.items(), found):
            code, member = one.nvmlReturn, _MEMBERS.get(one.valueType)
            if code != OK_CODE or member is None:
                told[name] = int(code) or None
            else:
                told[name] = self._value(name, field, getattr(one.value, member) * field.unit, now)
        return told

    def _value(self, name: str, field: Field, value: float, now: float) -> float | None:
        if not field.grows:
            return value
        before = self._before.get(name)
        self._before[name] = now, value
        if before is None or value < before[1] or now <= before[0]:
            return None
        return (value - before[1]) / (now - before[0] if field.per_s else 1.0)
