"""The schema of a database: which one it has, whether this code speaks it, and bringing it up to date.

Behind ``tbd db current``, ``tbd db check`` and ``tbd db upgrade``; ``store.SqlStore`` upgrades when it opens.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import URL, Connection, text

from orchestrator.db.connection import engine as engines
from orchestrator.db.connection.errors import translated
from orchestrator.db.connection.looking import UNRELEASED, UNRELEASED_TEXT, database_of, revision_of
from orchestrator.db.tables.schema import REVISION
from orchestrator.domain.words.errors import Damaged, SettingsError

if TYPE_CHECKING:  # alembic takes 0.2 s to import, and an up-to-date database does not need it
    from alembic.config import Config

Result = TypeVar("Result")
_MIGRATIONS = Path(__file__).parents[1] / "migrations"
FIRST = "v0001"
_LOCK = 0x7462645F6462  # "tbd_db": the number of the advisory lock that upgrades of one database take


class SchemaUnknown(SettingsError):  # noqa: N818 - reads as what happened
    """The database was written by a newer version of tbd, or by one from before the first release."""


def current(url: str) -> str | None:
    """The revision of the schema of the database, or None where it has none yet.

    Raises:
        SettingsError: ``url`` is none of a database that is supported.
        StoreUnavailable: the database does not answer.
    """
    parsed = engines.parse_url(url)
    if engines.is_sqlite(parsed) and not engines.sqlite_path(parsed).exists():
        return None
    return database_of(parsed).read(revision_of)


def check(url: str) -> str:
    """Say in words how the schema of the database stands to this code. Raises as ``current`` does, and:

    Raises:
        SchemaUnknown: the database was written by a newer version of tbd, or before the first release.
    """
    found = current(url)
    if found is None:
        return f"the database is empty; `tbd db upgrade` makes the tables of schema {REVISION}"
    if found == REVISION:
        return f"the database has schema {REVISION}, as this version of tbd"
    _refuse_unknown(found)
    return f"the database has schema {found}; `tbd db upgrade` brings it to {REVISION}"


def damaged(url: str) -> list[Damaged]:
    """The rows of a database of this version's schema that cannot be read. Raises as ``current`` does."""
    if current(url) != REVISION:
        return []
    from orchestrator.db.upgrade import check as rows_check

    return database_of(engines.parse_url(url)).read(lambda connection: list(rows_check.damaged(connection)))


def upgrade(url: str) -> tuple[str | None, str]:
    """Bring the schema up to date, in one transaction; (the revision before, the revision after).

    Raises:
        SettingsError: ``url`` is none of a database that is supported.
        SchemaUnknown: as ``check``; nothing was changed.
        StoreUnavailable: the database does not answer.
    """
    parsed = engines.parse_url(url)
    if engines.is_sqlite(parsed):
        engines.sqlite_path(parsed).parent.mkdir(parents=True, exist_ok=True)
    with _connection(parsed) as connection:
        before = revision_of(connection)
        connection.rollback()  # the look is over; what follows is a transaction of its own
        if before != REVISION:
            before = _alone(connection, lambda: _upgrade(connection))
        return before, REVISION


def _upgrade(connection: Connection) -> str | None:
    """Look again now that nobody else upgrades, then run what is missing."""
    before = revision_of(connection)
    if before == REVISION:
        return before
    if before is not None:
        _refuse_unknown(before)
        if connection.dialect.name == "postgresql":  # servers write no more until it is done, and then learn of it
            connection.execute(text("LOCK TABLE server IN ACCESS EXCLUSIVE MODE"))
    from alembic import command

    configuration = _configuration()
    configuration.attributes["connection"] = connection
    if before is None:  # the first migration makes the tables as they are now: nothing is left for the others
        command.upgrade(configuration, FIRST)
        command.stamp(configuration, REVISION)
    else:
        command.upgrade(configuration, REVISION)
    return before


def _alone(connection: Connection, work: Callable[[], Result]) -> Result:
    """Carry out ``work`` in one transaction that no other upgrade of this database overlaps."""
    if connection.dialect.name == "postgresql":
        with connection.begin():
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            return work()
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    try:
        done = work()
    except BaseException:
        connection.exec_driver_sql("ROLLBACK")
        raise
    connection.exec_driver_sql("COMMIT")
    return done


def _refuse_unknown(found: str) -> None:
    if found in UNRELEASED:
        raise SchemaUnknown(f"the database has schema {found}. {UNRELEASED_TEXT}")
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory.from_config(_configuration()).walk_revisions()}
    if found not in known:
        raise SchemaUnknown(
            f"the database has schema {found}, which this version of tbd (schema {REVISION}) does not know: "
            "a newer version wrote it; use that one, or another TBD_DATABASE_URL or TBD_DATA_DIR"
        )


def _configuration() -> "Config":
    from alembic.config import Config

    configuration = Config()
    configuration.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    return configuration


@contextmanager
def _connection(url: URL) -> Iterator[Connection]:
    sqlite = engines.is_sqlite(url)
    engine = engines.sqlite_writer_engine(url, create=True) if sqlite else engines.postgresql_engine(url)
    folder = engines.sqlite_path(url).parent if sqlite else None
    try:
        with translated(folder), engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()
