"""What ``tbd doctor`` says of GPUs: driver against CUDA, persistence mode, ECC, MIG, permissions, clocks, and the
limits of shared and locked memory that NCCL and loaders run into."""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from orchestrator.cli.machine.findings import Finding
from orchestrator.reports.numbers import memory

Facts = Mapping[str, Any]

# Judgements. Docker gives a container 64 MiB of shared memory, in which a loader's workers hand over their batches.
SHARED_BYTES = 2**30
LOCKED_BYTES = 2**30

# NVML clocks event reasons (nvml.h) of a device that protects itself, even while nothing runs.
_SLOWED = 0x8 | 0x20 | 0x40 | 0x80


def gpus() -> Iterator[Finding]:
    """All findings on the GPUs of this machine as they are now."""
    from workers.node import gpu_choice, host_facts
    from workers.node.telemetry.nvml import Nvml

    nvml = Nvml()
    try:
        facts = host_facts.of_gpus(nvml, gpu_choice.Offer(nvml, os.environ))
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
        if facts["in_container"]:
            advice = (
                "A container loses its GPUs when systemd reads its units anew (NVIDIA's container toolkit before "
                "1.18): start it anew, with --device for each, or update the toolkit"
            )
        yield Finding("GPU devices", "broken", f"{', '.join(facts['closed_devices'])}: no permission", advice)
    if facts["driver"] is None:
        yield Finding("GPUs", "ok", f"none ({facts['reason']}): runs use CPU devices")
        return
    cuda = f", up to CUDA {facts['cuda'] // 1000}.{facts['cuda'] % 1000 // 10}" if facts["cuda"] else ""
    yield Finding("NVIDIA driver", "ok", f"{facts['driver']}{cuda}")
    if facts["is_measured"]:
        yield Finding("GPUs", "ok", "not asked: a run is measured there now")
    elif not facts["devices"]:
        advice = "Look at nvidia-smi and dmesg; in a container: were GPUs given to it (--gpus all)?"
        yield Finding("GPUs", "broken", f"the driver is there, and no GPU: {facts['reason']}", advice)
    for name, why in facts["unfit"].items():
        yield Finding(f"interpreter {name} (CUDA)", "note", "not for this machine", why)


def _offered(facts: Facts) -> Iterator[Finding]:
    alike: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for device in facts["devices"]:
        why = facts["withheld"].get(device["id"])
        level = "broken" if device["id"] in facts["ailments"] else "note"
        if why is None:
            yield Finding(f"GPU {device['number']}", "ok", f"{device['name']}, {device['id']}")
        else:
            alike.setdefault((level, why.removeprefix(f"GPU {device['number']}: ")), []).append(device)
    for (level, why), devices in alike.items():
        ids = [device["id"] for device in devices] if len(devices) == 1 else []
        told = ", ".join([*dict.fromkeys(device["name"] for device in devices), *ids])
        yield Finding(f"GPU {', '.join(device['number'] for device in devices)}", level, told, f"Withheld: {why}")
    known = {device["id"] for device in facts["devices"]} if facts["devices"] else set(facts["withheld"])
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
    if not facts["driver"] and not facts["infiniband"]:
        return
    limit = facts["locked_bytes"]
    if limit is not None and limit < LOCKED_BYTES:
        advice = (
            "NCCL and MPI over InfiniBand pin memory: LimitMEMLOCK=infinity in the agent's unit (as in deploy/ray), "
            "ulimit -l unlimited (limits.conf), docker run --ulimit memlock=-1"
        )
        yield Finding("locked memory", "note", f"at most {memory(limit)}", advice)
    else:
        yield Finding("locked memory", "ok", "unlimited" if limit is None else memory(limit))


def _fabric_manager(facts: Facts) -> Iterator[Finding]:
    if not facts["nvswitches"]:
        return
    if facts["fabric_manager"]:
        yield Finding("Fabric Manager", "ok", f"runs, for {facts['nvswitches']} NVSwitches")
    elif facts["in_container"]:
        yield Finding("Fabric Manager", "ok", "not visible from within a container")
    else:
        advice = (
            "Without it CUDA does not begin (error 802): install nvidia-fabricmanager in the version of the driver, "
            "and systemctl enable --now nvidia-fabricmanager"
        )
        yield Finding(
            "Fabric Manager", "broken", f"does not run, and there are {facts['nvswitches']} NVSwitches", advice
        )


def _direct(facts: Facts) -> Iterator[Finding]:
    """From GPU to GPU, and from GPU to network adapter, without the memory of the host between."""
    if not facts["driver"]:
        return
    if facts["infiniband"] and not facts["peer_memory"] and not facts["open_kernel_module"]:
        advice = (
            "What goes between nodes passes through the host's memory: modprobe nvidia-peermem, or the driver's open "
            "kernel modules (dma-buf)"
        )
        yield Finding("GPUDirect RDMA", "note", "neither nvidia-peermem nor dma-buf", advice)
    if facts["acs_bridges"]:
        advice = (
            "What goes from GPU to GPU over PCIe passes through the root, some times slower: switch ACS off in the "
            "BIOS, or by setpci (NCCL's troubleshooting); a virtual machine may need it"
        )
        yield Finding("ACS", "note", f"{facts['acs_bridges']} bridges redirect", advice)
    elif facts["acs_bridges"] is None:
        yield Finding("ACS", "ok", "not known: only root reads the settings of bridges (lspci -vvv | grep ACSCtl)")
    if translated := [kind for kind in facts["iommu"] if kind != "identity"]:
        advice = "GPUs reach each other and adapters slowly, or not at all: iommu=pt on the kernel's command line"
        yield Finding("IOMMU", "note", f"translates addresses ({', '.join(translated)})", advice)


def _counter_holders(facts: Facts) -> Iterator[Finding]:
    if facts["counter_holders"]:
        advice = (
            "Two cannot hold the counters of pipes and kernels: dcgmi profile --pause while kernels are profiled, "
            "--resume afterwards"
        )
        yield Finding("GPU counters", "note", f"held by {', '.join(facts['counter_holders'])}", advice)


def _compiler(facts: Facts) -> Iterator[Finding]:
    if "compiler" not in facts or facts["python_h"] is None:  # no driver, or no PyTorch yet
        return
    missing = [*([] if facts["compiler"] else ["a C compiler"]), *([] if facts["python_h"] else ["Python.h"])]
    if missing:
        advice = "The switch compile cannot work on GPUs: apt install gcc and the headers of that Python (python3-dev)"
        yield Finding("compile", "note", f"{' and '.join(missing)} not found", advice)


def _links(facts: Facts) -> Iterator[Finding]:
    numbers = {device["id"]: device["number"] for device in facts["devices"]}
    for uuid, reasons in facts["doubts"].items():
        yield Finding("GPU links", "note", f"GPU {numbers.get(uuid, uuid)}", "; ".join(reasons))


def _those(facts: Facts, which: Callable[[Mapping[str, Any]], Any]) -> str:
    """The numbers of the devices for which ``which`` holds, for a person."""
    found = [device["number"] for device in facts["devices"] if which(device)]
    return f"GPU {', '.join(found)}" if found else ""


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
    _fabric_manager,
    _direct,
    _counter_holders,
    _compiler,
    _links,
)
