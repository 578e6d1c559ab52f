"""How connections to the two databases are made: URLs, pools, pragmas."""

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool, QueuePool

from orchestrator.domain.words.errors import SettingsError

BUSY_TIMEOUT_S = 5.0  # how long SQLite waits for a lock that another process holds
POOL_SIZE, POOL_OVERFLOW, POOL_TIMEOUT_S = 8, 32, 10.0  # 40 is the size of the pool of threads that serves requests

# A network that swallows packets must not hold a request for minutes (libpq's defaults do).
_POSTGRESQL_ARGUMENTS: dict[str, str | int] = {
    "application_name": "tbd",
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "options": "-c lock_timeout=20s -c statement_timeout=120s",
}


def parse_url(text: str) -> URL:
    """The URL of a database with its driver.

    Raises:
        SettingsError: it is no URL of a SQLite file or of PostgreSQL.
    """
    try:
        url = make_url(text)
    except ArgumentError:
        raise SettingsError("TBD_DATABASE_URL is no URL such as sqlite:////path/file or postgresql://…") from None
    backend = "postgresql" if url.drivername == "postgres" else url.drivername.split("+")[0]
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise SettingsError(f"TBD_DATABASE_URL: {backend} is not supported, SQLite and PostgreSQL are")
    if not url.database or url.database == ":memory:":
        raise SettingsError("TBD_DATABASE_URL: a database in memory would keep nothing: name a file")
    return url.set(drivername="sqlite+pysqlite")


def is_sqlite(url: URL) -> bool:
    return url.get_backend_name() == "sqlite"


def sqlite_path(url: URL) -> Path:
    """The file of a SQLite database."""
    assert url.database is not None
    return Path(url.database).absolute()


def sqlite_writer_engine(url: URL, *, create: bool) -> Engine:
    """For one connection that writes; its user says BEGIN IMMEDIATE and COMMIT by itself.

    ``create``: make the file where there is none. A file that vanished later must not be replaced by an empty one.
    """
    engine = create_engine(
        "sqlite+pysqlite://",
        creator=lambda: _connect_sqlite(sqlite_path(url), "rwc" if create else "rw"),
        poolclass=NullPool,
        isolation_level="AUTOCOMMIT",
    )
    event.listen(engine, "connect", _prepare_writer)
    return engine


def sqlite_reader_engine(url: URL) -> Engine:
    """For many connections that only read, each transaction one snapshot."""
    engine = create_engine(
        "sqlite+pysqlite://",
        creator=lambda: _connect_sqlite(sqlite_path(url), "rw"),
        poolclass=QueuePool,
        pool_size=POOL_SIZE,
        max_overflow=POOL_OVERFLOW,
        pool_timeout=POOL_TIMEOUT_S,
    )
    event.listen(engine, "connect", _prepare_reader)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def sqlite_looking_engine(path: Path, *, is_still: bool) -> Engine:
    """For one connection that only reads. A file that ``is_still``, which nobody has open, is also left alone: no
    locks, no files beside it. Else SQLite may have to make the index (-shm) of the log (-wal)."""
    mode = "ro&immutable=1" if is_still else "ro"
    creator = partial(_connect_sqlite, path, mode)
    engine = create_engine("sqlite+pysqlite://", creator=creator, poolclass=NullPool)
    event.listen(engine, "connect", _prepare_reader)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def postgresql_engine(url: URL) -> Engine:
    """A pool of connections that are tried before use: it outlives a restart of the server."""
    arguments = {name: value for name, value in _POSTGRESQL_ARGUMENTS.items() if name not in url.query}
    return create_engine(
        url,
        connect_args=arguments,
        pool_pre_ping=True,
        pool_size=POOL_SIZE,
        max_overflow=POOL_OVERFLOW,
        pool_timeout=POOL_TIMEOUT_S,
    )


def reading(engine: Engine) -> Engine:
    """The same pool for transactions that only read, each one snapshot."""
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def _connect_sqlite(path: Path, mode: str) -> sqlite3.Connection:
    # isolation_level None: the driver begins no transactions of its own. Pooled connections change threads.
    uri = f"{path.as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)


def _prepare_writer(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")  # a commit that returned survives the loss of power
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA cache_size = -65536")  # KiB
    connection.execute("PRAGMA journal_size_limit = 67108864")


def _prepare_reader(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # SQLAlchemy's dialect set its default
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA foreign_keys = ON")
