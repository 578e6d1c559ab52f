"""Whether there is room for an environment, before it is downloaded: on each disk that it takes, and in a quota.

What pip downloads lies in the folder for temporary files first, then also in pip's cache, and last, installed, in the
environment. These may be three disks or one.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Callable

from workers.node import space
from workers.node.interpreters.definition import InterpreterError, base_folder


def check(name: str, download_bytes: int, installed_bytes: int, progress: Callable[[str], None]) -> None:
    """Look at the disks and quotas of all that the environment ``name`` takes.

    Raises:
        InterpreterError: one of them is too small; the message says which, and how to take another one.
        OSError: the folder of the environments is not there.
    """
    wanted = [(base_folder(), installed_bytes, "TBD_INTERPRETERS_DIR can name another folder")]
    wanted.append((Path(tempfile.gettempdir()), download_bytes, "TMPDIR can name another folder for temporary files"))
    cache = _pip_cache()
    if cache is not None:
        wanted.append((cache, download_bytes, "PIP_CACHE_DIR can name another folder, PIP_NO_CACHE_DIR=1 keeps none"))
    disks: dict[int, list[tuple[Path, int, str]]] = {}
    for folder, needed, way_out in wanted:
        there = next(parent for parent in (folder, *folder.parents) if parent.exists())
        disks.setdefault(os.stat(str(there)).st_dev, []).append((there, needed, way_out))
    for takers in disks.values():
        folder = takers[0][0]
        free, quota = space.free_bytes(folder), space.quota_left(folder)
        needed = sum(one[1] for one in takers)
        if quota.reason is not None:
            progress(f"{name}: {quota.reason}; the disk of {folder} has {size(free)} free")
        if min(free, free if quota.bytes is None else quota.bytes) < needed:
            left = f"{size(free)} free" + ("" if quota.bytes is None else f", {size(quota.bytes)} of it by your quota")
            raise InterpreterError(
                f"the interpreter {name} needs about {size(needed)} of disk while it is built; {folder} has {left}: "
                + "; ".join(one[2] for one in takers)
            )


def _pip_cache() -> Path | None:
    """Where pip keeps what it downloads, as far as the environment tells; None where it keeps nothing."""
    if os.environ.get("PIP_NO_CACHE_DIR", "") not in ("", "0", "off", "false"):
        return None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.environ.get("PIP_CACHE_DIR") or os.path.join(base, "pip"))


def size(count: int) -> str:
    """Return a number of bytes for a person."""
    return "%.1f GiB" % (count / 2**30) if count >= 2**30 else "%.0f MiB" % (count / 2**20)
