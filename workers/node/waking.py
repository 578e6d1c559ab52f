"""Sleeping until something happens: somebody wakes the sleeper, or a process ends. Nobody looks again and again.

A process is watched by a pidfd (pidfd_open(2), Linux 5.3 and Python 3.9). Without that the sleep is short instead.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
from typing import Iterable

from workers.node.processes import ProcessId, alive

# Where the end of a process does not wake: how often to look.
_LOOK_S = 0.1
# A watched process has ended, and what is to become of it is not yet known to the caller: look again soon.
_SOON_S = 0.01


class Waking:
    """One sleeper. ``wake`` may be called from any thread, also after the end, and holds: who was woken once does not
    sleep again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._reads, self._writes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._watched: dict[ProcessId, int | None] = {}  # its pidfd; None once it has ended or cannot be watched

    def wake(self) -> None:
        with self._lock, contextlib.suppress(BlockingIOError):
            if not self._closed:
                os.write(self._writes, b"!")

    def sleep(self, longest_s: float, until_the_end_of: Iterable[ProcessId] = ()) -> None:
        """Return when woken, when one of the processes has ended, or after ``longest_s`` seconds."""
        self._watch(set(until_the_end_of))
        poll = select.poll()
        poll.register(self._reads, select.POLLIN)
        for process, pidfd in self._watched.items():
            if pidfd is not None:
                poll.register(pidfd, select.POLLIN)
            else:
                longest_s = min(longest_s, _LOOK_S if alive(process) else _SOON_S)
        ended = {descriptor for descriptor, _ in poll.poll(longest_s * 1000)}
        for process, pidfd in self._watched.items():
            if pidfd in ended and pidfd is not None:
                os.close(pidfd)
                self._watched[process] = None

    def _watch(self, wanted: set[ProcessId]) -> None:
        for process in [one for one in self._watched if one not in wanted]:
            pidfd = self._watched.pop(process)
            if pidfd is not None:
                os.close(pidfd)
        for process in wanted - set(self._watched):
            self._watched[process] = _open(process)

    def close(self) -> None:
        """Give the descriptors back."""
        self._watch(set())
        with self._lock:
            self._closed = True
            os.close(self._reads)
            os.close(self._writes)


def _open(process: ProcessId) -> int | None:
    try:
        pidfd: int = os.pidfd_open(process.pid)
    except (AttributeError, OSError):
        return None
    if alive(process):
        return pidfd
    os.close(pidfd)  # perhaps of another process that has the number now
    return None
