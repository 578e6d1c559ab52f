"""The folder of an agent: what it remembers of its attempts, on disk, across its own death.

DIRECTORY/agent.lock            held by the one agent of the directory
DIRECTORY/ATTEMPT/job.json      with the token, so mode 0600
DIRECTORY/ATTEMPT/log.jsonl     see event_log
DIRECTORY/checkpoints/RUN       see checkpoints
DIRECTORY/ATTEMPT/ended.json    instead of both: the attempt is over and its log acknowledged and deleted, or it was
                                stopped before it came; either way it must not be started (again)
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

from workers.node import checkpoints
from workers.trainer.base.failure import lacks_space

_LOCK_PATIENCE_S = 5.0

# Nobody repeats a request after this long; a judgement.
_REMEMBERED_S = 7 * 24 * 3600.0

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class DirectoryInUseError(RuntimeError):
    """Another living agent owns the directory."""


def token_sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


class Attempts:
    """The attempts under ``directory``, which is made where missing and locked while this object lives.

    Raises:
        DirectoryInUseError: another agent holds it and does not let go within a few seconds.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._unwritten: dict[str, dict[str, Any]] = {}  # memories that a full disk has no room for
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(str(directory / "agent.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _LOCK_PATIENCE_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(self._lock)
                    raise DirectoryInUseError(f"{directory} belongs to another agent that is running") from None
                time.sleep(0.05)  # a predecessor that is just ending

    def release(self) -> None:
        """Let another agent have the directory."""
        os.close(self._lock)

    def folder(self, attempt_id: str) -> Path:
        """Return the folder of an attempt.

        Raises:
            ValueError: the id cannot be the name of a folder.
        """
        if not _NAME.fullmatch(attempt_id):
            raise ValueError(f"{attempt_id!r} is no attempt id: letters, digits, '_', '-' and '.' only")
        return self.directory / attempt_id

    def begin(self, job: dict[str, Any]) -> Path:
        """Make the folder of a new attempt with its job inside, and return it.

        Raises:
            OSError: the disk is full, or cannot be written. Then nothing is left of it.
        """
        folder = self.folder(job["attempt_id"])
        folder.mkdir(mode=0o700)
        try:
            _write(folder / "job.json", job)
        except OSError:
            shutil.rmtree(str(folder), ignore_errors=True)
            raise
        return folder

    def forget(self, attempt_id: str, sha256: str | None, **facts: Any) -> None:
        """Leave of an attempt only that it is over.

        On a full disk that is written when the attempt's files have made room, and kept in memory if they did not.
        """
        memory = {"attempt_id": attempt_id, "token_sha256": sha256, **facts}
        written = self._remember(attempt_id, memory)
        _empty(self.folder(attempt_id))
        if not written and not self._remember(attempt_id, memory):
            self._unwritten[attempt_id] = memory

    def _remember(self, attempt_id: str, memory: dict[str, Any]) -> bool:
        """Write ``memory`` down; whether there was room for it."""
        folder = self.folder(attempt_id)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            _write(folder / "ended.json", memory)
        except OSError as error:
            if not lacks_space(error):
                raise
            return False
        return True

    def job(self, attempt_id: str) -> dict[str, Any] | None:
        """Return the job of an attempt whose files are here, or None."""
        return _read(self.folder(attempt_id) / "job.json")

    def ended(self, attempt_id: str) -> dict[str, Any] | None:
        """Return what is remembered of an attempt that is over, or None."""
        return self._unwritten.get(attempt_id) or _read(self.folder(attempt_id) / "ended.json")

    def left(self) -> list[dict[str, Any]]:
        """Return the jobs of all attempts that a former agent left with a log, and tidy up old memories."""
        jobs = []
        for folder in sorted(self.directory.iterdir()):
            if not folder.is_dir() or folder.name in ("path", checkpoints.NAME):
                continue
            memory = folder / "ended.json"
            if memory.exists():
                if time.time() - memory.stat().st_mtime > _REMEMBERED_S:
                    shutil.rmtree(str(folder), ignore_errors=True)
                continue
            job = _read(folder / "job.json")
            if job is None:  # died between making the folder and writing the job: nothing was started
                shutil.rmtree(str(folder), ignore_errors=True)
            else:
                jobs.append(job)
        return jobs


def _empty(folder: Path) -> None:
    """Remove from the folder of an attempt, if there is one, all but the memory of it."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name == "ended.json":
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(str(path), ignore_errors=True)
        else:
            path.unlink()


def _write(path: Path, value: dict[str, Any]) -> None:
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(str(temporary), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        json.dump(value, file)
    os.replace(str(temporary), str(path))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return None
    except ValueError:
        return None
