"""The store in bad luck: a full disk, a file or a server that goes away, a process that is killed, a crowd."""

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection

from orchestrator.db.connection import engine as engines
from orchestrator.db.connection.databases import SqliteDatabase
from orchestrator.db.store import SqlStore
from orchestrator.domain.words.errors import Conflict, NotFound, StoreFull, StoreUnavailable
from tests.contract import store_scenes as scene
from tests.contract.postgresql_server import PostgresqlServer

pytest_plugins = ["tests.contract.store_servers"]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def sqlite_store(sqlite_url: str) -> Iterator[SqlStore]:
    opened = SqlStore(sqlite_url)
    yield opened
    opened.close()


def database_of(store: SqlStore) -> SqliteDatabase:
    assert isinstance(store.database, SqliteDatabase)
    return store.database


def pragma(store: SqlStore, text: str) -> object:
    """The answer of the writer's connection."""
    return store.database.write(lambda connection: connection.exec_driver_sql(f"PRAGMA {text}").scalar())


class Held:
    """Holds the writer at work, so that a queue gathers behind it."""

    def __init__(self, store: SqlStore) -> None:
        self._begun, self._go_on = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: store.database.write(self._wait))

    def _wait(self, _: Connection) -> None:
        self._begun.set()
        self._go_on.wait(30)

    def __enter__(self) -> "Held":
        self._thread.start()
        self._begun.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._go_on.set()
        self._thread.join()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def submit_many(store: SqlStore, stored: list[str]) -> None:
    """Submit until it fails; ``stored`` gains the ids of what was acknowledged."""
    for _ in range(2000):
        stored.append(scene.submitted(store)[0].id)


def fill_up(path: Path) -> None:
    """Leave no room on the file system of ``path``."""
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_writes_that_wait_share_one_commit(sqlite_store: SqlStore) -> None:
    writer = database_of(sqlite_store).writer
    with ThreadPoolExecutor(20) as threads:
        with Held(sqlite_store):
            commits, writes = writer.commits, writer.writes
            work = [threads.submit(scene.submitted, sqlite_store) for _ in range(20)]
            wait_for(lambda: writer._tickets.qsize() == 20)
        stored = [one.result()[0].id for one in work]

    assert (writer.commits - commits, writer.writes - writes) == (2, 21)  # the one that was held, and all the others
    assert sorted(one.id for one in sqlite_store.experiments().items) == sorted(stored)


def test_one_write_that_fails_does_not_spoil_those_that_share_its_commit(sqlite_store: SqlStore) -> None:
    there, runs = scene.submitted(sqlite_store)
    writer = database_of(sqlite_store).writer
    with ThreadPoolExecutor(3) as threads:
        with Held(sqlite_store):
            before = threads.submit(scene.submitted, sqlite_store)
            wait_for(lambda: writer._tickets.qsize() == 1)
            twice = threads.submit(sqlite_store.add_experiment, there, runs)
            wait_for(lambda: writer._tickets.qsize() == 2)
            after = threads.submit(scene.submitted, sqlite_store)
            wait_for(lambda: writer._tickets.qsize() == 3)
        with pytest.raises(Conflict):
            twice.result()

    for one in (before, after):
        assert sqlite_store.experiment(one.result()[0].id)
    assert len(sqlite_store.changes(there.id)) == 2  # nothing of the second try stayed


def test_a_commit_of_sqlite_waits_for_the_disk(sqlite_store: SqlStore) -> None:
    assert pragma(sqlite_store, "journal_mode") == "wal"
    assert pragma(sqlite_store, "synchronous") == 2  # FULL
    assert pragma(sqlite_store, "foreign_keys") == 1


CHILD = """
import sys
from orchestrator.db.store import SqlStore
from tests.contract import store_scenes as scene
store = SqlStore(sys.argv[1])
while True:
    print(scene.submitted(store)[0].id, flush=True)
"""


@pytest.mark.after_change
def test_what_was_acknowledged_survives_sigkill(url: str) -> None:
    command = [sys.executable, "-c", CHILD, url]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": "."})
    assert child.stdout is not None
    acknowledged = [child.stdout.readline().strip() for _ in range(25)]
    child.kill()
    acknowledged += [line.strip() for line in child.stdout if line.endswith("\n")]
    child.stdout.close()
    child.wait()

    store = SqlStore(url)
    try:
        for identifier in acknowledged:
            assert len(store.runs_of(identifier)) == 1
        store.ping()
    finally:
        store.close()


