"""The right to decide: one server of a database has it, from before it looks at anything until it has ended.

SQLite: a lock of the operating system on ``FILE.server`` beside the database, with the holder's name inside. It ends
with the process, however that ends. (It is not on the database: who closes a file lets go of SQLite's own locks on it.)

PostgreSQL: an advisory lock of a session of its own. A session may break while its process lives, and then another
server may take the lock at once. So the row ``server`` has the holder's name and its term, a number that grows with
each holder, and every write of a server reads in its transaction that the term is still its own. It reads FOR SHARE: a
successor waits for the writes under way, and after that its predecessor writes nothing more. A server that finds that
there is a successor is to end. What is no write, such as a call to an agent, it may still do until it has noticed; so a
successor of one that has not ended in order waits ``NOTICE_S`` before it decides (``await_predecessor``). Meanwhile it
may take up the nodes: their agents must not hear of nobody for that long.
"""

import contextlib
import fcntl
import json
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import URL, Connection, Select, inspect, select, text, update
from sqlalchemy.exc import SQLAlchemyError

from orchestrator.db.connection import engine as engines
from orchestrator.db.connection.errors import translated
from orchestrator.db.tables.service import server as table
from orchestrator.domain.around.server import Server, way_out
from orchestrator.domain.words.errors import AlreadyServed, SettingsError, StoreUnavailable, TbdError

LOCK_SUFFIX = ".server"
LOCK = 0x7462645F7376  # "tbd_sv": the number of the advisory lock
PING_S = 1.0  # how often the session of the lock is looked after
NOTICE_S = 3.0  # a look after the session, a tick of the server, and a margin
# PostgreSQL's own patience with the host of a session that was cut off is two hours: here 20 s.
_SESSION = (
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; "
    "SET statement_timeout = '5s'"
)

log = logging.getLogger(__name__)


class Right(Protocol):
    """Held by one server of a database."""

    def begin(self) -> None:
        """The schema is there, and nothing was decided yet."""

    def await_predecessor(self) -> None:
        """Return when a predecessor must have noticed that it has a successor: called before anything is decided."""

    def check(self, connection: Connection) -> None:
        """Called in the transaction of each write. Raises ``StoreUnavailable`` where another server has the right."""

    def lost(self) -> str | None:
        """Why this server has to end: another one has the right."""

    def close(self) -> None:
        """Give the right back. Idempotent."""


def take(url: str, server: Server, say: Callable[[str], None]) -> Right:
    """The right to decide for the database at ``url``, for ``server``. ``say`` is told of a wait.

    Raises:
        AlreadyServed: another server has it.
        SettingsError: there can be no lock.
        StoreUnavailable: the database does not answer.
    """
    parsed = engines.parse_url(url)
    return FileRight(parsed, server) if engines.is_sqlite(parsed) else SessionRight(parsed, server, say)


