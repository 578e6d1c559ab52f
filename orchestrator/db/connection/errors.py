"""The one place where exceptions of SQLAlchemy and of the drivers become errors of tbd."""

import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import exc

from orchestrator.domain.words.errors import (
    Conflict,
    InvalidRequest,
    Problem,
    StoreDamaged,
    StoreFull,
    StoreUnavailable,
    TbdError,
)

# Less than this is no room: SQLite grows its files by 32 KiB and more at once. A judgement.
LEAST_ROOM_BYTES = 1 << 20

_ROOM_MATTERS = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
# Of both drivers, whose exceptions have the names of PEP 249.
_AWAY = ("OperationalError", "InterfaceError", "InternalError")
# PostgreSQL's codes (SQLSTATE).
_DISK_FULL, _FOREIGN_KEY_VIOLATION = "53100", "23503"


@contextmanager
def translated(folder: Path | None = None) -> Iterator[None]:
    """Raise errors of tbd instead of foreign ones. Mistakes in our own SQL stay as they are: they are bugs."""
    try:
        yield
    except Exception as error:
        ours = translate(error, folder)
        if ours is None:
            raise
        raise ours from error


def translate(error: Exception, folder: Path | None = None) -> TbdError | None:
    """The error of tbd that ``error`` means, or None when it is none of the database's.

    ``folder`` is that of a SQLite file: whether its disk is full decides what a failed input or output means.
    """
    if isinstance(error, exc.TimeoutError):
        return StoreUnavailable("all connections to the database are busy")
    cause = cause_of(error)
    if _sqlstate(cause) == _DISK_FULL or is_full(cause, folder):
        return StoreFull("the disk of the database is full: make room, nothing was stored")
    if isinstance(cause, _drivers_own("IntegrityError")):
        return Conflict(f"the database holds something that contradicts this: {_first_line(cause)}")
    if isinstance(cause, (*_drivers_own("DataError"), OverflowError, UnicodeEncodeError)):
        return InvalidRequest([Problem("", f"the database cannot hold this text or number: {_first_line(cause)}")])
    if sqlite_code(cause) in _DAMAGED:
        return StoreDamaged(
            f"the file of the database is damaged, or is no database ({_first_line(cause)}): "
            "put a copy in its place, or give another TBD_DATA_DIR or TBD_DATABASE_URL"
        )
    is_away = isinstance(cause, _drivers_own(*_AWAY)) or type(cause) is sqlite3.DatabaseError
    if is_away or isinstance(error, exc.DisconnectionError):
        return StoreUnavailable(f"the database does not answer: {_first_line(cause)}")
    return None


def cause_of(error: BaseException) -> BaseException:
    """The driver's exception within SQLAlchemy's."""
    if isinstance(error, exc.DBAPIError) and error.orig is not None:
        return error.orig
    return error


def is_full(error: BaseException, folder: Path | None = None) -> bool:
    """Whether SQLite failed because there is no room. Where its shared memory or its log cannot grow it only says that
    input or output failed, so the room on the disk of ``folder`` is looked at."""
    code = sqlite_code(error)
    if code in _ROOM_MATTERS and folder is not None:
        try:
            return shutil.disk_usage(folder).free < LEAST_ROOM_BYTES
        except OSError:
            return False
    return code == sqlite3.SQLITE_FULL


def sqlite_code(error: BaseException) -> int | None:
    """SQLite's primary result code, or None."""
    code = getattr(cause_of(error), "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF


def is_foreign_key_violation(error: Exception) -> bool:
    """Whether a row named another one that is not there."""
    cause = cause_of(error)
    if isinstance(cause, sqlite3.IntegrityError):
        return cause.sqlite_errorcode == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
    return _sqlstate(cause) == _FOREIGN_KEY_VIOLATION


def _drivers_own(*names: str) -> tuple[type[Exception], ...]:
    """The exceptions of these names. psycopg is imported, by SQLAlchemy, only where it is used."""
    drivers = [sqlite3, *([sys.modules["psycopg"]] if "psycopg" in sys.modules else [])]
    return tuple(getattr(driver, name) for driver in drivers for name in names)


def _sqlstate(error: BaseException) -> str | None:
    return getattr(error, "sqlstate", None)


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__
