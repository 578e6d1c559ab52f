"""Fixtures of the store's contract tests: a SQLite file and a PostgreSQL server of our own, and a store on either.

Modules take them with ``pytest_plugins = ["tests.contract.store_servers"]``.
"""

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.db.upgrade import admin
from tests.contract.postgresql_server import PostgresqlServer, installed

MISSING = "PostgreSQL is not installed: `apt install postgresql` lets the store's tests run on it too"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql(request: pytest.FixtureRequest) -> Iterator[PostgresqlServer]:
    """A running server, whose database ``template_tbd`` has the schema."""
    binaries = installed()
    if binaries is None:
        reporter = request.config.pluginmanager.getplugin("terminalreporter")
        if reporter is not None:
            reporter.write_line(MISSING)
        pytest.skip(MISSING)
    folder = Path(tempfile.mkdtemp(prefix="tbd-postgresql-"))  # not pytest's: its folders are closed to other users
    server = PostgresqlServer(binaries, folder)
    try:
        server.create()
        server.start()
        server.execute("CREATE DATABASE template_tbd")
        admin.upgrade(server.url("template_tbd"))
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
        (folder.parent / f"{folder.name}.log").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file that has the schema."""
    path = tmp_path_factory.mktemp("template") / "tbd.sqlite3"
    admin.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """The URL of a new SQLite database with the schema."""
    shutil.copy(sqlite_template, tmp_path / "tbd.sqlite3")
    return f"sqlite:///{tmp_path / 'tbd.sqlite3'}"


@pytest.fixture
def postgresql_url(postgresql: PostgresqlServer) -> Iterator[str]:
    """The URL of a new PostgreSQL database with the schema."""
    name = f"test_{next(_numbers)}"
    postgresql.execute(f"CREATE DATABASE {name} TEMPLATE template_tbd")
    yield postgresql.url(name)
    postgresql.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of a new database of either kind, with the schema."""
    return str(request.getfixturevalue(f"{request.param}_url"))


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    """A store on a new database of either kind."""
    opened = SqlStore(url)
    yield opened
    opened.close()