class FileRight:
    """See the module: of a SQLite file. Its way of taking a lock can be lost by the end of the process only."""

    def __init__(self, url: URL, server: Server) -> None:
        database = engines.sqlite_path(url).resolve()  # by whatever name it is known
        path = database.with_name(database.name + LOCK_SUFFIX)
        self._lock: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._lock, 0)
            os.pwrite(self._lock, json.dumps(asdict(server)).encode(), 0)
        except BlockingIOError:
            self.close()
            holder = _noted(path)
            raise AlreadyServed(f"the database {database}", str(holder or "an address"), way_out(holder)) from None
        except OSError as error:
            self.close()
            raise SettingsError(
                f"the database {database} cannot be served: {error}; give another TBD_DATA_DIR or TBD_DATABASE_URL"
            ) from None

    def begin(self) -> None:
        """Nothing: the lock is all."""

    def await_predecessor(self) -> None:
        """Nothing: a lock ends with its holder."""

    def check(self, connection: Connection) -> None:
        """Nothing: the lock is all."""

    def lost(self) -> str | None:
        return None

    def close(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _noted(path: Path) -> Server | None:
    try:
        return Server.of(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


class SessionRight:
    """See the module: of a database of PostgreSQL."""

    def __init__(self, url: URL, server: Server, say: Callable[[str], None]) -> None:
        self._server = server
        self._say = say
        self._engine = engines.postgresql_engine(url)
        self._session: Connection | None = None
        self._term: int | None = None
        self._lost: str | None = None
        self._alone_at = 0.0
        self._closing = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="tbd-right", daemon=True)
        try:
            with translated():
                self._session = self._locked()
                if self._session is None:
                    holder = self._holder()
                    name = f"the database {url.database} at {url.host or 'this host'}"
                    raise AlreadyServed(name, str(holder or "an address"), way_out(holder))
        except BaseException:
            self.close()
            raise

    def _locked(self) -> Connection | None:
        """A session that has the lock; None where another has it."""
        session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        session.detach()  # closed, it is over: a pool would keep it, and with it the lock
        try:
            session.exec_driver_sql(_SESSION)
            if session.execute(text("SELECT pg_try_advisory_lock(:lock)"), {"lock": LOCK}).scalar():
                return session
        except BaseException:
            session.close()
            raise
        session.close()
        return None

    def _holder(self) -> Server | None:
        with self._engine.connect() as connection:
            if not inspect(connection).has_table(table.name):
                return None
            return Server.of(_row(connection, select(table)))

    def begin(self) -> None:
        with translated(), self._engine.begin() as connection:
            before = _row(connection, select(table).with_for_update())
            self._term = before["term"] + 1
            connection.execute(update(table).values(term=self._term, **asdict(self._server)))
        if former := Server.of(before):
            self._say(f"the server at {former} has not ended in order: it is given {NOTICE_S:g} s to notice")
            self._alone_at = time.monotonic() + NOTICE_S
        self._watcher.start()

    def await_predecessor(self) -> None:
        self._closing.wait(max(0.0, self._alone_at - time.monotonic()))

    def check(self, connection: Connection) -> None:
        self._compare(connection, select(table).with_for_update(read=True))

    def _compare(self, connection: Connection, row: Select[Any]) -> None:
        found = _row(connection, row)
        if found["term"] != self._term:
            self._lost = f"another server decides for this database now, at {Server.of(found) or 'no address any more'}"
            raise StoreUnavailable(self._lost)

    def lost(self) -> str | None:
        return self._lost

    def _watch(self) -> None:
        while not self._closing.wait(PING_S):
            try:
                with translated():
                    self._look_after()
            except (TbdError, SQLAlchemyError) as error:
                if self._session is not None:
                    log.warning("the session that holds the right to decide broke: %s", error)
                self._drop()
                if self._lost:
                    return

    def _look_after(self) -> None:
        """Make the session anew where it has broken: until the server of the database has noticed that too, it goes on
        holding the lock, as a successor may. Raises ``StoreUnavailable`` where there is no answer, or a successor."""
        if self._session is None:
            self._session = self._locked()
            if self._session is not None:
                log.warning("another session holds the right to decide")
        with contextlib.nullcontext(self._session) if self._session else self._engine.connect() as connection:
            self._compare(connection, select(table))

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):  # it is broken already
                session.close()

    def close(self) -> None:
        self._closing.set()
        if self._watcher.is_alive():
            self._watcher.join()
        if self._session is not None and self._term is not None and not self._lost:
            try:
                with translated():
                    mine = update(table).where(table.c.term == self._term)
                    self._session.execute(mine.values(url=None, host=None, pid=None, since=None))
            except TbdError as error:
                log.warning("the next server will wait some seconds: %s", error)
        self._drop()
        self._engine.dispose()


def _row(connection: Connection, query: Select[Any]) -> dict[str, Any]:
    return connection.execute(query).one()._asdict()
