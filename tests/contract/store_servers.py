"""Fixtures of the store's contract tests: a SQLite file and a PostgreSQL server of our own, and a store on either.

Modules take them with ``pytest_plugins = ["tests.contract.store_servers"]``.
"""

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from orchestrator.db import admin
from orchestrator.db.store import SqlStore

MISSING = "PostgreSQL is not installed: `apt install postgresql` lets the store's tests run on it too"
_numbers = itertools.count(1)


@dataclass
class PostgresqlServer:
    """A server in a temporary folder. It refuses to run as root, so root runs it as another user."""

    binaries: Path
    folder: Path
    port: int = 0
    process: "subprocess.Popen[bytes] | None" = None
    as_user: dict[str, Any] = field(default_factory=dict)

    def create(self) -> None:
        if os.geteuid() == 0:
            user = _other_user()
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.as_user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        initdb = [self.binaries / "initdb", "-D", self.folder / "data", "-A", "trust", "-U", "tbd", "-E", "UTF8", "-N"]
        subprocess.run(
            initdb, check=True, capture_output=True, cwd=self.folder, env=self._environment(), **self.as_user
        )
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def start(self) -> None:
        # fsync off: no test takes the power away, and the tests of SIGKILL kill clients.
        options = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "", "fsync": "off"}
        command = [str(self.binaries / "postgres"), "-D", str(self.folder / "data")]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        with open(self.folder.parent / f"{self.folder.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env=self._environment(), stdout=log, stderr=log, **self.as_user
            )
        self._wait_until_ready()

    def stop(self) -> None:
        """End it at once, connections and all."""
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
            self.process.wait(timeout=30)
            self.process = None

    def url(self, database: str) -> str:
        return f"postgresql://tbd@127.0.0.1:{self.port}/{database}"

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)  # type: ignore[call-overload]

    def _environment(self) -> dict[str, str]:
        return {"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert self.process is not None
                assert self.process.poll() is None, "the server ended by itself"
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.05)


def _other_user() -> pwd.struct_passwd:
    names = {user.pw_name: user for user in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]


def _binaries() -> Path | None:
    """Debian keeps the server's programs off PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    on_path = shutil.which("postgres")
    if found:
        return found[-1].parent
    return Path(on_path).parent if on_path else None


@pytest.fixture(scope="session")
def postgresql(request: pytest.FixtureRequest) -> Iterator[PostgresqlServer]:
    """A running server, whose database ``template_tbd`` has the schema."""
    binaries = _binaries()
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
