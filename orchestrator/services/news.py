"""Word that something was stored, for those in this process who show it at once, and through the database for other
servers (``db.connection.right``); and whether anybody looks at all.

Nothing depends on it: whoever misses a word finds out at the next look into the database. It lets live streams rest in
between. And while nobody follows a run, the reconciler need not fetch its log so often.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


class News:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hearers: list[Callable[[], None]] = []
        self._followed: Counter[str] = Counter()

    def tell(self) -> None:
        """Call all that listen, from this thread."""
        with self._lock:
            hearers = list(self._hearers)
        for hear in hearers:
            hear()

    @contextmanager
    def listening(self, hear: Callable[[], None]) -> Iterator[None]:
        """Have ``hear``, which has to return at once and must not fail, called at each word until the block ends."""
        with self._lock:
            self._hearers.append(hear)
        try:
            yield
        finally:
            with self._lock:
                self._hearers.remove(hear)

    @contextmanager
    def following(self, run_id: str) -> Iterator[None]:
        """Somebody wants to see the entries of the run's logs as they come, until the block ends."""
        with self._lock:
            self._followed[run_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._followed[run_id] -= 1

    def is_followed(self, run_ids: Iterable[str]) -> bool:
        """Whether somebody follows one of the runs."""
        with self._lock:
            return any(self._followed[run_id] > 0 for run_id in run_ids)
