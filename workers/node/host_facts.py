"""What ``tbd doctor`` wants to know of a host, as its agent meets it: under the agent's own limits and rights.

Every function reads and changes nothing. Facts are what JSON can hold; None is not known. Paths are below ``root``:
tests make hosts up.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

from workers.node import children, gpu_choice, interpreters, speed_settings
from workers.node.interpreters import cuda_needs
from workers.node.inventory import governor_of, usable_cores
from workers.node.telemetry import procfs
from workers.node.telemetry.nvml import Nvml

ROOT = Path("/")

# PCI Express base specification, "ACS Extended Capability": its number; where its control word stands; the bits that
# send what goes from device to device up to the root: request and completion redirect.
_ACS, _ACS_CONTROL, _REDIRECTS = 0x000D, 6, 0x4 | 0x8
_FIRST_EXTENDED, _BRIDGE = 0x100, "0x0604"

# Programs that hold the counters of a GPU, by the name of their process (the kernel keeps 15 letters).
_COUNTER_HOLDERS = ("nv-hostengine", "dcgm-exporter", "nsys", "ncu")
_FABRIC_MANAGER = "nv-fabricmanage"


def of_gpus(nvml: Nvml, offer: gpu_choice.Offer, is_measured: bool = False, root: Path = ROOT) -> dict[str, Any]:
    """Return the facts of ``orchestrator.cli.machine.gpu_checks``.

    Args:
        is_measured: a run is measured here now: the driver is asked nothing that takes its lock for long.
    """
    gpus = [] if is_measured else offer.gpus
    devices = [{**gpu._asdict(), **nvml.settings(gpu.id), **_rig(nvml, gpu.id)} for gpu in gpus]
    gpus_there = [(one["name"], one["compute_capability"]) for one in devices]
    driver = cuda_needs.Driver(nvml.driver_version, gpus_there, nvml.reason, nvml.cuda_version)
    unfit = {name: driver.gpus and cuda_needs.unfit(name, driver) for name in interpreters.definitions()}
    return {
        "driver": nvml.driver_version,
        "cuda": nvml.cuda_version,
        "reason": nvml.reason,
        "is_measured": is_measured,
        "devices": devices,
        "withheld": offer.withheld,
        "ailments": offer.ailments,
        "doubts": offer.doubts,
        "left_out": offer.left_out,
        "unfit": {name: why for name, why in unfit.items() if why},
        "root": os.geteuid() == 0,
        "locked_bytes": _locked_bytes(),
        **of_host(root),
        **(_compiling() if nvml.driver_version else {}),
    }


def of_host(root: Path = ROOT) -> dict[str, Any]:
    """Return those of them that are files of the host and its processes."""
    processes = _processes(root)
    return {
        "closed_devices": [str(path) for path in sorted((root / "dev").glob("nvidia*")) if _is_closed(path)],
        "in_container": any((root / path).exists() for path in (".dockerenv", "run/.containerenv")),
        "profiling": speed_settings.text(root / "proc/driver/nvidia/params"),
        "shared_bytes": _size_of(root / "dev/shm"),
        "infiniband": (root / "sys/class/infiniband").is_dir(),
        "nvswitches": len(list((root / "dev").glob("nvidia-nvswitch[0-9]*"))),
        "fabric_manager": _FABRIC_MANAGER in processes,
        "counter_holders": sorted(processes & {name[:15] for name in _COUNTER_HOLDERS}),
        "peer_memory": any((root / "sys/module" / name).is_dir() for name in ("nvidia_peermem", "nv_peer_mem")),
        "open_kernel_module": "Open Kernel Module" in (speed_settings.text(root / "proc/driver/nvidia/version") or ""),
        "iommu": sorted(
            {text for path in (root / "sys/kernel/iommu_groups").glob("*/type") if (text := speed_settings.text(path))}
        ),
        "acs_bridges": _acs_bridges(root),
    }


def of_machine() -> dict[str, Any]:
    """Return the facts of ``orchestrator.cli.machine.machine_checks``."""
    cores = usable_cores()
    active, stolen = procfs.cores()
    return {
        **speed_settings.of_machine(),
        "cores": cores,
        "governors": sorted({governor for governor in map(governor_of, cores) if governor}),
        "inherited": speed_settings.of_process(children.environment(os.environ, {})),
        "preload_of_this_shell": os.environ.get("LD_PRELOAD"),
        "active_s": sum(active.values()),
        "stolen_s": stolen,
        "load": os.getloadavg()[0],
    }


def _rig(nvml: Nvml, uuid: str) -> dict[str, Any]:
    found = nvml.rig(uuid)
    return {name: found.get(name) for name in ("power_limit_w", "application_clock_hz")}


def _compiling() -> dict[str, Any]:
    """What Triton compiles its launchers with: a compiler, and the headers of PyTorch's Python."""
    compiler = next(filter(None, map(shutil.which, (os.environ.get("CC", "gcc"), "clang"))), None)
    ready = [found.python for found in interpreters.all_resolved() if found.name == "pytorch" and found.ready]
    return {"compiler": compiler, "python_h": _has_headers(ready[0] or sys.executable) if ready else None}


def _has_headers(python: str) -> bool | None:
    """Whether ``Python.h`` is there for the interpreter; None where it cannot be asked."""
    code = "import sysconfig, os; print(os.path.isfile(os.path.join(sysconfig.get_path('include'), 'Python.h')))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() == "True"


def _is_closed(path: Path) -> bool:
    """Whether the device may not be opened. Rights of a control group show only then (access(2) asks the file's)."""
    if not path.is_char_device():
        return not path.is_dir() and not os.access(path, os.R_OK)
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        return error.errno in (errno.EPERM, errno.EACCES)
    return False


def _processes(root: Path) -> set[str]:
    """The names of all processes, as the kernel keeps them."""
    return {name for path in (root / "proc").glob("[0-9]*/comm") if (name := speed_settings.text(path))}


def _acs_bridges(root: Path) -> int | None:
    """How many PCI bridges redirect what goes from device to device; None where their settings may not be read."""
    found, unknown = 0, False
    for device in (root / "sys/bus/pci/devices").glob("*"):
        if not (speed_settings.text(device / "class") or "").startswith(_BRIDGE):
            continue
        try:
            config = (device / "config").read_bytes()
        except OSError:
            config = b""
        unknown |= len(config) <= _FIRST_EXTENDED  # only root sees more than the first 64 bytes
        found += any(control & _REDIRECTS for control in _acs_controls(config))
    return None if unknown and not found else found


def _acs_controls(config: bytes) -> Iterator[int]:
    """The control words of the ACS capabilities in the settings of a device."""
    word = lambda at, size: int.from_bytes(config[at : at + size], "little")  # noqa: E731
    at, seen = _FIRST_EXTENDED, set()
    while _FIRST_EXTENDED <= at < len(config) - 8 and at not in seen:
        seen.add(at)
        head = word(at, 4)
        if head & 0xFFFF == _ACS:
            yield word(at + _ACS_CONTROL, 2)
        at = head >> 20


def _size_of(folder: Path) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def _locked_bytes() -> int | None:
    """The limit of locked memory of this process; None: there is none."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft
