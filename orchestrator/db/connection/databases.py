"""The two databases behind one face: ``read`` and ``write`` carry out a piece of work on a connection."""

import os
from typing import Protocol, TypeVar

from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import DBAPIError

from orchestrator.db.connection import engine as engines
from orchestrator.db.connection.errors import cause_of, translated
from orchestrator.db.connection.right import Right
from orchestrator.db.connection.writer import MAX_WAITING, WAIT_TIMEOUT_S, Work, Writer
from orchestrator.db.tables.schema import REVISION
from orchestrator.domain.words.errors import StoreUnavailable

Result = TypeVar("Result")

# PostgreSQL chose this transaction as the one to give way (serialization failure, deadlock): it is simply repeated.
_GAVE_WAY = ("40001", "40P01")
_TRIES = 3


class Database(Protocol):
    """What the store needs of a database."""

    def read(self, work: Work[Result]) -> Result:
        """Carry out ``work``, which only reads, on one snapshot.

        Raises:
            StoreUnavailable: the database is away.
        """

    def write(self, work: Work[Result]) -> Result:
        """Carry out ``work`` in a transaction and return once it is durable. It may be carried out more than once.

        Raises:
            StoreUnavailable: the database is away or overloaded.
            StoreFull: its disk is full.
        """

    def close(self) -> None:
        """Let go of all connections."""


class SqliteDatabase:
    """A SQLite file: one writer thread, and a pool of connections that read."""

    def __init__(self, url: URL, *, max_waiting: int = MAX_WAITING, wait_timeout_s: float = WAIT_TIMEOUT_S) -> None:
        self.path = engines.sqlite_path(url)
        self.folder = self.path.parent
        self._readers = engines.sqlite_reader_engine(url)
        self._writers = engines.sqlite_writer_engine(url, create=False)
        self._identity = _identity(os.stat(self.path))
        self.writer = Writer(self, max_waiting=max_waiting, wait_timeout_s=wait_timeout_s)

    def read(self, work: Work[Result]) -> Result:
        self._check_for_reading()
        with translated(self.folder), self._readers.connect() as connection:
            return work(connection)

    def write(self, work: Work[Result]) -> Result:
        return self.writer.write(work)

    def close(self) -> None:
        self.writer.close()
        self._readers.dispose()

    def connect(self) -> Connection:
        """A connection for the writer, after a look whether the file is one of this version of tbd."""
        connection = self._writers.connect()
        self._identity = _identity(os.stat(self.path))
        found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
        if found != REVISION:
            connection.close()
            raise StoreUnavailable(f"{self.path} was replaced by a database of schema {found}, not {REVISION}")
        return connection

    def check(self) -> bool:
        """See ``writer.File``. SQLite itself would go on writing into a file that was deleted."""
        try:
            return _identity(os.stat(self.path)) == self._identity
        except OSError as error:
            raise StoreUnavailable(f"the file of the database is away: {error}") from error

    def _check_for_reading(self) -> None:
        if self.writer.closed:
            raise StoreUnavailable("the store is closed")
        if not self.check():
            self._readers.dispose()


class PostgresqlDatabase:
    """A PostgreSQL server: a pool of connections; the server itself groups commits. Nothing is written without the
    ``right``, where there is one."""

    def __init__(self, url: URL, right: Right | None = None) -> None:
        self._closed = False
        self._right = right
        self._engine = engines.postgresql_engine(url)
        self._reading = engines.reading(self._engine)

    def read(self, work: Work[Result]) -> Result:
        self._check_open()
        with translated(), self._reading.connect() as connection:
            return work(connection)

    def write(self, work: Work[Result]) -> Result:
        self._check_open()
        with translated():
            for _ in range(_TRIES - 1):
                try:
                    return self._transaction(work)
                except DBAPIError as error:
                    if getattr(cause_of(error), "sqlstate", None) not in _GAVE_WAY:
                        raise
            return self._transaction(work)

    def _transaction(self, work: Work[Result]) -> Result:
        with self._engine.begin() as connection:
            if self._right is not None:
                self._right.check(connection)
            return work(connection)

    def close(self) -> None:
        self._closed = True
        self._engine.dispose()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store is closed")


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
