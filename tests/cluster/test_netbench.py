"""A netbench between two hosts sees the links as they are."""

from typing import Any

import pytest

from tests.cluster.bench import Bench
from workers.node import interpreters

pytestmark = pytest.mark.after_change

LARGEST_BYTES = 2**20


# The first is enough where nothing else runs; a busy machine leaves the largest messages out to keep within it.
BUDGETS_S = (40, 160)


def largest_messages(bench: Bench, fabric: str) -> list[dict[str, Any]]:
    """What the first run of a netbench from host one to host two finds for its largest message, with idle cores."""
    found: list[dict[str, Any]] = []
    for budget_s in BUDGETS_S:
        rows = point_to_point(bench, fabric, budget_s)
        assert {(row["fabric"], tuple(row["nodes"])) for row in rows} == {(fabric, ("one", "two"))}
        found = [row for row in rows if row["bytes"] == LARGEST_BYTES]
        if found:
            break
    assert found
    return found


def point_to_point(bench: Bench, fabric: str, budget_s: float) -> list[dict[str, Any]]:
    run = bench.netbench(("one", "two"), "gloo", fabric, max_bytes=LARGEST_BYTES, budget_s=budget_s)
    path = f"/api/v1/netbench?run={run['id']}&operation=point_to_point&busy_cores=false&limit=500"
    return bench.service.call("GET", path)["items"]


# Trainings over these links are ``test_gang.py``'s, which fabric they take
# ``test_fabrics.py``'s, and netbench on one host is that of ``tests/integration``.
@pytest.mark.timeout(900)
def test_the_rate_between_two_hosts_is_that_of_their_link(bench: Bench) -> None:
    if not interpreters.resolve("pytorch").ready:
        pytest.skip(interpreters.resolve("pytorch").reason)
    with bench.network.shaped(100e6):
        shaped = largest_messages(bench, "ethernet")
        beside = largest_messages(bench, "infiniband")
    # TCP's share of an Ethernet frame is 0.95. Hosts that are busy with something else send less, never more.
    assert all(0.5 * 95e6 < 8 * row["algorithm_bytes_per_s"] < 1.1 * 95e6 for row in shaped)
    assert min(row["algorithm_bytes_per_s"] for row in beside) > 3 * max(row["algorithm_bytes_per_s"] for row in shaped)
