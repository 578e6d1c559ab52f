"""Ends a server that hangs, so that whoever looks after it may start it anew. That ends no training: agents go on."""

import faulthandler
import os
import sys
import threading
from collections.abc import Callable, Mapping

LOOK_S = 5.0
LOOKS = 60  # in a row, of 5 min in all: a judgement, ten times what makes /readyz say that the service is not ready
STATUS = 4  # as of a server that cannot go on


class Watchdog:
    """While it is entered: looks at ``counts``, what a part of the server is called -> a number that grows while it
    works (0: it has not begun). Where one has not grown in ``LOOKS`` looks in a row it says where each thread stands,
    and ends the process with ``STATUS``. Looks count and not the clock: a process that was stopped and goes on, or a
    machine that slept, does not hang.
    """

    def __init__(self, counts: Mapping[str, Callable[[], int]], look_s: float = LOOK_S) -> None:
        self._counts = counts
        self._look_s = look_s
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tbd-watchdog", daemon=True)

    def __enter__(self) -> "Watchdog":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()

    def _watch(self) -> None:
        seen = dict.fromkeys(self._counts, (0, 0))  # the number, and how many looks it has been the same for
        while not self._closing.wait(self._look_s):
            for name, count in self._counts.items():
                now, (before, looks) = count(), seen[name]
                seen[name] = (now, looks + 1 if now and now == before else 0)
                if seen[name][1] >= LOOKS:
                    self._end(name)

    def _end(self, name: str) -> None:
        what = f"{name} has hung for {LOOKS * self._look_s:.0f} s: this server ends, to be started anew"
        print(f"tbd serve: {what}. Trainings go on meanwhile. Where its threads stand:", file=sys.stderr, flush=True)
        faulthandler.dump_traceback()
        os._exit(STATUS)
