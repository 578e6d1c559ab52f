"""The service does not come up, or comes up late: a message that names the cause and the way out, and an exit code.

2: somebody has to change something. 4: what it needs is not there (any more), and whoever keeps it alive tries again.
"""

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.contract.postgresql_server import PostgresqlServer
from tests.faults.test_bad_luck import sleep
from tests.faults.test_database_trouble import small_disk
from tests.support.service import Service, status_of, until

pytest_plugins = ["tests.contract.store_servers"]

__all__ = ["small_disk"]
START_S = 60


def refused(folder: Path, **settings: str) -> tuple[int, str]:
    """(exit code, last line of stderr) of a service that does not come up."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith("TBD_")}
    ours = {"TBD_DATA_DIR": str(folder / "data"), "TBD_LOCK_DIR": str(folder / "locks"), "TBD_CLUSTER": "local"}
    command = [sys.executable, "-m", "orchestrator.app", "serve"]
    environment = kept | ours | {"TBD_PORT": "0"} | settings
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=START_S, check=False)
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield int(taken.getsockname()[1])


def test_a_port_that_is_in_use_is_named(tmp_path: Path, taken_port: int) -> None:
    code, said = refused(tmp_path, TBD_PORT=str(taken_port))
    assert code == 2
    assert f"cannot listen on 127.0.0.1:{taken_port}: Address already in use" in said
    assert "TBD_PORT" in said


def test_a_database_of_a_newer_schema_is_left_as_it_is(tmp_path: Path) -> None:
    database = tmp_path / "newer.sqlite3"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES ('9999')")
        connection.commit()
    code, said = refused(tmp_path, TBD_DATABASE_URL=f"sqlite:///{database}")
    assert code == 2
    assert "schema 9999" in said
    assert "a newer version wrote it" in said
    with closing(sqlite3.connect(database)) as connection:
        assert [name for (name,) in connection.execute("SELECT name FROM sqlite_master")] == ["alembic_version"]


@pytest.mark.after_change
def test_a_database_that_is_none_is_left_as_it_is(tmp_path: Path) -> None:
    database = tmp_path / "none.sqlite3"
    database.write_text("not a database " * 1000)
    code, said = refused(tmp_path, TBD_DATABASE_URL=f"sqlite:///{database}")
    assert (code, "is damaged, or is no database (file is not a database)" in said) == (2, True)
    assert database.read_text() == "not a database " * 1000


@pytest.mark.after_change
def test_a_disk_that_is_only_read_is_named(small_disk: Path, tmp_path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    where = {"TBD_DATA_DIR": str(small_disk)}, {"TBD_DATABASE_URL": f"sqlite:///{small_disk / 'tbd.sqlite3'}"}
    for setting in where:
        code, said = refused(tmp_path, **setting)
        assert (code, "Read-only file system" in said, "give another TBD_DATA_DIR" in said) == (2, True, True)


@pytest.mark.after_change
def test_a_database_that_does_not_come_is_given_up_with_exit_code_4(tmp_path: Path) -> None:
    url = "postgresql://tbd@127.0.0.1:1/tbd?connect_timeout=2"
    code, said = refused(tmp_path, TBD_DATABASE_URL=url, TBD_DATABASE_WAIT_S="2")
    assert code == 4
    assert "the database does not answer" in said
    assert "waited 2 s for it (TBD_DATABASE_WAIT_S)" in said


@pytest.mark.after_change
def test_a_database_that_comes_late_is_waited_for(
    tmp_path: Path, postgresql: PostgresqlServer, postgresql_url: str
) -> None:
    service = Service(tmp_path / "data", TBD_CLUSTER="local", TBD_DATABASE_URL=postgresql_url)
    postgresql.stop()
    starting = threading.Thread(target=service.start)
    try:
        starting.start()
        time.sleep(3)
        assert starting.is_alive(), "it waits, neither up nor given up"
    finally:
        postgresql.start()
    starting.join(START_S)
    try:
        assert until(lambda: service.call("GET", "/readyz"))["status"] == "ready"
    finally:
        service.stop()


@pytest.mark.after_change
def test_a_full_volume_is_named_at_the_start(small_disk: Path, tmp_path: Path) -> None:
    (small_disk / "data").mkdir()
    filler = small_disk / "filler"
    with open(filler, "wb", buffering=0) as file:
        try:
            while file.write(b"\0" * 65536):
                pass
        except OSError:
            pass
    code, said = refused(tmp_path, TBD_DATA_DIR=str(small_disk / "data"))
    assert code in (2, 4)
    assert "full" in said or "No space left" in said


@pytest.mark.after_change
def test_a_second_server_is_refused_while_the_first_one_lives_and_its_cluster_is_its_own(
    tmp_path: Path, url: str
) -> None:
    """It names the first, whose run goes on. One that hangs keeps its place on SQLite; on PostgreSQL it is succeeded
    when its lease is over, and ends when it finds that out."""
    given = {"TBD_CLUSTER": "local", "TBD_DATABASE_URL": url, "TBD_IDLE_EXIT_S": "5"}
    is_sqlite = url.startswith("sqlite")
    with ExitStack() as stack:
        first = Service(tmp_path / "data", **given).start()
        stack.callback(first.stop, signal.SIGKILL)
        experiment = first.submit(sleep(max_steps=2000, min_measure_s=60, options={"step_time_s": 0.002}))
        until(lambda: first.runs(experiment)[0]["state"] == "running")
        if is_sqlite:
            os.kill(first.pid, signal.SIGSTOP)
        code, said = refused(tmp_path / "second", TBD_DATABASE_URL=url)
        assert code == 4
        assert f"is served already, at {first.url} on {socket.gethostname()} (process {first.pid}), since " in said
        os.kill(first.pid, signal.SIGCONT)
        (run,) = first.wait(experiment)
        assert (run["state"], len(run["attempts"])) == ("completed", 1)
        os.kill(first.pid, signal.SIGKILL if is_sqlite else signal.SIGSTOP)
        second = Service(tmp_path / "other", **given).start()
        stack.callback(second.stop)
        assert first.stop(signal.SIGCONT) == (-signal.SIGKILL if is_sqlite else 4)
        assert [one["id"] for one in second.runs(experiment)] == [run["id"]]


@pytest.mark.after_change
def test_a_secret_file_that_everybody_may_read_is_refused(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    password.chmod(0o644)
    given = {"TBD_DATABASE_URL": "postgresql://tbd@127.0.0.1:1/tbd", "TBD_DATABASE_PASSWORD_FILE": str(password)}
    code, said = refused(tmp_path, **given)
    assert code == 2
    assert f"TBD_DATABASE_PASSWORD_FILE: {password}" in said
    assert "secret\n" not in said


@pytest.mark.after_change
def test_a_service_that_comes_before_its_first_token_is_closed_until_there_is_one(tmp_path: Path) -> None:
    """As in a container, which others reach from its start and in which the first token is made."""
    given = {"TBD_CLUSTER": "local", "TBD_HOST": "0.0.0.0", "TBD_FIRST_TOKEN": "later"}
    service = Service(tmp_path / "data", **given).start()
    try:
        assert service.call("GET", "/readyz")["status"] == "ready"
        status, problem = status_of(lambda: service.call("GET", "/api/v1/nodes"))
        assert (status, "tbd token add" in problem["detail"]) == (401, True)
        command = [sys.executable, "-m", "orchestrator.cli.main", "token", "add", "root", "--scope", "admin"]
        kept = {name: text for name, text in os.environ.items() if not name.startswith("TBD_")}
        environment = kept | {"TBD_DATA_DIR": str(service.data_dir)}
        made = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=START_S, check=True)
        (token,) = [word for word in made.stdout.split() if word.startswith("tbd_")]
        until(lambda: _nodes(service, token), 10)
    finally:
        service.stop()


def _nodes(service: Service, token: str) -> object:
    try:
        return service.call("GET", "/api/v1/nodes", Authorization=f"Bearer {token}")
    except OSError:  # HTTPError is one: tokens are looked at every second
        return None
