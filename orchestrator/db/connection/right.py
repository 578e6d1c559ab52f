"""The right to decide: one server of a database has it.

SQLite: a lock of the operating system on ``FILE.server`` beside the database, with the holder's name inside. It ends
with the process, however that ends. (It is not on the database: who closes a file lets go of SQLite's own locks on it.)
A second server is refused.

PostgreSQL: a lease in the row ``server``, with the name of the server that leads, a term that grows with each, and
until when it lasts by the clock of the database. The leader renews it; the others follow, and whoever sees first that
it is over takes it (``lease_left_s``). Three things keep a leader from deciding that has been succeeded:

* Each of its writes reads in its transaction that the term is still its own. It reads FOR KEY SHARE: a successor waits
  for the writes under way, and after that its predecessor writes nothing more; renewals wait for nobody.
* It calls no agent once its lease may be over by its own clock, which counts from before it asked (``term``), where
  somebody follows it. Where nobody does, an outage of the database is to end no training.
* Each call to an agent carries the term, and agents refuse one that is older than what they have heard.

A term is never below the seconds since the epoch when it began: so it grows also where the row was put back to what it
had been, by hand or out of a backup. Every transaction also reads the revision of the schema: a server of another
version steps down. Servers wake each other by NOTIFY; who misses a word finds out by itself some seconds later.
"""

import contextlib
import fcntl
import json
import logging
import math
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import URL, Connection, TextClause, text

from orchestrator.db.connection import engine as engines
from orchestrator.db.connection.errors import translated
from orchestrator.db.tables.schema import REVISION
from orchestrator.domain.around.server import LEASE_S, Server, way_out
from orchestrator.domain.words.errors import (
    AlreadyServed,
    ClusterUnavailable,
    SettingsError,
    StoreUnavailable,
    TbdError,
)

LOCK_SUFFIX = ".server"
RENEW_S = 3.0  # between renewals of the lease, and between looks at that of another: three tries for each lease
TROUBLE_S = 1.0  # before another try where the database is away
CLOCKS_S = 60.0  # by which clocks may differ before that is said; a judgement
MARGIN_S = 1.0  # the leader's own clock ends the lease so much earlier: a call under way has to arrive
# How the sessions are called by which servers look after the right: those that follow are counted.
LEADER, STANDBY = "tbd leads", "tbd follows"
CHANNEL = "tbd"
# Words between servers: something was stored that the leader should look at; something was stored that all may show;
# the lease was given back.
RING, NEWS, FREE = "ring", "news", "free"

# PostgreSQL's own patience with the host of a session that was cut off is two hours: here 20 s.
_SESSION = (
    "SET tcp_keepalives_idle = 5; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3; "
    f"SET statement_timeout = '5s'; LISTEN {CHANNEL}"
)
_NOW = "extract(epoch FROM clock_timestamp())::double precision"
_COLUMNS = f"""
    term, url, host, pid, since, until, {_NOW} AS now, (SELECT version_num FROM alembic_version) AS revision
"""
_ALL = f"""{_COLUMNS}, (
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = '{STANDBY}' AND pid <> pg_backend_pid()
) AS standbys"""
_LOOK = text(f"SELECT {_COLUMNS} FROM server")
_CHECK = text(f"SELECT {_COLUMNS} FROM server FOR KEY SHARE OF server")
_RENEW = text(f"UPDATE server SET until = {_NOW} + :lease_s WHERE term = :term RETURNING {_ALL}")
# Only as it was seen; the lock waits for the writes of whoever has led until now.
_TAKE = text(f"""
    WITH as_seen AS (
        SELECT id FROM server WHERE term = :seen AND until IS NOT DISTINCT FROM :was FOR UPDATE
    )
    UPDATE server SET url = :url, host = :host, pid = :pid, since = :since, until = {_NOW} + :lease_s,
        term = greatest(term + 1, floor({_NOW})::bigint)
    FROM as_seen WHERE server.id = as_seen.id RETURNING {_ALL}
""")
_GIVE_BACK = text(
    "UPDATE server SET url = NULL, host = NULL, pid = NULL, since = NULL, until = NULL WHERE term = :term"
)
_TELL = text("SELECT pg_notify(:channel, :word)")

