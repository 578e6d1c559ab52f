"""What ``tbd doctor`` says of GPUs: driver against CUDA, persistence mode, ECC, MIG, permissions, clocks, and the
limits of shared and locked memory that NCCL and loaders run into."""

import math
import os
import resource
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from orchestrator.cli.machine.findings import Finding
from orchestrator.reports.numbers import memory

Facts = Mapping[str, Any]

# Judgements. Docker gives a container 64 MiB of shared memory, in which a loader's workers hand over their batches.
SHARED_BYTES = 2**30
LOCKED_BYTES = 2**30

# NVML clocks event reasons (nvml.h) of a device that protects itself, even while nothing runs.
_SLOWED = 0x8 | 0x20 | 0x40 | 0x80

_WHERE_PROFILING_IS_SAID = Path("/proc/driver/nvidia/params")


def gpus() -> Iterator[Finding]:
    """All findings on the GPUs of this machine as they are now."""
    from workers.node import gpu_choice, interpreters
    from workers.node.interpreters import cuda_needs
    from workers.node.telemetry.nvml import Nvml

    nvml = Nvml()
    try:
        offer = gpu_choice.Offer(nvml, os.environ)
        devices = [{**gpu._asdict(), **nvml.settings(gpu.id)} for gpu in nvml.gpus()]
        driver = cuda_needs.Driver(
            nvml.driver_version, [(one["name"], one["compute_capability"]) for one in devices], nvml.reason
        )
        needs = {name: cuda_needs.of(name) for name in interpreters.definitions()}
        facts = {
            "driver": nvml.driver_version,
            "cuda": nvml.cuda_version,
            "reason": nvml.reason,
            "devices": devices,
            "withheld": offer.withheld,
            "left_out": offer.left_out,
            "unfit": {
                name: why
                for name, needed in needs.items()
                for why in [needed and driver.gpus and cuda_needs.trouble(needed, driver)]
                if why
            },
            "closed_devices": [str(path) for path in Path("/dev").glob("nvidia*") if not os.access(path, os.R_OK)],
            "profiling": _text(_WHERE_PROFILING_IS_SAID),
            "root": os.geteuid() == 0,
            "shared_bytes": _size_of("/dev/shm"),
            "locked_bytes": _locked_bytes(),
            "infiniband": os.path.isdir("/sys/class/infiniband"),
        }
    finally:
        nvml.close()
    yield from findings(facts)


def findings(facts: Facts) -> Iterator[Finding]:
    """The findings on ``facts`` (those that ``gpus`` collects)."""
    for check in CHECKS:
        yield from check(facts)


def _driver(facts: Facts) -> Iterator[Finding]:
    if facts["closed_devices"]:
        advice = "Let this user read them (group video or render), or give them to the container (--gpus all)"
        yield Finding("GPU devices", "broken", f"{', '.join(facts['closed_devices'])}: no permission", advice)
    if facts["driver"] is None:
        yield Finding("GPUs", "ok", f"none ({facts['reason']}): runs use CPU devices")
        return
    cuda = f", up to CUDA {facts['cuda'] // 1000}.{facts['cuda'] % 1000 // 10}" if facts["cuda"] else ""
    yield Finding("NVIDIA driver", "ok", f"{facts['driver']}{cuda}")
    if not facts["devices"]:
        advice = "Look at nvidia-smi and dmesg; in a container: were GPUs given to it (--gpus all)?"
        yield Finding("GPUs", "broken", f"the driver is there, and no GPU: {facts['reason']}", advice)
    for name, why in facts["unfit"].items():
        yield Finding(f"interpreter {name} (CUDA)", "note", "not for this machine", why)


def _offered(facts: Facts) -> Iterator[Finding]:
    for device in facts["devices"]:
        why = facts["withheld"].get(device["id"])
        told = f"{device['name']}, {device['id']}"
        yield Finding(f"GPU {device['number']}", "note" if why else "ok", told, f"Withheld: {why}" if why else "")
    known = {device["id"] for device in facts["devices"]}
    for why in (why for uuid, why in facts["withheld"].items() if uuid not in known):
        yield Finding("GPUs", "broken", why, "What has fallen off the bus is back after a reset of the host")
    if facts["left_out"]:
        yield Finding("GPUs", "ok", facts["left_out"])


def _persistence(facts: Facts) -> Iterator[Finding]:
    off = _those(facts, lambda device: device["persistence"] is False)
    if off:
        advice = (
            "Faster starts, and settings that last: nvidia-smi -pm 1, or the service nvidia-persistenced. Now the "
            "driver lets go of a GPU whenever nobody uses it"
        )
        yield Finding("persistence mode", "note", f"off: {off}", advice)


