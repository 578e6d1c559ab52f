"""What this node is: its processor, memory, devices, interfaces, and what cannot be had and why.

Owns the offering of devices: a GPU by its UUID (which of them: ``workers.node.gpu_choice``); a CPU device as a set of
logical cores (``TBD_CPU_DEVICES`` of them, default 1, the cores that this process may use divided evenly). Where there
are cores enough, one is kept for tbd itself and nothing of an attempt runs on it (``TBD_HOUSEKEEPING_CORES``). A fact
that cannot be read is null, with the reason under its name in ``unavailable``.
"""

from __future__ import annotations

import os
import platform
import re
import socket
from pathlib import Path
from typing import Any, Sequence

from workers.node import datasets, fabrics, interpreters, space, speed_settings
from workers.node.gpu_choice import Offer
from workers.node.telemetry.nvml import Nvml

_CPU = Path("/sys/devices/system/cpu")

# Of fewer cores none is kept for tbd: it would take more from the training than tbd does. A judgement.
LEAST_CORES = 4


class Inventory:
    """The facts of this node. What does not change is read once.

    ``offer`` has the GPUs.

    Args:
        node: the name of the node; the host's name where None.
        directory: where attempts are kept; the free space is that of its disk.

    Raises:
        ValueError: ``TBD_CPU_DEVICES`` or ``TBD_HOUSEKEEPING_CORES`` is no count, or more than there are cores;
            ``TBD_FABRICS`` or ``TBD_GPUS`` is wrong.
    """

    def __init__(self, node: str | None, directory: Path, nvml: Nvml) -> None:
        self._directory = directory
        self._nvml = nvml
        self._unavailable: dict[str, str] = {}
        cores = usable_cores()
        kept = housekeeping_cores(cores, _count("TBD_CPU_DEVICES", 1, len(cores)))
        self.offer = Offer(nvml, os.environ, sorted(_without(cores, kept), key=_place))
        self._facts = self._read(node, nvml)

    def look(self) -> None:
        """See who uses the GPUs; call it only while no attempt runs here."""
        self.offer.look()

    def read(self) -> dict[str, Any]:
        """Return all facts as a JSON object."""
        ready = {found.name: found.definition for found in interpreters.all_resolved() if found.ready}
        free = space.free_bytes(self._directory)
        governor = self._governor(self._facts["cores"])  # whoever has the right may change it while the agent lives
        own = {gpu.id for gpu in self.offer.gpus}  # other parts of this host may be other nodes
        changing = {
            "governor": governor,
            "devices": [*self._facts["devices"], *self.offer.devices()],
            "gpus": [{"id": gpu.id, "number": gpu.number, "name": gpu.name} for gpu in self.offer.gpus],
            "gpus_withheld": dict(self.offer.withheld),
            "gpu_ailments": dict(self.offer.ailments),
            "gpu_doubts": dict(self.offer.doubts),
            "gpu_xids": [xid for xid in self._nvml.xids() if xid["device"] in own],
            "interpreters": ready,
            "interpreters_unfit": interpreters.unfit() if self.offer.gpus else {},
            "datasets": datasets.offered(),
            "prepared_datasets": datasets.prepared(),
            "disk_free_bytes": free,
            "attempts_folder": str(self._directory),
        }
        return {**self._facts, **changing, "unavailable": dict(self._unavailable)}

    def _read(self, node: str | None, nvml: Nvml) -> dict[str, Any]:
        cores = usable_cores()
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        model = cpu_model()
        if model is None:
            self._unavailable["cpu_model"] = "/proc/cpuinfo names no model"
        why_fewer = nvml.reason or self.offer.left_out
        if why_fewer:
            self._unavailable["gpus"] = why_fewer
        count = _count("TBD_CPU_DEVICES", 1, len(cores))
        kept = housekeeping_cores(cores, count)
        return {
            "node": node or socket.gethostname(),
            "hostname": socket.gethostname(),
            "boot_id": boot_id(),
            "cpu_model": model,
            "cores": cores,
            "housekeeping_cores": kept,
            "physical_cores": len({_place(core)[:2] for core in cores}),
            "memory_bytes": memory_bytes,
            "kernel": platform.release(),
            "os": _os_name(),
            "devices": cpu_devices(_without(cores, kept), count, model or platform.machine(), memory_bytes),
            "driver_version": nvml.driver_version,
            "cuda_version": nvml.cuda_version,
            **fabrics.of_this_node(),
        }

    def _governor(self, cores: Sequence[int]) -> str | None:
        values = {governor for governor in map(governor_of, cores) if governor is not None}
        if not values:
            self._unavailable["governor"] = "the kernel shows no frequency governor (usual in a virtual machine)"
            return None
        self._unavailable.pop("governor", None)
        return values.pop() if len(values) == 1 else "mixed"


