"""Exceptions of the drivers become errors of tbd; mistakes of our own stay what they are."""

import sqlite3
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import exc

from orchestrator.db.connection import errors
from orchestrator.db.connection.errors import translate, translated
from orchestrator.domain.words.errors import Conflict, InvalidRequest, StoreDamaged, StoreFull, StoreUnavailable


def sqlite_error(kind: type[sqlite3.Error], code: int) -> sqlite3.Error:
    error = kind("it failed")
    error.sqlite_errorcode = code
    return error


CASES = [
    (sqlite_error(sqlite3.OperationalError, sqlite3.SQLITE_FULL), StoreFull),
    (sqlite_error(sqlite3.OperationalError, sqlite3.SQLITE_BUSY), StoreUnavailable),
    (sqlite_error(sqlite3.OperationalError, sqlite3.SQLITE_IOERR_FSYNC), StoreUnavailable),
    (sqlite_error(sqlite3.OperationalError, sqlite3.SQLITE_CANTOPEN), StoreUnavailable),
    (sqlite_error(sqlite3.DatabaseError, sqlite3.SQLITE_CORRUPT), StoreDamaged),
    (sqlite_error(sqlite3.IntegrityError, sqlite3.SQLITE_CONSTRAINT_UNIQUE), Conflict),
    (psycopg.errors.DiskFull("no space"), StoreFull),
    (psycopg.OperationalError("gone"), StoreUnavailable),
    (psycopg.errors.AdminShutdown("stopping"), StoreUnavailable),
    (psycopg.errors.ReadOnlySqlTransaction("a replica"), StoreUnavailable),
    (psycopg.InterfaceError("closed"), StoreUnavailable),
    (psycopg.errors.UniqueViolation("twice"), Conflict),
    (psycopg.DataError("NUL"), InvalidRequest),
    (OverflowError("too large"), InvalidRequest),
    (UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogate"), InvalidRequest),
    (exc.TimeoutError("pool"), StoreUnavailable),
]


@pytest.mark.parametrize(("foreign", "ours"), CASES, ids=[f"{type(a).__name__}-{b.__name__}" for a, b in CASES])
def test_a_foreign_exception_becomes_ours_bare_or_wrapped(foreign: Exception, ours: type[Exception]) -> None:
    assert type(translate(foreign)) is ours
    if isinstance(foreign, (sqlite3.Error, psycopg.Error)):
        assert type(translate(exc.DBAPIError("SELECT 1", {}, foreign))) is ours


@pytest.mark.parametrize("mistake", [KeyError("x"), psycopg.ProgrammingError("syntax"), AssertionError()])
def test_a_mistake_of_ours_is_not_dressed_up(mistake: Exception) -> None:
    assert translate(mistake) is None
    with pytest.raises(type(mistake)), translated():
        raise mistake


@pytest.mark.parametrize(("least", "ours"), [(2**62, StoreFull), (0, StoreUnavailable)])
def test_a_failed_output_means_a_full_disk_where_the_disk_is_full(
    least: int, ours: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "LEAST_ROOM_BYTES", least)

    failed = sqlite_error(sqlite3.OperationalError, sqlite3.SQLITE_IOERR_SHMSIZE)

    assert type(translate(failed, tmp_path)) is ours
