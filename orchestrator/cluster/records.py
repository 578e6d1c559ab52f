"""What a server leaves behind for its successor: small JSON files about processes that outlive it, and their end.

Standard library and ``workers.node.processes`` only: the watchdog of the embedded Ray runs on it and has to stay small.
"""

import contextlib
import hashlib
import json
import os
import signal
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workers.node import processes
from workers.node.code_version import ROOT
from workers.node.processes import ProcessId

# Linux: sockaddr_un.sun_path holds 108 bytes with the closing NUL.
LONGEST_SOCKET_PATH = 107


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write ``record`` so that a reader sees the whole of the old one or of the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(json.dumps({**record, "boot_id": boot_id()}, indent=1) + "\n", encoding="utf-8")
    new.replace(path)


def read_record(path: Path) -> dict[str, Any] | None:
    """The record at ``path``; None when there is none, or it speaks of processes of an earlier boot."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and record.get("boot_id") == boot_id() else None


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def short_folder(folder: Path, longest: int) -> Path:
    """``folder``, or where its path has more than ``longest`` bytes one with a short path that stands for it.

    Raises:
        PermissionError: somebody else made the short folder first.
    """
    if len(os.fsencode(folder)) <= longest:
        folder.mkdir(parents=True, exist_ok=True)
        return folder
    short = Path(tempfile.gettempdir()) / f"tbd-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]}"
    short.mkdir(mode=0o700, exist_ok=True)
    facts = short.lstat()
    if facts.st_uid != os.getuid() or facts.st_mode & 0o077 or short.is_symlink():
        raise PermissionError(f"{short} has to be a folder of this user alone (mode 0700)")
    return short


def package_path(inherited: str | None = None) -> str:
    """A PYTHONPATH under which ``orchestrator`` and ``workers`` of this very installation are found first.

    Installed from a wheel they are found without it; their ``site-packages`` in front would hide the standard library
    behind everything else that is installed there.
    """
    installed = ROOT in {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    return os.pathsep.join([*([] if installed else [str(ROOT)]), *([inherited] if inherited else [])])


def tail(path: Path, lines: int = 12) -> str:
    """The last lines of a text file, for an error message."""
    with contextlib.suppress(OSError):
        return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
    return ""


def in_session(session: ProcessId) -> list[ProcessId]:
    """The living processes of the session that ``session`` began, though it may have ended since.

    The kernel does not give the number away while a process of the session lives.
    """
    leader = processes.identify(session.pid)
    if leader is not None and leader != session:
        return []  # the number was given away: nobody of that session lives
    found = (processes.identify(pid) for pid in processes.pids() if _session_of(pid) == session.pid)
    return [process for process in found if process is not None and processes.alive(process)]


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def end_session(session: ProcessId, patience_s: float = 3.0) -> bool:
    """End every process of a session, politely first; True when none lives."""
    deadline = time.monotonic() + patience_s
    _signal_all(in_session(session), signal.SIGTERM)
    while in_session(session) and time.monotonic() < deadline:
        time.sleep(0.05)
    for _ in range(100):  # a dying parent may still have forked
        living = in_session(session)
        if not living:
            return True
        _signal_all(living, signal.SIGKILL)
        time.sleep(0.05)
    return False


def end_process(process: ProcessId, patience_s: float) -> bool:
    """End one process, politely first; True when it is dead."""
    for number, limit_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 5.0)):
        processes.kill(process, number)
        deadline = time.monotonic() + limit_s
        while processes.alive(process) and time.monotonic() < deadline:
            time.sleep(0.02)
    return not processes.alive(process)


def _signal_all(found: Iterable[ProcessId], number: int) -> None:
    for process in found:
        processes.kill(process, number)
