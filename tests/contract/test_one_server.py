"""One server of a database decides: on SQLite a second one is refused, on PostgreSQL it follows and may succeed it."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from orchestrator.db.connection import right
from orchestrator.db.connection.right import Lease
from orchestrator.db.opening import open_to_serve
from orchestrator.db.store import SqlStore
from orchestrator.domain.around.server import LEASE_S, Server
from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.words.errors import AlreadyServed, ClusterUnavailable, NotFound, StoreUnavailable
from orchestrator.services.reconcile.roster import Roster
from orchestrator.services.reconcile.stored_nodes import StoredNodes
from orchestrator.services.reconcile.trouble import WatchedCluster
from tests.support.schedule_rig import HandClock
from tests.support.service import until
from tests.unit import builders as make

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

    def begin(server: Server, *, follows: bool = False) -> SqlStore:
        opened.append(open_to_serve(url, server, said.append, follows=follows))
        return opened[-1]

    yield begin
    for store in opened:
        store.close()


def cut_off(url: str) -> None:
    """End the session that renews the lease."""
    with psycopg.connect(url, autocommit=True) as connection:
        held = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{right.LEADER}'"
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
    told = len(said)
    serve(SECOND).ping()
    assert len(said) == told, "one that ended in order is not waited for"


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
    assert serve(SECOND).leads()
    waited_s = time.monotonic() - began
    assert waited_s < 2 if url.startswith("sqlite") else LEASE_S - 3 < waited_s < LEASE_S + 2


def test_a_file_is_the_same_by_another_name(sqlite_url: str, tmp_path: Path) -> None:
    other = tmp_path / "other" / "tbd.sqlite3"
    other.parent.mkdir()
    other.symlink_to(tmp_path / "tbd.sqlite3")
    with closing(open_to_serve(sqlite_url, FIRST, print)), pytest.raises(AlreadyServed, match=NAMED):
        open_to_serve(f"sqlite:///{other}", SECOND, print)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("LEASE_S", 1.0), ("RENEW_S", 0.2), ("TROUBLE_S", 0.05), ("MARGIN_S", 0.1)):
        monkeypatch.setattr(right, name, seconds)


@pytest.mark.parametrize(
    ("until_", "now", "stood_s", "left_s"),
    [
        (None, 50.0, 0.0, 0.0),
        (58.0, 50.0, 2.0, 8.0),
        (49.0, 50.0, 2.0, -1.0),
        (3658.0, 50.0, 2.0, 8.0),  # the database's clock was set back by an hour, or the row was edited
        (3658.0, 50.0, 10.0, 0.0),
    ],
)
def test_a_lease_is_over_by_the_clock_of_the_database_and_when_nobody_renews_it(
    until_: float | None, now: float, stood_s: float, left_s: float
) -> None:
    assert right.lease_left_s(until_, now, stood_s) == left_s


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
@pytest.mark.usefixtures("quick")
class TestALease:
    def test_is_the_follower_s_at_once_when_it_is_given_back_and_both_write_meanwhile(
        self, serve: Callable[..., SqlStore], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(right, "LEASE_S", 60.0)
        monkeypatch.setattr(right, "RENEW_S", 20.0)
        first, second = serve(FIRST), serve(SECOND, follows=True)
        second.ping()
        assert (first.leads(), second.leads(), second.leader()) == (True, False, FIRST)
        with pytest.raises(ClusterUnavailable):
            _term(second)
        before = _term(first)
        first.close()
        until(second.leads, 2)
        assert (second.leader(), _term(second) > before, second.lost()) == (SECOND, True, None)

    def test_of_one_that_is_not_renewed_any_more_goes_to_one_follower_and_the_first_writes_nothing(
        self, url: str, serve: Callable[..., SqlStore], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = serve(FIRST)
        others = [serve(SECOND, follows=True), serve(SECOND, follows=True)]
        monkeypatch.setattr(Lease, "_connected", lambda self: _away())
        assert first.right
        until(first.right.is_followed)
        cut_off(url)
        until(lambda: any(one.leads() for one in others), 5)
        assert sum(one.leads() for one in others) == 1
        with pytest.raises(ClusterUnavailable, match="was not renewed"):
            _term(first)
        with pytest.raises(StoreUnavailable, match=FOLLOWED):
            first.ping()
        assert first.lost()
        first.close()
        for one in others:
            one.ping()  # the first one's end leaves it the right

    def test_outlives_its_session(self, url: str, serve: Callable[..., SqlStore]) -> None:
        first, second = serve(FIRST), serve(SECOND, follows=True)
        cut_off(url)
        until(lambda: _sessions(url) == {right.LEADER, right.STANDBY})
        time.sleep(1.5)
        first.ping()
        assert (first.leads(), first.lost(), second.leads()) == (True, None, False)

    def test_that_nobody_follows_lets_agents_be_called_while_the_database_is_away(
        self, url: str, serve: Callable[..., SqlStore], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first = serve(FIRST)
        monkeypatch.setattr(Lease, "_connected", lambda self: _away())
        cut_off(url)
        time.sleep(1.5)
        assert _term(first)

    def test_has_its_successor_wait_for_the_writes_under_way(
        self, url: str, serve: Callable[..., SqlStore], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, second = serve(FIRST), serve(SECOND, follows=True)
        goes_on, written = threading.Event(), threading.Event()
        with ThreadPoolExecutor(1) as writer:
            writing = writer.submit(first.database.write, lambda _: (written.set(), goes_on.wait(10)))
            assert written.wait(10)
            monkeypatch.setattr(Lease, "_connected", lambda self: _away())
            cut_off(url)
            time.sleep(2.0)
            assert not second.leads()
            goes_on.set()
            writing.result()
            until(second.leads, 5)

    @pytest.mark.parametrize("edited", ["term = term + 7", "term = 1", "term = 9000000000"])
    def test_whose_term_is_edited_ends_its_holder_and_goes_on_with_a_term_that_grows(
        self, url: str, serve: Callable[..., SqlStore], edited: str
    ) -> None:
        first, second = serve(FIRST), serve(SECOND, follows=True)
        before = _term(first)
        _edit(url, edited)
        until(first.lost, 5)
        until(second.leads, 5)
        assert _term(second) > before

    @pytest.mark.parametrize("edited", ["until = until + 3600", "until = NULL", "url = 'nobody', host = NULL"])
    def test_that_is_edited_otherwise_is_renewed_or_goes_on(
        self, url: str, serve: Callable[..., SqlStore], edited: str
    ) -> None:
        first, second = serve(FIRST), serve(SECOND, follows=True)
        _edit(url, edited)
        time.sleep(1.5)
        assert first.leads() != second.leads() or (first.lost() and second.leads())

    def test_whose_row_is_gone_is_made_anew(self, url: str, serve: Callable[..., SqlStore]) -> None:
        first, second = serve(FIRST), serve(SECOND, follows=True)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DELETE FROM server")
        until(first.lost, 5)
        until(second.leads, 5)

    def test_ends_with_the_schema_of_both(self, url: str, serve: Callable[..., SqlStore]) -> None:
        first, second = serve(FIRST), serve(SECOND, follows=True)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE alembic_version SET version_num = 'v9999'")
        for one in (first, second):
            with pytest.raises(StoreUnavailable, match="schema v9999 now"):
                one.ping()
            assert "another version of tbd" in until(one.lost)

    def test_of_the_version_before_goes_on_when_that_has_had_time_to_notice(
        self, url: str, serve: Callable[..., SqlStore]
    ) -> None:
        """That wrote its name and its term, and compares the term with each write."""
        _edit(url, "term = 7, url = 'http://127.0.0.1:1', host = 'one', pid = 7, since = 60")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("ALTER TABLE server DROP COLUMN until")
            connection.execute("DROP TABLE known_node")
            connection.execute("DROP INDEX ix_attempt_ended")
            connection.execute("ALTER TABLE attempt DROP COLUMN lent_by, DROP COLUMN thinned_at")
            connection.execute("UPDATE alembic_version SET version_num = 'v0007'")
        second = serve(SECOND, follows=True)
        with psycopg.connect(url, autocommit=True) as connection:
            found = connection.execute(
                "SELECT term, until - extract(epoch FROM clock_timestamp()) FROM server"
            ).fetchone()
        assert found is not None
        assert found[0] == 8
        assert 5 < found[1] <= 10
        assert not second.leads()

    def test_does_not_rest_on_the_clock_of_a_server_which_is_told_of(
        self, serve: Callable[..., SqlStore], said: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        first, real = serve(FIRST), time.time
        assert said == []
        monkeypatch.setattr(time, "time", lambda: real() - 3600)
        second = serve(SECOND, follows=True)
        assert "the clock of this host is 3600 s behind that of the database" in said[0]
        time.sleep(1.5)
        assert (first.leads(), second.leads()) == (True, False)

    def test_passes_words_on(self, serve: Callable[..., SqlStore]) -> None:
        first, second = serve(FIRST), serve(SECOND, follows=True)
        heard: dict[str, list[str]] = {"first": [], "second": []}
        assert first.right
        assert second.right
        first.right.listen(heard["first"].append)
        second.right.listen(heard["second"].append)
        second.right.tell(right.RING)
        first.right.tell(right.NEWS)
        until(lambda: heard == {"first": [right.RING], "second": [right.NEWS]}, 5)


def test_what_the_leader_stores_of_nodes_is_what_a_follower_knows(store: SqlStore) -> None:
    nodes = [make.node("n1", devices=2, interpreters={"pytorch": "2.13"}), make.node("n2", state=NodeState.UNREACHABLE)]
    asked: list[str] = []
    environments = [{"name": "pytorch", "ready": True}]
    cluster = SimpleNamespace(nodes=lambda: nodes, interpreters=lambda node: asked.append(node) or environments)
    roster = Roster(SimpleNamespace(store=store, cluster=cluster))  # type: ignore[arg-type]
    clock = HandClock(0.0)
    followed: Any = WatchedCluster(None, clock, StoredNodes(store, clock, lambda: FIRST))
    roster.look()
    assert followed.nodes() == nodes
    assert followed.interpreters("n1") == environments
    with pytest.raises(ClusterUnavailable, match=r"only the server that leads speaks to agents: ask it, at http://127"):
        followed.start("n1", {})
    with pytest.raises(NotFound):
        followed.interpreters("n3")
    del nodes[1]
    roster.look()
    clock.time += 2.0
    assert followed.nodes() == nodes
    assert asked == ["n1"]


def _away() -> Any:
    raise StoreUnavailable("cut off")


def _term(store: SqlStore) -> int:
    assert store.right
    term = store.right.term()
    assert term is not None
    return term


def _edit(url: str, change: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"UPDATE server SET {change}")  # type: ignore[call-overload]


def _sessions(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT application_name FROM pg_stat_activity WHERE application_name LIKE 'tbd %'")
        return {name for (name,) in found}
