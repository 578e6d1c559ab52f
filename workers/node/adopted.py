"""A process of the attempt that mpirun has started instead of the agent: known by the files it leaves, not as a child.

It looks like a ``Child``. Who it is becomes known when it says so itself, in its ``started`` event; how it ended is
written down by ``workers.node.mpi.rank``, or, where nobody was left to do that, follows from the end of its launcher.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Mapping

from workers.node import processes
from workers.node.children import Child, Followed
from workers.node.mpi import rank

# Said of a process that was never started: its launcher has ended before.
_NEVER_STARTED = 1


class Adopted(Followed):
    """One of the processes that ``starter``, a launcher, has mpirun start on this node."""

    def __init__(self, process: Mapping[str, Any], starter: Child, events: Path, own: rank.Files) -> None:
        super().__init__(process, events, _opened(own.stdout), _opened(own.stderr))
        self._starter = starter
        self._own = own
        self._status: int | None = None

    def meet(self, pid: Any, token: str) -> bool:
        """Take ``pid`` for its own, if a process of the attempt has it; return whether that is news."""
        if self.id is not None or not isinstance(pid, int) or not processes.has_token(pid, token):
            return False
        self.id = processes.identify(pid)
        return self.id is not None

    def poll(self) -> int | None:
        """Return its exit status (negative: the signal that ended it), or None while it lives or may still come."""
        if self._status is None:
            nobody_left = self._starter.poll() is not None and not (self.id and processes.alive(self.id))
            ended = rank.read_ended(self._own.ended)
            if ended is None and nobody_left:
                ended = rank.Ended(-signal.SIGKILL if self.id else _NEVER_STARTED, True)
            if ended is not None:
                self._status, self.told = ended  # told: mpirun has ended it, because another one had ended
        return self._status

    def signal(self, number: int) -> None:
        if self.id is not None:
            processes.kill(self.id, number)

    def kill_group(self) -> None:
        self.signal(signal.SIGKILL)


def _opened(pipe: Path) -> Any:
    """Open a named pipe to read from. For writing too: else it would be at its end before the process has opened it."""
    return os.fdopen(os.open(str(pipe), os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC), "rb", buffering=0)
