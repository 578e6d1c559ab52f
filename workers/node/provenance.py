"""Where a measurement comes from, beyond the hardware: tbd's version, the clocks, what limits or perturbs processes."""

from __future__ import annotations

import platform
import sys
import threading
import time
from pathlib import Path
from typing import Any

from workers.node.code_version import code_version

_KEPT_S = 30.0


class Provenance:
    """Reads provenance; what git says is kept for half a minute, since asking takes longer than starting a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._code: dict[str, Any] = {}
        self._read_at = float("-inf")

    def read(self) -> dict[str, Any]:
        """Return all of it as a JSON object."""
        with self._lock:
            if time.monotonic() - self._read_at > _KEPT_S:
                self._code = code_version()
                self._read_at = time.monotonic()
            code = self._code
        return {
            "tbd": code,
            "agent_python": platform.python_version(),
            "agent_executable": sys.executable,
            "clocks": {"monotonic_s": time.monotonic(), "wall_s": time.time()},
            "cgroup": cgroup_limits(),
            "transparent_hugepages": _chosen(Path("/sys/kernel/mm/transparent_hugepage/enabled")),
            "address_space_randomization": _text(Path("/proc/sys/kernel/randomize_va_space")),
            "load_average": _text(Path("/proc/loadavg")),
        }


def cgroup_limits() -> dict[str, float | None]:
    """Return {cpu_cores, memory_bytes} that the control group allows; null is unlimited, or not shown."""
    folders = {}
    for line in (_text(Path("/proc/self/cgroup")) or "").splitlines():
        _number, controllers, folder = line.split(":", 2)
        for controller in controllers.split(","):
            folders[controller] = folder
    unified = Path("/sys/fs/cgroup" + folders.get("", "/"))
    cpu = (_text(unified / "cpu.max") or "").split()
    if len(cpu) == 2 and cpu[0].isdigit():
        quota, period = float(cpu[0]), float(cpu[1])
    else:
        old = Path("/sys/fs/cgroup/cpu" + folders.get("cpu", "/"))
        quota = float(_text(old / "cpu.cfs_quota_us") or -1)
        period = float(_text(old / "cpu.cfs_period_us") or 1)
    memory = _text(unified / "memory.max") or _text(
        Path("/sys/fs/cgroup/memory" + folders.get("memory", "/")) / "memory.limit_in_bytes"
    )
    # cgroup v1 writes "unlimited" as the largest multiple of a page below 2**63
    limited = memory is not None and memory.isdigit() and int(memory) < 2**62
    return {
        "cpu_cores": quota / period if quota > 0 else None,
        "memory_bytes": float(memory) if limited and memory is not None else None,
    }


def _chosen(path: Path) -> str | None:
    """Return the word in brackets of a kernel setting like ``always [madvise] never``."""
    text = _text(path)
    return text[text.find("[") + 1 : text.find("]")] if text and "[" in text else text


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
