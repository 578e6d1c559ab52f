"""A copy of a database, also of one that a server writes to: behind ``tbd db backup``."""

import os
import shlex
import sqlite3
from contextlib import closing
from pathlib import Path

from orchestrator.db.connection import engine as engines
from orchestrator.domain.words.errors import SettingsError, StoreUnavailable


def backup(url: str, file: Path) -> int:
    """Copy the SQLite database into a new ``file``, as it is at one moment; the bytes of the copy.

    By SQLite's own backup (https://www.sqlite.org/backup.html), in one step: whoever writes meanwhile is not held up.
    The copy is checked, and has its name only when it is whole and on the disk.

    Raises:
        SettingsError: there is no such database, the file is there already or cannot be written, or PostgreSQL, which
            has its own way: the message says which command that is.
        StoreUnavailable: the database cannot be read, or the copy is not whole.
    """
    parsed = engines.parse_url(url)
    if not engines.is_sqlite(parsed):
        dump = [
            "pg_dump",
            "-Fc",
            f"--file={file}",
            parsed.set(drivername="postgresql", password=None).render_as_string(),
        ]
        raise SettingsError(f"PostgreSQL makes its own: {shlex.join(dump)} (pg_restore --clean brings it back)")
    source = engines.sqlite_path(parsed)
    if not source.exists():
        raise SettingsError(f"there is no database at {source}")
    if file.exists():
        raise SettingsError(f"{file} is there already: name another file, or remove it")
    unfinished = file.with_name(file.name + ".unfinished")
    try:
        # It holds what the database holds: nobody else may read it.
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
        _copy(source, unfinished)
        os.rename(unfinished, file)
    except OSError as error:
        raise SettingsError(f"{file} cannot be written: {error.strerror}") from error
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{source} cannot be copied to {file}: {error}") from error
    finally:
        unfinished.unlink(missing_ok=True)
    return file.stat().st_size


def _copy(source: Path, target: Path) -> None:
    with (
        closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True, timeout=engines.BUSY_TIMEOUT_S)) as origin,
        closing(sqlite3.connect(target)) as copy,
    ):
        origin.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, without the log beside it
        (verdict,) = copy.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(f"the copy is not whole: {verdict}")
    with target.open("rb+") as written:
        os.fsync(written.fileno())
