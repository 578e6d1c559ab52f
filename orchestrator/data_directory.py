"""The data directory: one owner at a time, whose address stands inside for the other commands."""

import fcntl
import json
import os
from pathlib import Path
from typing import IO, Any

from orchestrator.domain.errors import DataDirectoryInUse, SettingsError

_LOCK = "owner.lock"
_ADDRESS = "server.json"


class DataDirectory:
    """Owns ``path`` from ``open`` to ``close``. The lock ends with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock: IO[str] | None = None

    def open(self) -> "DataDirectory":
        """Take the lock.

        Raises:
            DataDirectoryInUse: another process has it; the message says where it listens.
            SettingsError: the folder cannot be made or written to.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = open(self.path / _LOCK, "a+", encoding="utf-8")  # noqa: SIM115 - held until close
        except OSError as error:
            raise SettingsError(
                f"the data directory {self.path} cannot be used: {error}; give another TBD_DATA_DIR"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            owner = server_of(self.path) or {"url": "an address it has not told yet"}
            raise DataDirectoryInUse(str(self.path), owner["url"]) from None
        self._lock = lock
        (self.path / _ADDRESS).unlink(missing_ok=True)
        return self

    def announce(self, url: str) -> None:
        """Write where the owner listens, for other commands."""
        temporary = self.path / f"{_ADDRESS}.new"
        temporary.write_text(json.dumps({"url": url, "pid": os.getpid()}), encoding="utf-8")
        temporary.replace(self.path / _ADDRESS)

    def close(self) -> None:
        (self.path / _ADDRESS).unlink(missing_ok=True)
        if self._lock:
            self._lock.close()
            self._lock = None


def server_of(path: Path) -> dict[str, Any] | None:
    """{url, pid} of the server that owns the data directory, or None. A server that was killed leaves its address
    behind but not its lock: only a held lock counts."""
    try:
        with open(path / _LOCK, encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
    except BlockingIOError:
        pass
    except OSError:
        return None
    try:
        return dict(json.loads((path / _ADDRESS).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None