def test_a_full_disk_is_said_and_passes(sqlite_store: SqlStore) -> None:
    room = pragma(sqlite_store, "max_page_count")
    pages = pragma(sqlite_store, "page_count")
    pragma(sqlite_store, f"max_page_count = {pages}")
    there: list[str] = []
    with pytest.raises(StoreFull, match="room"):
        submit_many(sqlite_store, there)

    assert len(sqlite_store.experiments(limit=500).items) == len(there)  # reading goes on, nothing was half stored
    pragma(sqlite_store, f"max_page_count = {room}")
    there.append(scene.submitted(sqlite_store)[0].id)
    assert sorted(one.id for one in sqlite_store.experiments(limit=500).items) == sorted(there)


def test_a_large_write_that_does_not_fit_leaves_the_small_ones(sqlite_store: SqlStore) -> None:
    pages = int(str(pragma(sqlite_store, "page_count")))
    pragma(sqlite_store, f"max_page_count = {pages + 30}")
    writer = database_of(sqlite_store).writer
    large = scene.experiment()
    with ThreadPoolExecutor(3) as threads:
        with Held(sqlite_store):
            small = [threads.submit(scene.submitted, sqlite_store) for _ in range(2)]
            wait_for(lambda: writer._tickets.qsize() == 2)
            too_large = threads.submit(sqlite_store.add_experiment, large, scene.runs_for(large, 500))
            wait_for(lambda: writer._tickets.qsize() == 3)
        with pytest.raises(StoreFull):
            too_large.result()

    for one in small:
        assert sqlite_store.experiment(one.result()[0].id)
    with pytest.raises(NotFound):
        sqlite_store.experiment(large.id)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_the_store_comes_back_when_a_full_file_system_has_room_again(small_disk: Path) -> None:
    store = SqlStore(f"sqlite:///{small_disk / 'tbd.sqlite3'}")
    try:
        ballast = small_disk / "ballast"
        fill_up(ballast)
        there: list[str] = []
        with pytest.raises(StoreFull):
            submit_many(store, there)
        large = scene.experiment()
        with pytest.raises(StoreFull):
            store.add_experiment(large, scene.runs_for(large, 100))

        ballast.unlink()
        there.append(scene.submitted(store)[0].id)
        assert sorted(one.id for one in store.experiments(limit=5000).items) == sorted(there)
    finally:
        store.close()


def test_a_file_that_is_moved_away_is_missed_and_used_again_when_it_is_back(sqlite_store: SqlStore) -> None:
    path = database_of(sqlite_store).path
    kept, _ = scene.submitted(sqlite_store)
    path.rename(path.with_suffix(".away"))

    for work in (sqlite_store.ping, sqlite_store.idle_experiments, lambda: scene.submitted(sqlite_store)):
        with pytest.raises(StoreUnavailable):
            work()
    assert not path.exists()  # no empty database took its place

    path.with_suffix(".away").rename(path)
    sqlite_store.ping()
    more, _ = scene.submitted(sqlite_store)
    assert [one.id for one in sqlite_store.experiments().items] == [more.id, kept.id]


def test_a_file_that_was_replaced_by_a_copy_is_taken_up(sqlite_store: SqlStore) -> None:
    path = database_of(sqlite_store).path
    kept, _ = scene.submitted(sqlite_store)
    with sqlite3.connect(path) as source, sqlite3.connect(path.with_suffix(".copy")) as copy:
        source.backup(copy)
    source.close()
    copy.close()
    for suffix in ("", "-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    path.with_suffix(".copy").rename(path)

    more, _ = scene.submitted(sqlite_store)
    assert [one.id for one in sqlite_store.experiments().items] == [more.id, kept.id]


def test_a_database_that_another_process_locks_is_unavailable_for_that_time(
    sqlite_store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "BUSY_TIMEOUT_S", 0.05)
    other = sqlite3.connect(database_of(sqlite_store).path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        sqlite_store.ping()

    other.execute("ROLLBACK")
    other.close()
    sqlite_store.ping()


def test_a_closed_store_refuses(url: str) -> None:
    store = SqlStore(url)
    store.close()
    store.close()
    for work in (store.ping, store.idle_experiments):
        with pytest.raises(StoreUnavailable, match="closed"):
            work()


def test_postgresql_may_stop_and_start_again(postgresql: PostgresqlServer, postgresql_url: str) -> None:
    store = SqlStore(postgresql_url)
    try:
        kept, _ = scene.submitted(store)
        postgresql.stop()
        try:
            for work in (store.ping, store.idle_experiments, lambda: scene.submitted(store)):
                with pytest.raises(StoreUnavailable):
                    work()
        finally:
            postgresql.start()
        store.ping()
        more, _ = scene.submitted(store)
        assert [one.id for one in store.experiments().items] == [more.id, kept.id]
    finally:
        store.close()


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(StoreUnavailable):
        SqlStore("postgresql://tbd@127.0.0.1:1/tbd")
