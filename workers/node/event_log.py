"""The one append-only log of a node and an attempt.

Owns the file ``log.jsonl``: entries numbered 1, 2, 3 … without a gap, each a whole line, safe to append to from several
threads. Also owns how far the orchestrator has acknowledged it (``log.jsonl.acknowledged``): a log may be deleted only
when it is closed and acknowledged to its end.

The numbers live in this process, the lines in the file, and the offset of every line in memory: a slice costs one read.
"""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from array import array
from pathlib import Path
from typing import Any, Callable, Iterable

from workers.trainer import protocol

AGENT = "agent"

# Room kept free so that the end of an attempt can still be written when the disk has filled up.
_RESERVE_BYTES = 64 * 1024

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def boottime() -> float:
    """Return seconds that count while the machine sleeps: a fence has to fall even if nobody was awake to see it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LogError(OSError):
    """The log cannot be written; the message says why."""


class EventLog:
    """An event log, new or reopened.

    Reopening drops a torn last line (the agent died while writing it) and goes on numbering after the last whole one.

    Args:
        path: the file; its folder must exist.
        changed: called without arguments after entries were added, from the thread that added them.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: Path, changed: Callable[[], None] | None = None) -> None:
        self.path = path
        self._changed = changed or (lambda: None)
        self._lock = threading.Lock()
        self._offsets = array("Q", [0])  # _offsets[n] is where entry n + 1 begins, or would begin
        self._unwritten: list[bytes] = []  # the closing entries, where even the reserve did not make room
        self._file = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._closed = False
        self._since: tuple[Callable[[], float], float] = (boottime, 0.0)  # when it was closed, by which clock
        self._recover()
        self.acknowledged = self._read_acknowledged()
        self._reserve = Path(str(path) + ".reserve")
        self._keep_reserve()

    def _recover(self) -> None:
        last = b""
        with open(self.path, "rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._offsets.append(self._offsets[-1] + len(line))
                last = line
        os.ftruncate(self._file, self._offsets[-1])
        newest: dict[str, Any] = json.loads(last) if last else {"kind": None}
        if newest["kind"] == "log_closed":
            self._closed, self._since = True, (time.time, newest["wall"])

    def _keep_reserve(self) -> None:
        if self._closed or self._reserve.exists():
            return
        try:
            with open(self._reserve, "wb") as file:
                os.posix_fallocate(file.fileno(), 0, _RESERVE_BYTES)
        except OSError:
            self._reserve.unlink(missing_ok=True)

    @property
    def last_seq(self) -> int:
        """Number of the newest entry; 0 when there is none."""
        return self.state()[0]

    @property
    def closed(self) -> bool:
        """Whether the newest entry is ``log_closed``."""
        return self.state()[1]

    def closed_for_s(self) -> float | None:
        """Seconds since it was closed, also those that the machine slept; None where it is open. By a clock that is
        never set, or where it was closed in another life of the agent, by the one that tells the time."""
        with self._lock:
            clock, at = self._since
            return max(0.0, clock() - at) if self._closed else None

    def state(self) -> tuple[int, bool]:
        """Return (number of the newest entry, whether it is ``log_closed``), which belong together."""
        with self._lock:
            return self._count(), self._closed

    def _count(self) -> int:
        return len(self._offsets) - 1 + len(self._unwritten)

    def append(self, kind: str, source: str = AGENT, rank: int | None = None, **data: Any) -> int:
        """Write one entry of the agent's own, stamped now, and return its number.

        Raises:
            ProtocolError: ``data`` lacks a key that ``kind`` must have.
            LogError: the disk is full or gone.
        """
        return self.extend([protocol.event(kind, data, rank)], source)

    def extend(self, events: Iterable[dict[str, Any]], source: str) -> int:
        """Write ``events`` (checked by the caller) as entries of ``source``; return the number of the last.

        Raises:
            LogError: the disk is full or gone, or the log is closed. Then none of them was written.
        """
        with self._lock:
            if self._closed:
                raise LogError(errno.EINVAL, "the log is closed", str(self.path))
            lines = [self._line(index, event, source) for index, event in enumerate(events, self._count() + 1)]
            self._write(lines)
            last = self._count()
        self._changed()
        return last

    @staticmethod
    def _line(seq: int, event: dict[str, Any], source: str) -> bytes:
        return (protocol.to_json({"seq": seq, "source": source, **event}) + "\n").encode()

    def _write(self, lines: list[bytes]) -> None:
        data = b"".join(lines)
        try:
            written = os.write(self._file, data)
            if written < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            os.ftruncate(self._file, self._offsets[-1])  # never leave half a line
            reason = "no space left on the disk" if error.errno in _DISK_FULL else str(error)
            raise LogError(error.errno, "cannot write the event log: " + reason, str(self.path)) from error
        for line in lines:
            self._offsets.append(self._offsets[-1] + len(line))

    def close(self, failure: dict[str, Any] | None, before: Iterable[dict[str, Any]] = (), **data: Any) -> None:
        """Write the entries ``before`` and then ``log_closed``; afterwards nothing can be added.

        Never fails for want of space: it frees the reserve, and keeps in memory what still finds no room.
        Closing a closed log does nothing.
        """
        with self._lock:
            if self._closed:
                return
            self._reserve.unlink(missing_ok=True)
            events = list(before)
            events.append(
                protocol.event("log_closed", {"entries": self._count() + len(events) + 1, "failure": failure, **data})
            )
            lines = [self._line(index, event, AGENT) for index, event in enumerate(events, self._count() + 1)]
            try:
                self._write(lines)
            except LogError:
                self._unwritten = lines
            self._closed, self._since = True, (boottime, boottime())
        self._changed()

    def slice(self, after: int, limit: int) -> list[dict[str, Any]]:
        """Return at most ``limit`` entries whose numbers follow ``after``, oldest first."""
        return self.view(after, limit)[0]

    def view(self, after: int, limit: int) -> tuple[list[dict[str, Any]], int, bool]:
        """Return (a slice, number of the newest entry, whether that is ``log_closed``), all of one moment."""
        after = max(after, 0)
        with self._lock:
            count, closed, written = self._count(), self._closed, len(self._offsets) - 1
            begin, end = self._offsets[min(after, written)], self._offsets[min(after + limit, written)]
            rest = self._unwritten[max(0, after - written) : max(0, after + limit - written)]
            lines = self._pread(begin, end).splitlines()
        return [json.loads(line) for line in [*lines, *rest]], count, closed

    def _pread(self, begin: int, end: int) -> bytes:
        parts = []
        while begin < end and self._file >= 0:
            parts.append(os.pread(self._file, end - begin, begin))  # Linux reads at most 2 GiB at once
            if not parts[-1]:
                break
            begin += len(parts[-1])
        return b"".join(parts)

    def acknowledge(self, seq: int) -> int:
        """Note that the orchestrator has stored all entries up to ``seq``; return how far it is acknowledged.

        The position never moves back, and never beyond the last entry. It survives the agent.
        """
        with self._lock:
            seq = min(seq, self._count())
            if seq > self.acknowledged:
                temporary = Path(str(self.path) + ".acknowledged.new")
                try:
                    temporary.write_text(f"{seq}\n")
                    os.replace(temporary, self._acknowledged_path)
                except OSError as error:
                    if error.errno not in _DISK_FULL:
                        raise
                self.acknowledged = seq
            return self.acknowledged

    @property
    def deletable(self) -> bool:
        """Whether the log is closed and acknowledged to its end."""
        last_seq, closed = self.state()
        return closed and self.acknowledged == last_seq

    def release(self) -> None:
        """Give the file descriptor back; the log can be opened again. Slices of this object are empty from now on."""
        with self._lock:
            os.close(self._file)
            self._file = -1

    @property
    def _acknowledged_path(self) -> Path:
        return Path(str(self.path) + ".acknowledged")

    def _read_acknowledged(self) -> int:
        try:
            return min(int(self._acknowledged_path.read_text()), self.last_seq)
        except (FileNotFoundError, ValueError):
            return 0