def _memory_errors(facts: Facts) -> Iterator[Finding]:
    off = _those(facts, lambda device: device["ecc"] is False)
    if off:
        advice = "Errors of its memory go unseen: nvidia-smi -e 1, then restart the host"
        yield Finding("ECC", "note", f"off: {off}", advice)
    changing = _those(facts, lambda device: device["ecc_pending"] not in (None, device["ecc"]))
    if changing:
        yield Finding("ECC", "note", f"changes with the next restart: {changing}", "Restart before you measure")
    failed = _those(facts, lambda device: device["remapping_failed"])
    if failed:
        yield Finding("GPU memory", "broken", f"rows could not be remapped: {failed}", "Have it replaced")
    bad = _those(facts, lambda device: device["remapping_pending"] or device["uncorrected_ecc_errors"])
    if bad:
        advice = "Reset it, so that bad rows are remapped: nvidia-smi --gpu-reset, or restart the host"
        yield Finding("GPU memory", "note", f"errors beyond correction since the driver was loaded: {bad}", advice)


def _mig(facts: Facts) -> Iterator[Finding]:
    parts = _those(facts, lambda device: ":" in device["number"])
    if parts:
        advice = (
            "Each is a device with a series of its own, and NCCL does not join several. For the whole GPU: "
            "nvidia-smi -mig 0"
        )
        yield Finding("MIG", "note", f"instances: {parts}", advice)


def _permissions(facts: Facts) -> Iterator[Finding]:
    closed = _those(facts, lambda device: device["counters"] == "no_permission")
    admin_only = "RmProfilingAdminOnly: 1" in (facts["profiling"] or "") and not facts["root"]
    if closed or admin_only:
        advice = (
            "No counters of pipes and kernels: options nvidia NVreg_RestrictProfilingToAdminUsers=0 in "
            "/etc/modprobe.d, or CAP_SYS_ADMIN for the agent (developer.nvidia.com/ERR_NVGPUCTRPERM)"
        )
        yield Finding("GPU counters", "note", f"not for this user{': ' + closed if closed else ''}", advice)
    without = _those(facts, lambda device: device["counters"] == "unsupported" and ":" not in device["number"])
    if without:
        told = f"no GPM here (it came with Hopper, and driver 520): {without}"
        yield Finding("GPU counters", "ok", f"{told}; pipes and links are not read")


def _clocks(facts: Facts) -> Iterator[Finding]:
    slowed = _those(facts, lambda device: (device["throttle_reasons"] or 0) & _SLOWED)
    if slowed:
        advice = (
            "It protects itself from heat or for lack of power: see nvidia-smi -q -d PERFORMANCE, cooling and cables"
        )
        yield Finding("GPU clocks", "note", f"held down: {slowed}", advice)
    most = sorted({device["most_sm_clock_hz"] for device in facts["devices"] if device["most_sm_clock_hz"]})
    if most and not slowed:
        told = ", ".join(f"{clock / 1e6:.0f} MHz" for clock in most)
        advice = "Calmer, and slower: lock one that is held under load (nvidia-smi -lgc MHZ,MHZ; -rgc frees it)"
        yield Finding("GPU clocks", "ok", f"up to {told}", advice)


def _shared_memory(facts: Facts) -> Iterator[Finding]:
    size = facts["shared_bytes"]
    if size is None:
        yield Finding("/dev/shm", "note", "not there", "Loaders' workers and NCCL need it: mount a tmpfs there")
    elif size < SHARED_BYTES:
        advice = "Loaders' workers and NCCL hand over data in it: docker run --shm-size=8g, or --ipc=host"
        yield Finding("/dev/shm", "note", memory(size), advice)
    else:
        yield Finding("/dev/shm", "ok", memory(size))


def _locked_memory(facts: Facts) -> Iterator[Finding]:
    if not facts["devices"] and not facts["infiniband"]:
        return
    limit = facts["locked_bytes"]
    if limit < LOCKED_BYTES:
        advice = (
            "NCCL and MPI over InfiniBand pin memory: ulimit -l unlimited (limits.conf; docker run --ulimit memlock=-1)"
        )
        yield Finding("locked memory", "note", f"at most {memory(int(limit))}", advice)
    else:
        yield Finding("locked memory", "ok", "unlimited" if limit == math.inf else memory(int(limit)))


def _those(facts: Facts, which: Callable[[Mapping[str, Any]], Any]) -> str:
    """The numbers of the devices for which ``which`` holds, for a person."""
    found = [device["number"] for device in facts["devices"] if which(device)]
    return f"GPU {', '.join(found)}" if found else ""


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _size_of(folder: str) -> int | None:
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def _locked_bytes() -> float:
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return math.inf if soft == resource.RLIM_INFINITY else float(soft)


CHECKS: tuple[Callable[[Facts], Iterator[Finding]], ...] = (
    _driver,
    _offered,
    _persistence,
    _memory_errors,
    _mig,
    _permissions,
    _clocks,
    _shared_memory,
    _locked_memory,
)
