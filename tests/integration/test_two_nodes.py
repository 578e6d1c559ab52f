"""A gang over two nodes, through the real service: both logs, one outcome, nothing left behind."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from orchestrator.cli.rest.client import Client
from tests.integration.service_rig import Tbd, environment
from tests.support import processes
from tests.support.service import Service

SPEC = """\
name: gang
model: sleep
framework: sleep
strategy: gang
topology: 2x1
per_device_batch_size: 1
size: tiny
repeats: 1
max_repeats: 1
max_steps: 40
timeout_s: 30
options: {step_time_s: 0.01}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("two-nodes")


@pytest.fixture(scope="module")
def tbd(folder: Path) -> Iterator[Tbd]:
    if psutil.cpu_count() < 2:
        pytest.skip("needs two cores")
    service = Service(folder / "data", **environment(folder, TBD_LOCAL_NODES="2")).start()
    try:
        yield Tbd(folder, service.url)
    finally:
        assert service.stop() == 0


def submit(tbd: Tbd, folder: Path, text: str = SPEC) -> str:
    (folder / "spec.yaml").write_text(text)
    return tbd("submit", "spec.yaml").stdout.strip()


def runs_of(tbd: Tbd, experiment: str) -> list[dict[str, Any]]:
    return list(Client(tbd.environment["TBD_SERVER"]).get(f"/experiments/{experiment}/runs")["items"])


def carried_out(tbd: Tbd, folder: Path, **options: object) -> dict[str, Any]:
    more = "".join(f", {name}: {value}" for name, value in options.items())
    experiment = submit(tbd, folder, SPEC.replace("0.01}", f"0.01{more}}}"))
    tbd.start("watch", experiment).communicate(timeout=60)
    (run,) = runs_of(tbd, experiment)
    return run


def test_a_gang_over_two_nodes_completes_with_the_logs_of_both(tbd: Tbd, folder: Path) -> None:
    run = carried_out(tbd, folder)
    assert run["state"] == "completed", run
    assert len({share["node"] for share in run["attempts"][0]["placement"]}) == 2
    assert run["summary"]["steps"] == 40


@pytest.mark.parametrize("fault", ["crash", "signal", "exit"])
def test_a_rank_that_goes_ends_the_gang_on_both_nodes_with_its_own_failure(tbd: Tbd, folder: Path, fault: str) -> None:
    run = carried_out(tbd, folder, fault=fault, fault_rank=1)
    assert run["state"] == "failed"
    assert run["failure"]["kind"] == "crashed"
    assert run["failure"]["ranks"] == [1]
    assert not processes.of_attempts(str(folder))


def test_a_cancelled_gang_leaves_no_process_on_either_node(tbd: Tbd, folder: Path) -> None:
    experiment = submit(tbd, folder, SPEC.replace("max_steps: 40", "min_measure_s: 3600"))
    deadline = time.monotonic() + 30
    while len(processes.of_attempts(str(folder))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    tbd("cancel", experiment)
    tbd("watch", experiment, code=1)
    assert tbd.json("show", experiment)["state"] == "cancelled"
    assert not processes.of_attempts(str(folder))
