"""What moves the speed of a training and is neither its software nor the kind of machine: the machine's settings, and
what a training inherits from the agent that starts it.

    of_machine   what an administrator sets for everything that runs here: it belongs to the fingerprint's *rig*
    of_process   what a process hands on to its children: it belongs to the *subject*, because two choices of it can be
                 tried side by side on one machine, as two versions of a library can

Each reads a few small files, and changes nothing. What the kernel does not show is None.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Mapping

# Variables that allocators, loaders, and frameworks with their libraries read: by name, or how the name begins. Those
# that only say where something lies are left out: another home folder is no other subject. (Terraform's begin with TF_
# too, and some of them are secrets.)
VARIABLES = (
    *("GLIBC_TUNABLES", "MALLOC_", "TCMALLOC_", "MIMALLOC_", "_RJEM_MALLOC_", "LD_LIBRARY_PATH", "LD_BIND_NOW"),
    *("ONEDNN_", "DNNL_", "NVIDIA_TF32_OVERRIDE", "CUBLAS_", "CUDNN_", "NCCL_", "GLOO_", "UCX_", "OMPI_MCA_"),
    *("CUDA_DEVICE_", "CUDA_FORCE_", "CUDA_LAUNCH_BLOCKING", "CUDA_MODULE_LOADING", "CUDA_MPS_ACTIVE_"),
    *("TF_CUDNN_", "TF_DETERMINISTIC_", "TF_DISABLE_", "TF_ENABLE_", "TF_FORCE_", "TF_GPU_", "TF_NUM_", "TF_XLA_"),
    *("XLA_", "TORCH_ALLOW_", "TORCH_CUDNN_", "TORCH_NCCL_", "TORCHINDUCTOR_", "PYTORCH_", "MXNET_", "HOROVOD_"),
)

# Linux: include/uapi/linux/personality.h
_ADDR_NO_RANDOMIZE = 0x0040000

# cgroup v1 writes "unlimited" as the largest multiple of a page below 2**63
_UNLIMITED = 2**62


def of_machine(root: Path = Path("/")) -> dict[str, Any]:
    """Return the settings of this machine as a JSON object.

    ``transparent_hugepages`` and its ``_defrag`` are the words chosen; ``reserved_huge_pages`` is a count;
    ``address_space_randomization`` is 0, 1 or 2; ``smt`` is the kernel's word (on, off, notsupported, …); ``preloaded``
    are the libraries that every program loads; ``cgroup`` is what ``cgroup_limits`` returns.
    """
    cpu = root / "sys/devices/system/cpu"
    pages = root / "sys/kernel/mm/transparent_hugepage"
    return {
        "transparent_hugepages": chosen(pages / "enabled"),
        "transparent_hugepages_defrag": chosen(pages / "defrag"),
        "reserved_huge_pages": _number(root / "proc/sys/vm/nr_hugepages"),
        "address_space_randomization": text(root / "proc/sys/kernel/randomize_va_space"),
        "smt": text(cpu / "smt/control"),
        "frequency_boost": _boost(cpu),
        "energy_preference": text(cpu / "cpu0/cpufreq/energy_performance_preference"),
        "numa_balancing": text(root / "proc/sys/kernel/numa_balancing"),
        "preloaded": (text(root / "etc/ld.so.preload") or "").split(),
        "cgroup": cgroup_limits(root),
    }


def of_process(environment: Mapping[str, str], root: Path = Path("/")) -> dict[str, Any]:
    """Return what this process hands on to its children.

    Args:
        environment: the variables that they inherit.
    """
    personality = text(root / "proc/self/personality")
    status = text(root / "proc/self/status") or ""
    huge = re.search(r"^THP_enabled:\s*(\d)", status, re.M)
    files = {"/etc/nccl.conf": root / "etc/nccl.conf", "~/.nccl.conf": Path(os.path.expanduser("~/.nccl.conf"))}
    nccl = {name: said for name, path in files.items() if (said := text(path)) is not None}
    return {
        # NCCL reads them as if they were variables.
        **({"nccl_files": nccl} if nccl else {}),
        "environment": {name: environment[name] for name in sorted(environment) if name.startswith(VARIABLES)},
        "address_space_randomized": None if personality is None else not int(personality, 16) & _ADDR_NO_RANDOMIZE,
        "huge_pages_allowed": None if huge is None else huge.group(1) == "1",
    }


def cgroup_limits(root: Path = Path("/")) -> dict[str, float | None]:
    """Return {cpu_cores, memory_bytes} that the control group and those around it allow: the least of them counts.
    None is unlimited, or not shown."""
    folders = {}
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _number_of, controllers, folder = line.split(":", 2)
        for controller in controllers.split(","):
            folders[controller] = folder
    mount = root / "sys/fs/cgroup"
    unified = _and_around(mount, folders.get("", "/"))
    old_cpu = _and_around(mount / "cpu", folders.get("cpu", "/"))
    old_memory = _and_around(mount / "memory", folders.get("memory", "/"))
    cores = [*map(_quota, unified), *map(_old_quota, old_cpu)]
    memory = [_number(folder / "memory.max") for folder in unified]
    memory += [_number(folder / "memory.limit_in_bytes") for folder in old_memory]
    limits = [float(value) for value in memory if value is not None and value < _UNLIMITED]
    return {
        "cpu_cores": min((value for value in cores if value is not None), default=None),
        "memory_bytes": min(limits, default=None),
    }


def _and_around(mount: Path, folder: str) -> list[Path]:
    """The folder of a control group and those of the groups that it lies in, down from the root of the hierarchy."""
    parts = [part for part in folder.split("/") if part not in ("", "..")]
    return [mount.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]


def _quota(folder: Path) -> float | None:
    quota, _, period = (text(folder / "cpu.max") or "").partition(" ")
    return float(quota) / float(period) if quota.isdigit() and period.isdigit() else None


def _old_quota(folder: Path) -> float | None:
    quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
    return quota / period if quota is not None and period else None


def _boost(cpu: Path) -> bool | None:
    """Whether the processor may run faster than its nominal clock; Intel's driver has a switch of its own."""
    boost, no_turbo = text(cpu / "cpufreq/boost"), text(cpu / "intel_pstate/no_turbo")
    if boost is not None:
        return boost == "1"
    return None if no_turbo is None else no_turbo == "0"


def chosen(path: Path) -> str | None:
    """Return the word in brackets of a kernel setting like ``always [madvise] never``."""
    found = text(path)
    return found[found.find("[") + 1 : found.find("]")] if found and "[" in found else found


def _number(path: Path) -> int | None:
    found = text(path) or ""
    return int(found) if found.isdigit() else None  # "max" and -1 are no limit


def text(path: Path) -> str | None:
    """Return what a small file of the kernel says, or None where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
