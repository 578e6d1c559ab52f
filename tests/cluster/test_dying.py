"""A process of a gang is killed on one host while both train: one outcome, and nothing is left on any host."""

import os
import signal
from typing import Any

import pytest

from orchestrator.services.facts.catalog import load_catalog
from tests.cluster.bench import Bench, trainers
from tests.cluster.matrix import Cell, cells
from tests.support.service import until

pytestmark = pytest.mark.after_change

CELLS = cells(load_catalog(), ("2x1",))
# Whose peers would wait for it without end if nobody ended them (apache/mxnet: workers hang when a server aborts).
QUICK = "mxnet-kvstore-dist-sync-2x1"


def _parameters() -> list[object]:
    return [
        pytest.param(cell, id=str(cell), marks=[] if str(cell) == QUICK else pytest.mark.thorough) for cell in CELLS
    ]


def _of_role(bench: Bench, host: str, role: str) -> list[int]:
    return [pid for pid, command in trainers(bench.hosts[host]).items() if f"/{role}" in command]


@pytest.mark.parametrize("cell", _parameters())
@pytest.mark.timeout(600)
def test_a_process_that_is_killed_on_one_host_ends_the_gang_on_both(bench: Bench, cell: Cell) -> None:
    if cell.missing:
        pytest.skip(cell.missing)
    role = "worker" if cell.strategy.servers == "none" else "server"
    experiment = bench.service.submit(cell.spec(steps=1_000_000))

    def training() -> Any:
        (run,) = bench.service.runs(experiment)
        assert run["state"] not in ("failed", "completed"), run["failure"]
        return len(bench.service.call("GET", f"/api/v1/runs/{run['id']}/intervals?limit=5")["items"]) > 3

    until(training, 300, 1.0)
    (victim,) = _of_role(bench, "two", role)
    os.kill(victim, signal.SIGKILL)
    (run,) = bench.service.wait(experiment, 120)
    assert (run["state"], run["failure"]["kind"]) == ("failed", "crashed"), run["failure"]
    assert len(run["attempts"]) == 1
    assert not any(trainers(host) for host in bench.hosts.values())
