"""How well a device is, and what the driver's errors (XIDs) mean. Only types live here; ``orchestrator.services.facts.
catalog`` reads the facts (``suites/xids.toml``)."""

from dataclasses import dataclass
from enum import StrEnum


class DeviceState(StrEnum):
    """``suspect``: used where the others do not suffice; ``bad``: withheld."""

    WELL = "well"
    SUSPECT = "suspect"
    BAD = "bad"


@dataclass(frozen=True)
class Health:
    """The state of a device, and why it is not well."""

    state: DeviceState = DeviceState.WELL
    reasons: tuple[str, ...] = ()


class Fault(StrEnum):
    """Whose fault an XID is, by NVIDIA's catalogue."""

    DEVICE = "device"
    DOUBTFUL = "doubtful"
    PROGRAM = "program"
    NONE = "none"


@dataclass(frozen=True)
class Xid:
    """An XID of the catalogue: what it means, and whose fault it is."""

    meaning: str
    fault: Fault
