"""The data directory: one owner at a time, whose address stands inside for the other commands."""

import fcntl
import json
import os
import socket
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from orchestrator.domain.around.server import Server, way_out
from orchestrator.domain.words.errors import DataDirectoryInUse, SettingsError

_LOCK = "owner.lock"
_ADDRESS = "server.json"


class DataDirectory:
    """Owns ``path`` from ``open`` to ``close``. The lock ends with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    def open(self, inherited: int | None = None) -> "DataDirectory":
        """Take the lock. ``inherited`` is its file descriptor where the program that became this one holds it already.

        Raises:
            DataDirectoryInUse: another process has it; the message says where it listens.
            SettingsError: the folder cannot be made or written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            place: Path | int = self.path / _LOCK if inherited is None else inherited
            lock = open(place, "a+", encoding="utf-8")  # noqa: SIM115 - held until close
            os.set_inheritable(lock.fileno(), False)
        except OSError as error:
            raise SettingsError(
                f"the data directory {self.path} cannot be used: {error}; give another TBD_DATA_DIR"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            owner = Server.of(server_of(self.path) or {})
            raise DataDirectoryInUse(str(self.path), str(owner or "an address"), way_out(owner)) from None
        self._lock = lock
        (self.path / _ADDRESS).unlink(missing_ok=True)
        return self

    def hand_over(self) -> int:
        """The file descriptor of the lock, for the program that this process becomes: nobody can come between."""
        assert self._lock is not None, "open() comes before"
        os.set_inheritable(self._lock.fileno(), True)
        return self._lock.fileno()

    def announce(self, server: Server) -> None:
        """Write who the owner is and where it listens, for other commands."""
        temporary = self.path / f"{_ADDRESS}.new"
        told = {**asdict(server), "boot": _boot()}
        temporary.write_text(json.dumps(told), encoding="utf-8")
        temporary.replace(self.path / _ADDRESS)

    def close(self) -> None:
        (self.path / _ADDRESS).unlink(missing_ok=True)
        if self._lock:
            self._lock.close()
            self._lock = None


def is_owned(path: Path) -> bool:
    """Whether a process owns the data directory: from early in its start, before it can tell its address."""
    try:
        with open(path / _LOCK, encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False


def server_of(path: Path) -> dict[str, Any] | None:
    """{url, host, pid, since, boot} of the server that owns the data directory, or None. A server that was killed
    leaves its address behind but not its lock: only a held lock counts."""
    return _told(path) if is_owned(path) else None


def server_elsewhere(path: Path) -> str | None:
    """The other machine whose server told its address and has not taken it back, where its lock is not to be seen: not
    every shared file system shows one machine the locks of another. It may also have been killed."""
    found = _told(path)
    return host_elsewhere(found) if found and not is_owned(path) else None


def host_elsewhere(found: dict[str, Any]) -> str | None:
    """The name of the machine that a server has told its address on, or None where it is this one. Containers of one
    machine have other names, but were booted with it; a machine that was booted anew keeps its name."""
    host, boot = found.get("host"), found.get("boot")
    return None if host in (None, socket.gethostname()) or boot == _boot() else str(host)


def _boot() -> str:
    """What tells a boot of a machine from any other, also from within containers; empty where that cannot be had."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _told(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads((path / _ADDRESS).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
