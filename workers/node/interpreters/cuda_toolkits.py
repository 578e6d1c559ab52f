"""Where this machine has a CUDA toolkit of a certain release, for what is compiled here.

A toolkit's folder is the one whose ``bin`` holds ``nvcc``: ``/usr/local/cuda-RELEASE`` of NVIDIA's packages, which
is on no PATH, or ``/usr`` of a distribution's.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_INSTALLED = "/usr/local/cuda-{release}"
_LIMIT_S = 30.0


def find(release: str) -> Path | None:
    """Return the folder of the toolkit of ``release`` ("11.8"), or None where there is none."""
    candidates = [Path(_INSTALLED.format(release=release)) / "bin" / "nvcc"]
    # All of PATH: the first one may be of another release.
    candidates += [Path(folder) / "nvcc" for folder in os.get_exec_path() if folder]
    return next((nvcc.parent.parent for nvcc in candidates if release_of(nvcc) == release), None)


def release_of(nvcc: Path) -> str | None:
    """Return the release that ``nvcc`` says it is of, or None where it cannot be run or says none."""
    try:
        done = subprocess.run(
            [str(nvcc), "--version"], capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    # "Cuda compilation tools, release 11.8, V11.8.89"
    return done.stdout.partition("release ")[2].partition(",")[0] or None
