"""Counters of the host and its processes, read straight from /proc and /sys.

Each function reads once and returns totals since boot (or the present value); differences are the sampler's. What
cannot be read is left out. /proc directly, because a sample has to be cheap: it is taken beside a running measurement.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from workers.node import processes

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

_SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk's own sectors are (Documentation/admin-guide/iostats.rst)


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def cores() -> tuple[dict[int, float], float | None]:
    """Return (active seconds by logical core, seconds stolen by the hypervisor from all of them).

    Active is user, nice, system, irq and softirq; guest time is part of user already.
    """
    active: dict[int, float] = {}
    stolen: float | None = None
    for line in _read("/proc/stat").splitlines():
        if not line.startswith("cpu"):
            break
        name, user, nice, system, _idle, _iowait, irq, softirq, *more = line.split()
        if name == "cpu":
            stolen = int(more[0]) / TICKS_PER_S if more else None
        else:
            active[int(name[3:])] = (int(user) + int(nice) + int(system) + int(irq) + int(softirq)) / TICKS_PER_S
    return active, stolen


def memory_available_bytes() -> int | None:
    for line in _read("/proc/meminfo").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def swap_in_bytes() -> int | None:
    for line in _read("/proc/vmstat").splitlines():
        if line.startswith("pswpin "):
            return int(line.split()[1]) * PAGE_BYTES
    return None


def interfaces() -> dict[str, tuple[int, int]]:
    """Return (bytes received, bytes sent) by network interface that has ever carried something."""
    found = {}
    for line in _read("/proc/net/dev").splitlines()[2:]:
        name, _, counters = line.partition(":")
        fields = counters.split()
        received, sent = int(fields[0]), int(fields[8])
        if received or sent:
            found[name.strip()] = (received, sent)
    return found


@lru_cache(maxsize=1)
def _disks() -> tuple[str, ...]:
    """Return whole disks: not their partitions, nor what is only made of other disks or of memory."""
    try:
        names = os.listdir("/sys/block")
    except OSError:
        return ()
    return tuple(name for name in names if not re.match(r"(loop|ram|zram|dm-|md|sr|fd)", name))


def disks() -> tuple[int, int] | None:
    """Return (bytes read, bytes written) by all disks, or None when the kernel does not say."""
    names = _disks()
    read = written = 0
    text = _read("/proc/diskstats")
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


def resident_bytes(pid: int) -> int:
    """Return the resident set of a process; 0 when it is gone."""
    fields = _read(f"/proc/{pid}/statm").split()
    return int(fields[1]) * PAGE_BYTES if len(fields) > 1 else 0


# tbd's and Ray's own processes by their command lines. They are reported, not counted as foreign load.
_OWN = re.compile(
    rb"workers\.node|orchestrator[./]|(^|/)tbd\0|raylet|gcs_server|^ray::|ray/_private|ray/dashboard|ray/autoscaler|"
    rb"ray[/_]core/|default_worker\.py|runtime_env"
)


def own_processes() -> list[processes.ProcessId]:
    """Return the processes of tbd and Ray on this host, this one included. Walks all of /proc: not for the hot loop."""
    found = []
    for pid in processes.pids():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read(4096)
        except OSError:
            continue
        if pid == os.getpid() or _OWN.search(line):
            process = processes.identify(pid)
            if process:
                found.append(process)
    return found
