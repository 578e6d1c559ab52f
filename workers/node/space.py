"""The words for a full disk: where there is none left, how much is free there now, and what to do."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_MIB = 2**20


def free_bytes(folder: Path) -> int:
    """Return what may be written on the disk of ``folder`` by a user who is not root.

    Raises:
        OSError: the folder is not there.
    """
    return shutil.disk_usage(str(folder)).free


def words(node: str, folder: Path, error: object, kept: str = "attempts") -> str:
    """Return what a person has to know where ``error`` came of a full disk.

    Args:
        folder: where the node keeps its attempts, or what else ``kept`` says: the disk at fault unless the error names
            another one.
    """
    try:
        free = f"{free_bytes(folder) / _MIB:.1f} MiB free now"
    except OSError as unreadable:
        free = os.strerror(unreadable.errno or 0)
    return f"no space left on a disk of node {node}: {error}. Its {kept} are kept in {folder} ({free}): make room there"
