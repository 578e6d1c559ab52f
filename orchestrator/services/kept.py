"""What was computed of much, kept until it would be something else: so that many looks cost as much as one."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, NamedTuple, TypeVar

Made = TypeVar("Made")
MOST_KEPT = 50  # such as boards of schedules, of which one of 200 cells has some 5 MB: a judgement
SHARE = 20  # what changes all the time is computed in so small a part of the time


class _One(NamedTuple):
    known_by: Hashable
    made: Any
    at: float
    took_s: float


class Kept:
    """Safe to use from several threads: two that ask at once compute the same."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: OrderedDict[Hashable, _One] = OrderedDict()

    def of(self, key: Hashable, known_by: Hashable, make: Callable[[], Made], *, late: bool = False) -> Made:
        """What ``make`` returned for ``key`` while it was known by the same. ``late``: or by something else, not longer
        ago than ``SHARE`` times as long as it took."""
        with self._lock:
            one = self._kept.get(key)
        now = time.monotonic()
        if one is not None and (one.known_by == known_by or (late and now - one.at < SHARE * one.took_s)):
            made: Made = one.made
            return made
        made = make()
        end = time.monotonic()
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = _One(known_by, made, end, end - now)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return made

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._kept.clear()
