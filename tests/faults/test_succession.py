"""Two servers on PostgreSQL: the follower takes what is submitted, and the lead when the leader ends."""

import signal
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.faults.succession import Pair, pair
from tests.support.service import status_of

pytest_plugins = ["tests.contract.store_servers"]
pytestmark = [pytest.mark.after_change, pytest.mark.xdist_group("succession")]


@pytest.fixture
def two(tmp_path: Path, postgresql_url: str) -> Iterator[Pair]:
    with pair(tmp_path, postgresql_url) as started:
        yield started


def test_whoever_leads_ends_and_every_run_is_carried_out_exactly_once(two: Pair, postgresql_url: str) -> None:
    """Killed; ended in order; stopped for longer than the lease, and continued. What a follower answers meanwhile."""
    former, heir, killed = two.succeed(signal.SIGKILL, 15.0)
    assert two.troubles(heir, killed) == []
    former.start(end_runs=False)
    follower = two.follower()
    assert follower is former
    ready = follower.call("GET", "/readyz")
    assert heir.url in ready["leader"]
    assert ready["nodes"] == 1
    for path in ("frameworks", "datasets"):
        assert follower.call("GET", f"/api/v1/{path}") == heir.call("GET", f"/api/v1/{path}")
    for node in (one.call("GET", "/api/v1/nodes")["items"][0] for one in two.servers):
        assert (len(node["devices"]), node["state"], len(node["inventory"]["cores"])) == (2, "available", 2)
    status, problem = status_of(lambda: follower.call("GET", "/api/v1/nodes/checks"))
    told = f"only the server that leads speaks to agents: ask it, at {heir.url}"
    assert (status, told in problem["detail"]) == (503, True)

    _, third, ended = two.succeed(signal.SIGTERM, 5.0)
    assert two.placed_s[-1] < two.placed_s[0], "it gave the lease back"
    assert two.troubles(third, ended) == []
    heir.start(end_runs=False)

    stopped, last, experiments = two.succeed(signal.SIGSTOP, 15.0)
    assert two.troubles(last, experiments) == []
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        newest = "SELECT max(number) FROM change"
        before = connection.execute(newest).fetchone()
        assert stopped.stop(signal.SIGCONT) == 4
        assert connection.execute(newest).fetchone() == before
