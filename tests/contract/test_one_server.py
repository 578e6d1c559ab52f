"""One server of a database decides, and the others learn its name: on SQLite and on PostgreSQL."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from orchestrator.db.connection import right
from orchestrator.db.opening import open_to_serve
from orchestrator.db.store import SqlStore
from orchestrator.domain.around.server import Server
from orchestrator.domain.words.errors import AlreadyServed, StoreUnavailable
from tests.support.service import until

pytest_plugins = ["tests.contract.store_servers"]

FIRST, SECOND = Server("http://127.0.0.1:1", "one", 7, 60.0), Server("http://127.0.0.1:2", "two", 8, 120.0)
NAMED = r"is served already, at http://127\.0\.0\.1:1 on one \(process 7\), since 1970-01-01T00:01:00Z: .*TBD_SERVER="
FOLLOWED = r"another server decides for this database now, at http://127\.0\.0\.1:2 on two"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def serve(url: str, said: list[str]) -> Iterator[Callable[[Server], SqlStore]]:
    opened: list[SqlStore] = []

    def begin(server: Server) -> SqlStore:
        opened.append(open_to_serve(url, server, said.append))
        return opened[-1]

    yield begin
    for store in opened:
        store.close()


def cut_off(url: str) -> None:
    """End the session that has the lock."""
    with psycopg.connect(url, autocommit=True) as connection:
        held = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
        assert connection.execute(held).fetchall() == [(True,)]


def test_a_second_one_is_refused_until_the_first_has_ended_and_commands_work_beside_it(
    url: str, serve: Callable[[Server], SqlStore], said: list[str]
) -> None:
    first = serve(FIRST)
    with pytest.raises(AlreadyServed, match=NAMED):
        serve(SECOND)
    with closing(SqlStore(url)) as beside:
        beside.ping()
    first.ping()
    first.close()
    serve(SECOND).ping()
    assert said == []


def test_of_many_that_come_at_once_one_serves(serve: Callable[[Server], SqlStore]) -> None:
    def tried(_: int) -> Any:
        try:
            return serve(FIRST)
        except AlreadyServed as error:
            return error

    with ThreadPoolExecutor(8) as together:
        found = list(together.map(tried, range(8)))
    assert sum(isinstance(one, SqlStore) for one in found) == 1


def test_one_that_was_killed_hinders_nobody(url: str, serve: Callable[[Server], SqlStore]) -> None:
    code = (
        "import os, signal; from orchestrator.db.opening import open_to_serve\n"
        "from orchestrator.domain.around.server import Server\n"
        f"store = open_to_serve({url!r}, {FIRST!r}, print); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).resolve().parents[2])
    began = time.monotonic()
    until(lambda: _served(serve), 5).await_predecessor()
    waited_s = time.monotonic() - began
    least_s = 0.0 if url.startswith("sqlite") else right.NOTICE_S
    assert least_s <= waited_s < least_s + 2


def _served(serve: Callable[[Server], SqlStore]) -> SqlStore | None:
    try:
        return serve(SECOND)
    except AlreadyServed:  # PostgreSQL has not noticed yet
        return None


def test_a_file_is_the_same_by_another_name(sqlite_url: str, tmp_path: Path) -> None:
    other = tmp_path / "other" / "tbd.sqlite3"
    other.parent.mkdir()
    other.symlink_to(tmp_path / "tbd.sqlite3")
    with closing(open_to_serve(sqlite_url, FIRST, print)), pytest.raises(AlreadyServed, match=NAMED):
        open_to_serve(f"sqlite:///{other}", SECOND, print)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(right, "PING_S", 0.05)
    monkeypatch.setattr(right, "NOTICE_S", 0.0)


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.usefixtures("quick")
class TestASessionThatIsCutOff:
    def test_is_made_anew_where_nobody_came_between(self, url: str, serve: Callable[[Server], SqlStore]) -> None:
        first = serve(FIRST)
        cut_off(url)
        until(lambda: _held(url))
        first.ping()
        assert first.lost() is None
        with pytest.raises(AlreadyServed, match=NAMED):
            serve(SECOND)

    def test_lets_another_one_come_and_then_the_first_writes_nothing_and_is_to_end(
        self, url: str, serve: Callable[[Server], SqlStore], monkeypatch: pytest.MonkeyPatch, said: list[str]
    ) -> None:
        monkeypatch.setattr(right, "PING_S", 3600.0)  # it does not notice by itself
        first = serve(FIRST)
        cut_off(url)
        monkeypatch.setattr(right, "PING_S", 0.05)
        second = serve(SECOND)
        assert ["has not ended in order" in one for one in said] == [True]
        with pytest.raises(StoreUnavailable, match=FOLLOWED):
            first.ping()
        assert first.lost()
        first.close()
        second.ping()  # the first one's end leaves it the right
        with pytest.raises(AlreadyServed, match=r"127\.0\.0\.1:2"):
            serve(FIRST)

    def test_is_noticed_without_a_write(self, url: str, serve: Callable[[Server], SqlStore]) -> None:
        first = serve(FIRST)
        with psycopg.connect(url, autocommit=True) as other:
            cut_off(url)
            other.execute("SELECT pg_advisory_lock(%s)", (right.LOCK,))
            time.sleep(0.2)
            assert first.lost() is None  # the lock alone decides nothing: it may be the first one's, broken, still
            other.execute("UPDATE server SET term = term + 1, url = 'http://127.0.0.1:2', host = 'two'")
            assert "another server decides" in until(first.lost)

    def test_has_its_successor_wait_for_the_writes_under_way(
        self, url: str, serve: Callable[[Server], SqlStore], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(right, "PING_S", 3600.0)  # the first one does not take it again
        first, goes_on, written = serve(FIRST), threading.Event(), threading.Event()
        with ThreadPoolExecutor(2) as both:
            writing = both.submit(first.database.write, lambda _: (written.set(), goes_on.wait(10)))
            assert written.wait(10)
            cut_off(url)
            coming = both.submit(until, lambda: _served(serve), 10)
            time.sleep(0.5)
            assert not coming.done()
            goes_on.set()
            writing.result()
            coming.result()


def _held(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return bool(connection.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND granted").fetchall())
