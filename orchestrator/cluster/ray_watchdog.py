"""Ends an embedded Ray that no server has used for a while.

    python -m orchestrator.cluster.ray_watchdog --directory DIR --session PID --start-ticks T --idle-exit-s S

Started with Ray, in a session of its own. A server holds a shared lock on ``DIR/server.lock`` for as long as it lives,
however it ends; the watchdog looks whether anybody does. While it ends Ray it holds the lock alone, so that a server
that starts just then waits and finds a clean place. Where the directory has been removed it ends Ray at once. Standard
library only: it lives as long as Ray and has to be small.
"""

import argparse
import fcntl
import os
import time
from pathlib import Path

from orchestrator.cluster.records import end_session, in_session
from workers.node.processes import ProcessId

LOCK = "server.lock"
RECORD = "ray.json"

_LOOK_S = 2.0


def watch(directory: Path, session: ProcessId, idle_exit_s: float) -> None:
    """Return when Ray has ended, by itself or because nobody used it for ``idle_exit_s``."""
    lock = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    used_at = time.monotonic()
    while in_session(session):
        time.sleep(min(_LOOK_S, idle_exit_s / 4))
        if not directory.is_dir():  # no server can find it any more, and one that still used it has lost its data
            end_session(session)
        elif not _take(lock):
            used_at = time.monotonic()
        elif time.monotonic() - used_at > idle_exit_s:
            end_session(session)
            (directory / RECORD).unlink(missing_ok=True)
        else:
            fcntl.flock(lock, fcntl.LOCK_UN)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--session", type=int, required=True, help="number of the session that Ray's processes are in")
    parser.add_argument("--start-ticks", type=int, required=True, help="start time of the process that began it")
    parser.add_argument("--idle-exit-s", type=float, required=True)
    options = parser.parse_args()
    watch(options.directory, ProcessId(options.session, options.start_ticks), options.idle_exit_s)


if __name__ == "__main__":
    main()
