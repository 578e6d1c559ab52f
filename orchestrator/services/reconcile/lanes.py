"""Threads for the reconciler's work, by lanes: one for each run, node and experiment.

Within a lane one thing is done after another. What hangs in a lane keeps no other waiting: the pass waits for it only
so long, and for a lane that was late lately hardly at all.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection

log = logging.getLogger(__name__)

Work = Callable[[], None]

# Seconds after which a pass goes on without work that is still being done. A judgement: nearly all of it takes
# milliseconds, and who waits for a run that ended would not notice a second.
PATIENCE_S = 1.0
# Of that for a lane that was late in the last so many seconds. Judgements: a node whose calls hang is found and lost
# again every five seconds or so, and then answers at once, that it is lost.
SLOW_SHARE, SLOW_S = 0.05, 60.0
# Lanes in which something is done at the same time, those that are late apart. A judgement: most wait for an agent or
# for the disk of the database, and a service must not take the cores of what it measures.
MOST_AT_ONCE = 8
# Threads in all. Beyond that work waits: so many that hang are a trouble of the whole service, which /readyz tells.
MOST_THREADS = 500
LAZY_S = 30.0  # after that a thread without work ends


class Lanes:
    """Safe to use from several threads. ``came_late``: called when work that a pass did not wait for has been done."""

    def __init__(self, came_late: Callable[[], None], patience_s: float = PATIENCE_S) -> None:
        self._came_late = came_late
        self._patience_s = patience_s
        lock = threading.Lock()
        # Apart, so that work which comes wakes one of the threads, and not all that wait for whatever.
        self._changed, self._work_came = threading.Condition(lock), threading.Condition(lock)
        self._waiting: dict[str, deque[Work]] = {}
        self._ready: dict[str, None] = {}  # lanes that have work and do none, in the order in which they came to be so
        self._busy: dict[str, float] = {}  # lane -> since when (monotonic seconds)
        self._awaited: set[str] = set()  # lanes whose end somebody wants to be told
        self._late: set[str] = set()  # lanes that have been busy for longer than is waited for
        self._left: set[str] = set()  # lanes under way that a pass has gone on without
        self._slow: dict[str, float] = {}  # lane -> until when it counts as one that was late (monotonic seconds)
        self._idle = 0
        self._threads = 0

    def put(self, lane: str, work: Work) -> None:
        """Have ``work``, which must not raise, done in ``lane`` after what the lane has already."""
        with self._changed:
            self._waiting.setdefault(lane, deque()).append(work)
            if lane not in self._busy:
                self._ready.setdefault(lane)
            self._find_hands()

    def under_way(self) -> frozenset[str]:
        """The lanes that have something to do or are doing it."""
        with self._changed:
            return frozenset((*self._busy, *self._waiting))

    def settle(self, lanes: Collection[str]) -> None:
        """Return when the work of ``lanes`` is done, but for what takes longer than is waited for."""
        with self._changed:
            left = list(lanes)
            while last := self._last_awaited(left):
                due = [since + self._allowed_s(lane) for lane, since in self._busy.items() if lane not in self._late]
                pause_s = min(due, default=time.monotonic() + self._patience_s) - time.monotonic()
                if pause_s > 0:
                    self._awaited.add(last)
                    self._changed.wait(pause_s)
                else:
                    self._go_on_without()
            self._left.update(lane for lane in lanes if lane in self._busy or lane in self._waiting)

    def _last_awaited(self, lanes: list[str]) -> str | None:
        """Drop the last of ``lanes`` that nobody waits for any more; the last of those that are left. The last one, as
        the others are mostly done by then: who waits is not woken for each."""
        while lanes and not self._is_awaited(lanes[-1]):
            lanes.pop()
        return lanes[-1] if lanes else None

    def _is_awaited(self, lane: str) -> bool:
        if lane in self._late:
            return False
        return lane in self._busy or (lane in self._waiting and self._threads < MOST_THREADS)

    def _allowed_s(self, lane: str) -> float:
        """Also one that was late is given a moment: it may be well again."""
        return self._patience_s * (SLOW_SHARE if self._slow.get(lane, -math.inf) > time.monotonic() else 1.0)

    def _go_on_without(self) -> None:
        now = time.monotonic()
        over = [lane for lane, since in self._busy.items() if now >= since + self._allowed_s(lane)]
        self._late.update(over)
        self._slow.update(dict.fromkeys(over, now + SLOW_S))
        self._find_hands()

    def _find_hands(self) -> None:
        """Begin as many threads as the lanes that are ready want and may have."""
        wanted = min(len(self._ready), MOST_AT_ONCE - self._in_time()) - self._idle
        for _ in range(min(wanted, MOST_THREADS - self._threads)):
            self._threads += 1
            self._idle += 1  # from now on: else each work that comes before it has begun would begin one more
            threading.Thread(target=self._work, name="tbd-lane", daemon=True).start()
        self._work_came.notify(len(self._ready))

    def _work(self) -> None:
        while True:
            with self._changed:
                found = self._work_came.wait_for(self._may_begin, LAZY_S)
                self._idle -= 1
                if not found:
                    self._threads -= 1
                    return
                lane = next(iter(self._ready))
                del self._ready[lane]
                work = self._waiting[lane].popleft()
                if not self._waiting[lane]:
                    del self._waiting[lane]
                self._busy[lane] = time.monotonic()
                if lane in self._slow:  # who settles it may have reckoned with the whole patience
                    self._changed.notify_all()
            try:
                work()
            except BaseException:  # a mistake of ours: the lane goes on with what comes next
                log.exception("%s: work that must not raise has", lane)
            self._finish(lane)

    def _may_begin(self) -> bool:
        return bool(self._ready) and self._in_time() < MOST_AT_ONCE

    def _in_time(self) -> int:
        """How many lanes are busy and not late; by the clock, as those that nobody waits for are never called late."""
        since = time.monotonic() - self._patience_s
        return sum(lane not in self._late and began > since for lane, began in self._busy.items())

    def _finish(self, lane: str) -> None:
        told = False
        while True:
            with self._changed:
                if told or lane not in self._left:
                    return self._free(lane)
            self._came_late()  # before the lane is free: who finds it free must find what it has done
            told = True

    def _free(self, lane: str) -> None:
        if len(self._slow) > MOST_THREADS:  # of lanes of long ago, mostly: they are learnt again
            self._slow.clear()
        self._idle += 1
        del self._busy[lane]
        self._late.discard(lane)
        if lane not in self._waiting:
            self._left.discard(lane)
        else:
            self._ready[lane] = None
        self._work_came.notify()
        if lane in self._awaited:
            self._awaited.discard(lane)
            self._changed.notify_all()