def boot_id() -> str | None:
    """Return the kernel's id of this boot: another one means that nothing of before lives any more."""
    return speed_settings.text(Path("/proc/sys/kernel/random/boot_id"))


def cpu_model() -> str | None:
    match = re.search(
        r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", speed_settings.text(Path("/proc/cpuinfo")) or "", re.M
    )
    return match.group(1).strip() if match else None


def usable_cores() -> list[int]:
    """Return the logical cores that this process may use; its cpuset is within its affinity."""
    return sorted(os.sched_getaffinity(0))


def governor_of(core: int) -> str | None:
    return speed_settings.text(_CPU / (f"cpu{core}") / "cpufreq" / "scaling_governor")


def _place(core: int) -> tuple[int, int, int]:
    """Return (package, physical core, logical core)."""
    topology = _CPU / (f"cpu{core}") / "topology"
    package = speed_settings.text(topology / "physical_package_id") or "0"
    return int(package), int(speed_settings.text(topology / "core_id") or core), core


def _count(name: str, default: int, most: int) -> int:
    text = os.environ.get(name) or str(default)
    if not text.isdigit() or not 0 <= int(text) <= most:
        raise ValueError(f"{name}={text}: it is a count from 0 to {most}, as this node has its cores")
    return int(text)


def housekeeping_cores(cores: Sequence[int], devices: int) -> list[int]:
    """Return the logical cores that are tbd's own: the last ones.

    By default one of four or more, and all hyper-threads of the last physical core where there are four of those, for
    they share what computes. None of fewer, nor where more than a quarter of each device's cores would go.

    Args:
        devices: among how many devices the other cores are divided.

    Raises:
        ValueError: ``TBD_HOUSEKEEPING_CORES`` is no count, or leaves the devices too few cores.
    """
    ordered = sorted(cores, key=_place)
    physical = [_place(core)[:2] for core in ordered]
    usual = physical.count(physical[-1]) if len(set(physical)) >= LEAST_CORES else 1
    size, left = (count // max(1, devices) for count in (len(ordered), len(ordered) - usual))
    if len(ordered) < LEAST_CORES or left < 0.75 * size:
        usual = 0
    count = _count("TBD_HOUSEKEEPING_CORES", usual, max(0, len(ordered) - max(1, devices)))
    return sorted(ordered[len(ordered) - count :])


def _without(cores: Sequence[int], kept: Sequence[int]) -> list[int]:
    return [core for core in cores if core not in kept]


def cpu_devices(cores: Sequence[int], count: int, name: str, memory_bytes: int) -> list[dict[str, Any]]:
    """Divide ``cores`` into ``count`` devices of equal size; what is left over belongs to none.

    Hyper-threads of one physical core, and cores of one package, stay together.
    """
    if count == 0:
        return []
    ordered = sorted(cores, key=_place)
    size = len(ordered) // count
    shares = [sorted(ordered[index * size : (index + 1) * size]) for index in range(count)]
    return [
        {
            "id": "cpu:" + ranges(share),
            "kind": "cpu",
            "name": name,
            "cores": share,
            "memory_bytes": memory_bytes // count,
        }
        for share in shares
    ]


def ranges(numbers: Sequence[int]) -> str:
    """Return sorted ``numbers`` as the kernel writes sets of cores: ``0-3,8``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def _os_name() -> str | None:
    match = re.search(r'^PRETTY_NAME="?([^"\n]+)', speed_settings.text(Path("/etc/os-release")) or "", re.M)
    return match.group(1) if match else None
