"""A machine with GPUs that are not there: its driver's library, made here, and the situation that it answers from.

Keys of a situation: ``driver`` (version), ``cuda`` (13000 is 13.0), ``pids`` (``translated``; ``host``: of a namespace
that is not this one; ``none``: the list of processes is empty), ``error.FUNCTION`` (NVML's return code of a function).
Keys of a GPU: ``uuid``, ``name``, ``memory_bytes``, ``used_bytes``, ``process_bytes``, ``busy_percent``, ``power_w``,
``lost``, ``xid``, ``ecc``, ``mig`` (how many instances), ``gpm``, ``gpm.NUMBER`` and what else ``nvml.c`` reads.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.support.service import until
from workers.node.interpreters import cuda_needs

SOURCE = Path(__file__).with_name("nvml.c")
LIBRARY = "libnvidia-ml.so.1"
H100 = "NVIDIA H100 80GB HBM3"
# GPM's numbers of what tbd reads, in percent; of traffic (PCIe sent and received, NVLink received and sent) in MiB/s.
GPM = {"gpm": 1, "gpm.2": 90, "gpm.3": 40, "gpm.5": 30, "gpm.10": 50, "gpm.12": 20}
TRAFFIC = {"gpm.20": 100, "gpm.21": 200, "gpm.60": 3000, "gpm.61": 4000}
# Values by number: the memory's temperature, nanoseconds that clocks were held down by cause, errors.
FIELDS = {f"field.{number}": 0 for number in (74, 269, 270, 271, 3, 143, 94, 161, 162, 163)} | {"field.82": 60}

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the laboratory's driver")


class Machine:
    """A situation, in ``folder``; the library that answers from it is made at once.

    Args:
        gpus: how many there are.
        driver: its version; what it is too old for is not in the library.
        keys: more keys of the situation.
        each: keys of every GPU.
    """

    def __init__(
        self,
        folder: Path,
        gpus: int = 1,
        driver: str = "580.95.05",
        each: Mapping[str, Any] | None = None,
        **keys: Any,
    ) -> None:
        self.folder = folder / f"machine-{uuid.uuid4().hex[:8]}"
        self.folder.mkdir(parents=True)
        self.uuids = [f"GPU-{uuid.uuid4()}" for _ in range(gpus)]
        self._keys: dict[str, Any] = {"driver": driver, "cuda": 13000, "gpus": gpus, "pids": "translated", **keys}
        for index, one in enumerate(self.uuids):
            for name, value in {
                "uuid": one,
                "name": H100,
                "ecc": 1,
                **GPM,
                **TRAFFIC,
                **FIELDS,
                **(each or {}),
            }.items():
                self._keys[f"gpu.{index}.{name}"] = value
            for number in range(1, int(self._keys.get(f"gpu.{index}.mig", 0)) + 1):
                instance = f"gpu.{index}.mig.{number}"
                self._keys[f"{instance}.uuid"] = f"MIG-{uuid.uuid4()}"
                self._keys[f"{instance}.name"] = f"{H100} MIG 1g.10gb"
                self._keys[f"{instance}.memory_bytes"] = 10 * 10**9
        self.library = self.folder / LIBRARY
        version = f"-DDRIVER={driver.partition('.')[0]}"
        options = ["-shared", "-fPIC", f"-Wl,-soname,{LIBRARY}", "-o", str(self.library)]
        subprocess.run(["cc", version, *options, str(SOURCE)], check=True)
        self._write()

    def change(self, **keys: Any) -> None:
        """Change the situation while it is in use. Dots of a key are written as two underscores."""
        for name, value in keys.items():
            name = name.replace("__", ".")
            if value is None:
                self._keys.pop(name, None)
            else:
                self._keys[name] = value
        self._write()

    def of(self, name: str) -> Any:
        """Return the value of a key."""
        return self._keys[name]

    def _write(self) -> None:
        new = self.folder / "new"
        new.write_text("".join(f"{name}={value}\n" for name, value in self._keys.items()))
        os.replace(new, self.folder / "situation")

    @property
    def environment(self) -> dict[str, str]:
        """What a process needs to be on this machine: its Python bindings find the library as any other."""
        return {"LD_LIBRARY_PATH": str(self.folder), "TBD_LAB_SITUATION": str(self.folder / "situation")}

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Have this process be on the machine as long as the block. The loader has read its path long ago: the real
        bindings are given the library that it would have found."""
        before = pynvml.nvmlLib, os.environ.get("TBD_LAB_SITUATION")
        _forget_the_driver()
        pynvml.nvmlLib = ctypes.CDLL(str(self.library))
        os.environ["TBD_LAB_SITUATION"] = self.environment["TBD_LAB_SITUATION"]
        try:
            yield
        finally:
            pynvml.nvmlLib = before[0]
            _forget_the_driver()
            os.environ.pop("TBD_LAB_SITUATION", None)
            if before[1] is not None:
                os.environ["TBD_LAB_SITUATION"] = before[1]

    @contextlib.contextmanager
    def somebody_computes_on(self, index: int) -> Iterator[int]:
        """Have a process of somebody else compute on a GPU as long as the block; yields its pid."""
        environment = {**os.environ, "TBD_LAB_COMPUTES": self.uuids[index]}
        process = subprocess.Popen(["sleep", "600"], env=environment)
        try:
            # Popen returns before the kernel shows the environment of what it has started.
            until(lambda: b"TBD_LAB_COMPUTES" in Path(f"/proc/{process.pid}/environ").read_bytes(), 10, 0.005)
            yield process.pid
        finally:
            process.kill()
            process.wait()


def _forget_the_driver() -> None:
    """What this process has kept of one: another machine has another one."""
    pynvml._nvmlGetFunctionPointer_cache.clear()
    cuda_needs.driver_here.cache_clear()
