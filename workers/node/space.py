"""How much may still be written where, by the disk and by the user's quota; and the words for a full disk."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from pathlib import Path
from typing import NamedTuple

_MIB = 2**20

# linux/quota.h: QCMD(Q_GETQUOTA, type), whose limits are in blocks of 1 KiB.
_Q_GETQUOTA = 0x800007
_USER, _GROUP = 0, 1
_BLOCK = 1024
_MOUNTS = Path("/proc/self/mountinfo")


def free_bytes(folder: Path) -> int:
    """Return what may be written on the disk of ``folder`` by a user who is not root.

    Raises:
        OSError: the folder is not there.
    """
    return shutil.disk_usage(str(folder)).free


class _Quota(ctypes.Structure):
    """struct if_dqblk of linux/quota.h."""

    _fields_ = [
        ("hard_blocks", ctypes.c_uint64),
        ("soft_blocks", ctypes.c_uint64),
        ("used_bytes", ctypes.c_uint64),
        ("others", ctypes.c_uint64 * 5),
        ("valid", ctypes.c_uint32),
    ]


class QuotaLeft(NamedTuple):
    """``bytes``: None where no quota holds, or where it is not known; ``reason`` says why not."""

    bytes: int | None
    reason: str | None = None


def quota_left(folder: Path) -> QuotaLeft:
    """Return what the quotas of this user and of the user's groups leave on the disk of ``folder``: the least of them.

    Root has none. What the server of a network file system allows is not known here.

    Raises:
        OSError: the folder is not there.
    """
    if os.geteuid() == 0:
        return QuotaLeft(None)
    kind, device = _mounted(os.stat(str(folder)).st_dev)
    if kind == "tmpfs":
        return QuotaLeft(None)
    if not device.startswith("/dev/"):
        return QuotaLeft(None, f"whether there is a quota is not known on {kind or 'this file system'}")
    left = []
    for who, number in [(_USER, os.geteuid()), *((_GROUP, group) for group in {os.getegid(), *os.getgroups()})]:
        found = _Quota()
        library = ctypes.CDLL(None, use_errno=True)
        code = library.quotactl(_Q_GETQUOTA << 8 | who, device.encode(), number, ctypes.byref(found))
        trouble = ctypes.get_errno() if code else 0
        if trouble not in (0, errno.ESRCH):  # there is none
            return QuotaLeft(None, f"whether there is a quota on {device} is not known: {os.strerror(trouble)}")
        if not code and found.hard_blocks:
            left.append(max(0, found.hard_blocks * _BLOCK - found.used_bytes))
    return QuotaLeft(min(left, default=None))


def _mounted(device: int) -> tuple[str, str]:
    """Return (kind, source) of the file system with this number; empty where none is known by it."""
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in _MOUNTS.read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == wanted:
            kind, source, *_ = after.split()
            return kind, source
    return "", ""


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
