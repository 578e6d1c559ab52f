"""Where a measurement comes from, beyond the hardware: tbd's version, the clocks, what limits or perturbs processes."""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from pathlib import Path
from typing import Any

from workers.node import children, speed_settings
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
            **speed_settings.of_machine(),
            "process": speed_settings.of_process(children.environment(os.environ, {})),
            "load_average": speed_settings.text(Path("/proc/loadavg")),
        }
