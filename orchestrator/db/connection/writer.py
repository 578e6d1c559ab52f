"""The one thread that writes to a SQLite file, with group commit.

Callers hand in a piece of work and wait. The thread takes whatever waits (up to ``MAX_BATCH``), carries it out in one
BEGIN IMMEDIATE … COMMIT, and wakes the callers once the commit is durable. While the disk is busy with one commit the
next batch gathers: that is what makes many small writes cheap. Where a piece fails, which is rare, the whole is undone
and each carried out in a transaction of its own: a savepoint for each costs a third of a small write.
"""

import logging
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from orchestrator.db.connection.errors import is_full, translate
from orchestrator.domain.words.errors import StoreUnavailable

THREAD = "tbd-store-writer"
MAX_BATCH = 256  # writes that share a commit
MAX_WAITING = 4096  # writes that wait; beyond it callers are refused at once instead of piling up
WAIT_TIMEOUT_S = 60.0  # how long a caller waits for its commit: more than a busy disk needs

Result = TypeVar("Result")
Work = Callable[[Connection], Result]

log = logging.getLogger(__name__)


class _OfOne(Exception):  # noqa: N818 - never leaves this module
    """A piece of work failed, and nothing of its batch was kept. The connection is as good as before."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(cause)
        self.cause = cause


class _Ticket:
    """A piece of work that waits. ``turn`` is a lock that is held until it is over: the cheapest event there is."""

    __slots__ = ("abandoned", "error", "result", "turn", "work")

    def __init__(self, work: Work[Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: Exception | None = None
        self.abandoned = False
        self.turn = threading.Lock()
        self.turn.acquire()


class File(Protocol):
    """The file that is written to, in ``folder``."""

    @property
    def folder(self) -> Path: ...

    def connect(self) -> Connection:
        """A new connection for the writer. Raises whatever the driver raises."""

    def check(self) -> bool:
        """Whether the open connections still speak to the file at its path.

        Raises:
            StoreUnavailable: there is no file.
        """


class Writer:
    """Carries out work in its own thread. ``commits`` and ``writes`` count what was made durable."""

    def __init__(self, file: File, *, max_waiting: int = MAX_WAITING, wait_timeout_s: float = WAIT_TIMEOUT_S) -> None:
        self.commits = 0
        self.writes = 0
        self._file = file
        self._max_waiting = max_waiting
        self._wait_timeout_s = wait_timeout_s
        self._connection: Connection | None = None
        self.closed = False
        self._tickets: queue.SimpleQueue[_Ticket | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=THREAD, daemon=True)
        self._thread.start()

    def write(self, work: Work[Result]) -> Result:
        """Carry out ``work`` and return its result once it is durable. It may be called again after a failure, and
        must have no effects but those on its connection.

        Raises:
            StoreUnavailable: too many wait, or it took too long, or the database is away.
            StoreFull: there is no room.
        """
        if self.closed:
            raise StoreUnavailable("the store is closed")
        if self._tickets.qsize() >= self._max_waiting:
            raise StoreUnavailable(f"{self._max_waiting} writes are waiting for the disk already: try again later")
        ticket = _Ticket(work)
        self._tickets.put(ticket)
        if not ticket.turn.acquire(timeout=self._wait_timeout_s):
            ticket.abandoned = True
            raise StoreUnavailable(f"the disk took longer than {self._wait_timeout_s:g} s; nothing was acknowledged")
        if ticket.error is not None:
            raise ticket.error
        result: Result = ticket.result
        return result

    def close(self) -> None:
        """Finish what waits and end the thread. Idempotent."""
        if not self.closed:
            self.closed = True
            self._tickets.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while (batch := self._next_batch()) is not None:
            self._carry_out([ticket for ticket in batch if not ticket.abandoned])
        self._disconnect()
        self._refuse_the_rest()

    def _next_batch(self) -> list[_Ticket] | None:
        first = self._tickets.get()
        if first is None:
            return None
        batch = [first]
        for _ in range(min(self._tickets.qsize(), MAX_BATCH - 1)):
            ticket = self._tickets.get()
            if ticket is None:
                self._tickets.put(None)
                break
            batch.append(ticket)
        return batch

    def _refuse_the_rest(self) -> None:
        """Whoever passed the door while it closed."""
        while not self._tickets.empty():
            ticket = self._tickets.get()
            if ticket is not None:
                _end([ticket], StoreUnavailable("the store is closed"))

    def _carry_out(self, batch: Sequence[_Ticket]) -> None:
        if not batch:
            return
        try:
            self._transaction(batch)
        except Exception as error:
            cause = error.cause if isinstance(error, _OfOne) else error
            if cause is error:
                self._abort(error)
            if len(batch) > 1 and (cause is not error or is_full(cause)):
                # What one cannot do, for want of room above all, must not take the others with it.
                for ticket in batch:
                    self._carry_out([ticket])
                return
            _end(batch, translate(cause, self._file.folder) or cause)
            return
        self.commits += 1
        self.writes += len(batch)
        _end(batch)

    def _transaction(self, batch: Sequence[_Ticket]) -> None:
        """Carry out a batch and commit it. What is raised means that nothing of it was kept."""
        connection = self._connected()
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.execute("BEGIN IMMEDIATE")
        for ticket in batch:
            try:
                ticket.result = ticket.work(connection)
            except Exception as error:
                if not driver.in_transaction:  # SQLite has undone it all by itself: no room, input or output failed
                    raise
                driver.execute("ROLLBACK")
                raise _OfOne(error) from error
        driver.execute("COMMIT")
        if not self._file.check():
            raise StoreUnavailable("the file of the database was replaced while it was written to")

    def _connected(self) -> Connection:
        if not self._file.check():
            self._disconnect()
        if self._connection is None:
            self._connection = self._file.connect()
        return self._connection

    def _abort(self, error: Exception) -> None:
        """Undo what is open. After anything but a lack of room the connection is made anew for the next batch."""
        log.warning("a batch of writes was not committed: %s", error)
        if self._connection is None:
            return
        try:
            driver = self._connection.connection.driver_connection
            if driver is not None and driver.in_transaction:
                driver.execute("ROLLBACK")
        except Exception as second:
            log.warning("it could not be rolled back either: %s", second)
            self._disconnect()
            return
        if not is_full(error):
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            try:
                connection.close()
            except Exception as error:
                log.warning("the connection to the database could not be closed: %s", error)


def _end(batch: Sequence[_Ticket], error: Exception | None = None) -> None:
    for ticket in batch:
        if error is not None:
            ticket.error = error
        ticket.turn.release()