Row = dict[str, Any]

log = logging.getLogger(__name__)


class Right(Protocol):
    """Held by one server of a database at a time."""

    def begin(self) -> None:
        """The schema is there: take the right, or follow whoever has it.

        Raises:
            AlreadyServed: another server has it, and this one does not follow.
        """

    def await_lead(self, timeout_s: float) -> bool:
        """Whether this server leads, as soon as it does, or after the time. It does so until its process ends."""

    def term(self) -> int | None:
        """The term to call agents with; None: there are no terms here.

        Raises:
            ClusterUnavailable: this server does not lead, or its lease may be over.
        """

    def leader(self) -> Server | None:
        """Who leads, as far as is known."""

    def is_followed(self) -> bool:
        """Whether another server would take the lead at once."""

    def tell(self, word: str) -> None:
        """Have other servers of the database hear ``word``, soon. Returns at once, and fails never."""

    def listen(self, hear: Callable[[str], None]) -> None:
        """Have ``hear``, which has to return at once, called with each word of another server."""

    def check(self, connection: Connection) -> None:
        """Called in the transaction of each write. Raises ``StoreUnavailable`` where it must not be made."""

    def lost(self) -> str | None:
        """Why this server has to end: another one leads in its place, or the schema is another one."""

    def close(self) -> None:
        """Give the right back. Idempotent."""


def take(url: str, server: Server, say: Callable[[str], None], *, follows: bool = False) -> Right:
    """The right to decide for the database at ``url``, for ``server``. ``say`` is told of a wait; ``follows``: on
    PostgreSQL, be a follower where another leads.

    Raises:
        AlreadyServed: another server of a SQLite file has it.
        SettingsError: there can be no lock.
    """
    parsed = engines.parse_url(url)
    return FileRight(parsed, server) if engines.is_sqlite(parsed) else Lease(parsed, server, say, follows)


class FileRight:
    """See the module: of a SQLite file. Its way of taking a lock can be lost by the end of the process only."""

    def __init__(self, url: URL, server: Server) -> None:
        self._server = server
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

    def await_lead(self, timeout_s: float) -> bool:
        return True

    def term(self) -> None:
        return None

    def leader(self) -> Server:
        return self._server

    def is_followed(self) -> bool:
        return False

    def tell(self, word: str) -> None:
        """Nothing: there is nobody."""

    def listen(self, hear: Callable[[str], None]) -> None:
        """Nothing: there is nobody."""

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


