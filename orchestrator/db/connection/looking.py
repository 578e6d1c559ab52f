"""The database for who only looks, without a server: nothing is made, brought up to date or locked, wherever it lies.

SQLite's own way of reading makes two files beside a database in WAL mode, and leaves them there. Where nobody has the
database open it is therefore read as a file that does not change (``immutable``), and a server that starts meanwhile
and changes it is noticed: then it is read again, in the usual way, as beside any server.
"""

import getpass
import os
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL, Connection, inspect, text

from orchestrator.db.connection import engine as engines
from orchestrator.db.connection.databases import PostgresqlDatabase, Result
from orchestrator.db.connection.errors import translated
from orchestrator.db.connection.writer import Work
from orchestrator.db.tables.schema import REVISION
from orchestrator.domain.words.errors import StoreUnavailable

_TRIES = 3  # a server that starts checkpoints the file once or twice: a judgement
# Before the first release the schema had fourteen numbers of another kind. No migration leads on from them.
UNRELEASED = frozenset(f"{number:04d}" for number in range(1, 15))
UNRELEASED_TEXT = (
    "A version of tbd from before the first release wrote it, and this one cannot read it: tbd serve and tbd export of "
    "that version can. Then give this one another TBD_DATABASE_URL or TBD_DATA_DIR"
)
_BEGIN = "Begin with tbd run resnet-50, or tbd serve; TBD_SERVER names a server elsewhere"


class _State(NamedTuple):
    """What changes about a file when somebody else writes to the database."""

    inode: int
    bytes: int
    mtime_ns: int
    log_bytes: int  # committed, and not yet in the file itself


class SqliteFile:
    """Reads a SQLite file; see the head of this page.

    Raises:
        StoreUnavailable: from ``read``: there is none, or it cannot be read; the text says why.
    """

    def __init__(self, url: URL) -> None:
        self._path = engines.sqlite_path(url)

    def read(self, work: Work[Result]) -> Result:
        for _ in range(_TRIES):
            before = self._state()
            try:
                done = self._read(work, is_still=before.log_bytes == 0)
            except StoreUnavailable:
                if before == self._state():
                    raise
                continue
            if before.log_bytes or before == self._state():
                return done
        raise StoreUnavailable(f"{self._path} changes too fast to be looked at: ask the server that writes to it")

    def _read(self, work: Work[Result], is_still: bool) -> Result:
        engine = engines.sqlite_looking_engine(self._path, is_still=is_still)
        try:
            with translated(self._path.parent), engine.connect() as connection:
                return work(connection)
        except StoreUnavailable as error:
            if is_still or os.access(self._path.parent, os.W_OK):
                raise
            raise StoreUnavailable(
                f"{error}. What was stored last stands in {self._path.name}-wal, which cannot be read where nothing "
                "can be written: copy the folder to another disk, and name the copy by TBD_DATA_DIR"
            ) from error
        finally:
            engine.dispose()

    def _state(self) -> _State:
        log = Path(f"{self._path}-wal")
        try:
            status = os.stat(self._path)
            if not os.access(self._path, os.R_OK):
                raise PermissionError
            log_bytes = os.stat(log).st_size if log.exists() else 0
        except FileNotFoundError:
            raise StoreUnavailable(
                f"nothing here yet: {self._path.parent} (TBD_DATA_DIR) has never been used. {_BEGIN}"
            ) from None
        except PermissionError:
            raise StoreUnavailable(
                f"{self._path} may not be read by {getpass.getuser()}: ask whoever it belongs to, or that server "
                "(TBD_SERVER), or give another TBD_DATA_DIR"
            ) from None
        return _State(status.st_ino, status.st_size, status.st_mtime_ns, log_bytes)

    def close(self) -> None:
        """Nothing is open between two reads."""


class OfThisVersion:
    """Reads of ``url``, which has to be of the schema of this version of tbd. Nothing is looked at before the first."""

    def __init__(self, url: str) -> None:
        parsed = engines.parse_url(url)
        self._database = database_of(parsed)
        self._where = str(engines.sqlite_path(parsed)) if engines.is_sqlite(parsed) else "the database"

    def read(self, work: Work[Result]) -> Result:
        """See ``databases.Database``; raises StoreUnavailable also for another schema."""

        def checked(connection: Connection) -> Result:
            _check_revision(connection, self._where)
            return work(connection)

        return self._database.read(checked)

    def write(self, _work: Work[Result]) -> Result:
        """Raises StoreUnavailable."""
        raise StoreUnavailable("nothing can be stored without a server. Start one with: tbd serve")

    def close(self) -> None:
        self._database.close()


def database_of(url: URL) -> "SqliteFile | PostgresqlDatabase":
    """What reads the database of ``url``, and changes nothing."""
    return SqliteFile(url) if engines.is_sqlite(url) else PostgresqlDatabase(url)


def revision_of(connection: Connection) -> str | None:
    """The revision of the schema of the database, or None where it has none yet."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _check_revision(connection: Connection, where: str) -> None:
    """Raises StoreUnavailable where the database is not of this version."""
    found = revision_of(connection)
    if found is None:
        raise StoreUnavailable(f"nothing here yet: {where} is empty. {_BEGIN}")
    if found in UNRELEASED:
        raise StoreUnavailable(f"{where} has schema {found}. {UNRELEASED_TEXT}")
    if found != REVISION:
        raise StoreUnavailable(
            f"{where} has schema {found}, and this version of tbd reads {REVISION}. An older one is brought up to date "
            "by tbd db upgrade, or by tbd serve; one of a newer version needs that version (tbd db check says which)"
        )
