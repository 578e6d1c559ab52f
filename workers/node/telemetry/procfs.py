"""Counters of the host and its processes, read straight from /proc and /sys.

Each function reads once and returns totals since boot (or the present value); differences are the sampler's. What
cannot be read is left out. /proc directly, because a sample has to be cheap: it is taken beside a running measurement.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk's own sectors are (Documentation/admin-guide/iostats.rst)


def _read(path: str) -> str:
    return _read_bytes(path).decode("utf-8", "replace")


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def cores() -> tuple[dict[int, float], float | None]:
    """Return (active seconds by logical core, seconds stolen by the hypervisor from all of them).

    Active is user, nice, system, irq and softirq; guest time is part of user already.
    """
    active: dict[int, float] = {}
    stolen: float | None = None
    for line in _read_bytes("/proc/stat").partition(b"\nintr ")[0].splitlines():
        name, user, nice, system, _idle, _iowait, irq, softirq, *more = line.split()
        if name == b"cpu":
            stolen = int(more[0]) / TICKS_PER_S if more else None
        else:
            active[int(name[3:])] = (int(user) + int(nice) + int(system) + int(irq) + int(softirq)) / TICKS_PER_S
    return active, stolen


def memory() -> tuple[int | None, int | None]:
    """Return (bytes that programs can still have, bytes of swap that there is)."""
    text = _read_bytes("/proc/meminfo")
    return _kibibytes(text, b"MemAvailable:"), _kibibytes(text, b"SwapTotal:")


def _kibibytes(text: bytes, name: bytes) -> int | None:
    _, found, after = text.partition(name)
    return int(after.split(None, 1)[0]) * 1024 if found else None


def swap_in_bytes() -> int | None:
    """Return what was read back from swap since boot. Costs more than the rest: pointless where there is no swap."""
    found = _read_bytes("/proc/vmstat").partition(b"\npswpin ")[2]
    return int(found.split(None, 1)[0]) * PAGE_BYTES if found else None


def interfaces() -> dict[str, tuple[int, int]]:
    """Return (bytes received, bytes sent) by network interface that has ever carried something."""
    found = {}
    for line in _read_bytes("/proc/net/dev").splitlines()[2:]:
        name, _, counters = line.partition(b":")
        fields = counters.split()
        received, sent = int(fields[0]), int(fields[8])
        if received or sent:
            found[name.strip().decode()] = (received, sent)
    return found


# Counted in words of four bytes (Documentation/ABI/stable/sysfs-class-infiniband).
_WORD_BYTES = 4
_PORT_ERRORS = ("symbol_error", "port_rcv_errors", "port_xmit_discards", "link_error_recovery", "link_downed")


def rdma_ports(root: str = "/sys/class/infiniband") -> dict[str, tuple[int, int]]:
    """Return (bytes received, bytes sent) by port of an RDMA adapter (``mlx5_0:1``), which no IP interface counts."""
    found = {}
    for name, folder in _ports(root):
        received, sent = (_number(f"{folder}/counters/{counter}") for counter in ("port_rcv_data", "port_xmit_data"))
        if received is not None and sent is not None:
            found[name] = (received * _WORD_BYTES, sent * _WORD_BYTES)
    return found


def rdma_errors(root: str = "/sys/class/infiniband") -> dict[str, int]:
    """Return the errors of each port: of symbols, packets and links. Not for the hot loop."""
    found = {}
    for name, folder in _ports(root):
        counted = [_number(f"{folder}/counters/{counter}") for counter in _PORT_ERRORS]
        if any(one is not None for one in counted):
            found[name] = sum(one or 0 for one in counted)
    return found


@lru_cache(maxsize=4)
def _ports(root: str) -> tuple[tuple[str, str], ...]:
    """Return (name, folder) of each port that there is."""
    try:
        return tuple(
            (f"{device}:{port}", f"{root}/{device}/ports/{port}")
            for device in sorted(os.listdir(root))
            for port in sorted(os.listdir(f"{root}/{device}/ports"))
        )
    except OSError:
        return ()


def _number(path: str) -> int | None:
    text = _read_bytes(path).strip()
    return int(text) if text.isdigit() else None


@lru_cache(maxsize=1)
def _disks() -> tuple[bytes, ...]:
    """Return whole disks: not their partitions, nor what is only made of other disks or of memory."""
    try:
        names = os.listdir(b"/sys/block")
    except OSError:
        return ()
    return tuple(name for name in names if not re.match(rb"(loop|ram|zram|dm-|md|sr|fd)", name))


def disks() -> tuple[int, int] | None:
    """Return (bytes read, bytes written) by all disks, or None when the kernel does not say."""
    names = _disks()
    read = written = 0
    text = _read_bytes("/proc/diskstats")
    for line in text.splitlines():
        fields = line.split()
        if fields[2] in names:
            read += int(fields[5]) * _SECTOR_BYTES
            written += int(fields[9]) * _SECTOR_BYTES
    return (read, written) if text else None


def frequency_hz() -> float | None:
    """Return the mean current frequency of all cores. Not for the hot loop: some kernels ask every core."""
    values: list[float] = []
    for core in cores()[0]:
        text = _read(f"/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq").strip()
        if text.isdigit():
            values.append(int(text) * 1e3)
    if not values:
        values = [float(value) * 1e6 for value in re.findall(r"^cpu MHz\s*:\s*([\d.]+)", _read("/proc/cpuinfo"), re.M)]
    return sum(values) / len(values) if values else None