class Lease:
    """See the module: of a database of PostgreSQL. One thread speaks to that for it, by a session of its own."""

    def __init__(self, url: URL, server: Server, say: Callable[[str], None], follows: bool) -> None:
        self._database = f"the database {url.database} at {url.host or 'this host'}"
        self._server = server
        self._say = say
        self._follows = follows
        self._engine = engines.postgresql_engine(url)
        self._session: Connection | None = None
        self._back_at: float | None = None  # when the session was made anew, by our clock
        self._seen: Row = {}  # the row of another, as it was when it was last looked at
        self._stood_since = 0.0  # since when it has been so, by our clock
        self._term: int | None = None
        self._asked_at = -math.inf  # when the last renewal that succeeded was asked for, by our clock
        self._standbys = 0  # that there were then
        self._leads = threading.Event()
        self._lost: str | None = None
        self._hear: Callable[[str], None] = lambda _: None
        self._words: deque[str] = deque()
        self._woken, self._wake = socket.socketpair()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="tbd-lease", daemon=True)

    def begin(self) -> None:
        with translated():
            self._session = self._connected()
            self._look(self._session)
            self._compare_clocks(_row(self._session, _LOOK)["now"] - time.time())
            if not self._leads.is_set():
                holder = f"the server at {Server.of(self._seen) or 'an unknown address'}"
                if self._follows:
                    self._say(f"{holder} leads, and this one follows")
                else:
                    self._say(f"{holder} has not ended in order, or lives: that shows within {LEASE_S:g} s")
                    self._see_whether_it_lives(self._session, (self._seen["term"], self._seen["until"]))
        self._thread.start()

    def _compare_clocks(self, behind_s: float) -> None:
        """No lease rests on this host's clock, but the times do of what is submitted here."""
        if abs(behind_s) > CLOCKS_S:
            how = f"{abs(behind_s):.0f} s {'behind' if behind_s > 0 else 'ahead of'}"
            self._say(
                f"the clock of this host is {how} that of the database: deadlines and turns will be wrong by that"
            )

    def _see_whether_it_lives(self, session: Connection, first: tuple[int, float]) -> None:
        while not self._leads.is_set():
            self._closing.wait(min(TROUBLE_S, self._look(session)))
            if not self._leads.is_set() and (self._seen["term"], self._seen["until"]) != first:
                holder = Server.of(self._seen)
                raise AlreadyServed(self._database, str(holder or "an address"), way_out(holder))

    def await_lead(self, timeout_s: float) -> bool:
        return self._leads.wait(timeout_s)

    def term(self) -> int:
        if self._term is None:
            whose = self.leader() or "not known yet"
            raise ClusterUnavailable(f"only the server that leads speaks to agents, and that is {whose}")
        if self._lost or (self._standbys and _now() > self._asked_at + LEASE_S - MARGIN_S):
            raise ClusterUnavailable(self._lost or "the lease of this server was not renewed: another one may lead now")
        return self._term

    def leader(self) -> Server | None:
        return self._server if self._leads.is_set() else Server.of(self._seen)

    def is_followed(self) -> bool:
        return self._standbys > 0

    def tell(self, word: str) -> None:
        self._words.append(word)
        self._rouse()

    def _rouse(self) -> None:
        with contextlib.suppress(OSError):  # the thread is awake, or has ended
            self._wake.send(b".", socket.MSG_DONTWAIT)

    def listen(self, hear: Callable[[str], None]) -> None:
        self._hear = hear

    def check(self, connection: Connection) -> None:
        self._compare(_row(connection, _CHECK))

    def _compare(self, found: Row) -> None:
        if self._term is not None and found.get("term") != self._term:
            self._lost = f"another server decides for this database now, at {Server.of(found) or 'no address any more'}"
        elif (revision := found.get("revision", REVISION)) != REVISION:
            self._lost = (
                f"the database has schema {revision} now, and this server speaks {REVISION}: another version of tbd "
                "has brought it there"
            )
        if self._lost:
            raise StoreUnavailable(self._lost)

    def lost(self) -> str | None:
        return self._lost

    def _keep(self) -> None:
        while not self._closing.is_set() and not self._lost:
            try:
                with translated():
                    if self._session is None:
                        self._session, self._back_at = self._connected(), _now()
                    self._pass_on(self._session)
                    self._sleep(self._session, self._look(self._session))
            except Exception as error:  # whatever it is: a lease that nobody looks after is over
                log.warning("the right to decide cannot be looked after: %s", error)
                self._drop()
                self._closing.wait(TROUBLE_S)

    def _connected(self) -> Connection:
        session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        session.detach()  # it is closed with the right: a pool would keep it
        session.exec_driver_sql(_SESSION)
        follows = self._follows and not self._leads.is_set()
        session.exec_driver_sql(f"SET application_name = '{STANDBY if follows else LEADER}'")
        return session

    def _look(self, session: Connection) -> float:
        """Renew the lease, or look at that of another one and take it when it is over; the seconds until the next look.

        Raises:
            StoreUnavailable: this server is to end.
        """
        asked_at = _now()
        if not self._leads.is_set():
            return self._follow(session, asked_at)
        if asked_at >= self._asked_at + RENEW_S:
            renewed = _row(session, _RENEW, term=self._term, lease_s=LEASE_S)
            self._compare(renewed or _row(session, _LOOK))
            self._lasts(asked_at, renewed)
        return self._asked_at + RENEW_S - asked_at

    def _follow(self, session: Connection, now: float) -> float:
        if not (found := _row(session, _LOOK)):  # removed by hand
            session.exec_driver_sql("INSERT INTO server (id, term) VALUES (1, 0) ON CONFLICT DO NOTHING")
            found = _row(session, _LOOK)
        self._compare(found)
        if not self._seen or (found["term"], found["until"]) != (self._seen["term"], self._seen["until"]):
            self._stood_since = now
        self._seen = found
        left_s = lease_left_s(found["until"], found["now"], now - self._stood_since)
        if self._back_at is not None:  # after an outage the one that led comes first
            left_s = max(left_s, self._back_at + RENEW_S + TROUBLE_S - now)
        if left_s > 0:
            return min(RENEW_S, left_s)
        if taken := _row(
            session, _TAKE, seen=found["term"], was=found["until"], lease_s=LEASE_S, **asdict(self._server)
        ):
            if former := Server.of(found):
                self._say(f"the lease of the server at {former} is over: this one leads now")
            session.exec_driver_sql(f"SET application_name = '{LEADER}'")
            self._term = taken["term"]
            self._lasts(now, taken)
            self._leads.set()
        return 0.0

    def _lasts(self, asked_at: float, row: Row) -> None:
        self._asked_at = asked_at
        self._standbys = row["standbys"]

    def _pass_on(self, session: Connection) -> None:
        words = set()
        while self._words:
            words.add(self._words.popleft())
        for word in words:
            session.execute(_TELL, {"channel": CHANNEL, "word": word})

    def _sleep(self, session: Connection, pause_s: float) -> None:
        """Until there is a word to pass on or to hear, or the time is over."""
        driver: Any = session.connection.dbapi_connection
        poll = select.poll()
        for descriptor in (driver.fileno(), self._woken.fileno()):
            poll.register(descriptor, select.POLLIN)
        poll.poll(max(0, math.ceil(pause_s * 1000)))
        with contextlib.suppress(BlockingIOError):
            self._woken.recv(4096, socket.MSG_DONTWAIT)
        for told in driver.notifies(timeout=0):
            if told.pid != driver.info.backend_pid:
                self._hear(told.payload)

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(Exception):  # it is broken already
                session.close()

    def close(self) -> None:
        self._closing.set()
        self._rouse()
        if self._thread.is_alive():
            self._thread.join()
        if self._session is not None and self._leads.is_set() and not self._lost:
            try:
                with translated():
                    self._session.execute(_GIVE_BACK, {"term": self._term})
                    self._session.execute(_TELL, {"channel": CHANNEL, "word": FREE})
            except TbdError as error:
                log.warning("the next server will wait some seconds: %s", error)
        self._drop()
        self._engine.dispose()
        for one in (self._woken, self._wake):
            one.close()


def lease_left_s(until: float | None, now: float, stood_s: float) -> float:
    """Seconds until a lease is over that lasts ``until`` (None: it was given back) and has not been renewed for
    ``stood_s``, which is by the clock of whoever looks: that of the database, whose time is ``now``, may be set back,
    and the row edited."""
    return 0.0 if until is None else min(until - now, LEASE_S - stood_s)


def _now() -> float:
    """Seconds that count while the machine sleeps: a lease does not wait for it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _row(connection: Connection, query: TextClause, **values: Any) -> Row:
    """The row that ``query`` gives; empty: it gives none."""
    found = connection.execute(query, values).one_or_none()
    return {} if found is None else found._asdict()
