"""What a device can do at best, as measured: one row per device and arithmetic of a calibration."""

from collections.abc import Mapping
from dataclasses import dataclass

from orchestrator.domain.words.plain import Plain


@dataclass(frozen=True)
class Calibration(Plain):
    """The best of a stated set of shapes: ``flops_per_s`` is that of the median repetition of ``shape`` (m, n, k).

    ``spread_ratio`` is the distance of its 10th and 90th percentiles over the median; ``cores`` are those of a CPU
    device, 0 of a GPU; ``devices`` is how many of the attempt were under load at once, ``loaded_s`` how long before
    anything was timed. ``rates`` has every shape that was tried: {"1024x1024x1024": operations a second}.
    """

    node: str
    device_id: str
    device_kind: str
    device_name: str
    cores: int
    arithmetic: str
    flops_per_s: float
    shape: tuple[int, int, int]
    repetitions: int
    spread_ratio: float
    loaded_s: float
    devices: int
    library: str
    rates: Mapping[str, float]


@dataclass(frozen=True)
class DeviceKey:
    """What makes a calibration one of that device: a CPU device with other cores, or another model, is another one."""

    node: str
    device_id: str
    device_name: str
    cores: int
