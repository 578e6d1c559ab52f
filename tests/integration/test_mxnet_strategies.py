"""MXNet on several devices and several nodes, by the node agent and real processes."""

import math
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.analysis.replicas import distance_ratio
from tests.support.strategy_jobs import OnThisHost, carried_out, strategy_job
from tests.trainer_process import Trainer
from workers.node import processes
from workers.trainer.protocol import EXIT_STATUS

pytestmark = pytest.mark.framework("mxnet")

CELLS = [
    ("kvstore-device", 1, 2),
    ("kvstore-dist-sync", 2, 1),
    ("kvstore-dist-sync", 1, 2),
    ("kvstore-dist-device-sync", 2, 1),
    ("kvstore-dist-async", 2, 1),
    ("kvstore-dist-async", 1, 2),
    ("kvstore-dist-async", 1, 1),
]
STEPS = 3


@pytest.fixture(autouse=True)
def built(python_of):
    return python_of("mxnet")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A function that carries out a cell once: the attempt, ended well."""
    attempts = {}

    def train(strategy: str, nodes: int, devices: int) -> OnThisHost:
        if (strategy, nodes, devices) not in attempts:
            job = strategy_job("mxnet", strategy, nodes, devices, max_steps=STEPS)
            job["model"]["optimizer"]["weight_decay"] = 10.0  # large enough to be seen in a few steps
            attempts[strategy, nodes, devices] = carried_out(job, tmp_path_factory.mktemp(strategy))
        attempt = attempts[strategy, nodes, devices]
        assert attempt.popen.returncode == 0, attempt.said
        return attempt

    return train


@pytest.mark.parametrize(("strategy", "nodes", "devices"), CELLS)
def test_every_process_ends_well_and_every_rank_takes_part(trained, strategy: str, nodes: int, devices: int) -> None:
    attempt = trained(strategy, nodes, devices)
    started = {process["process"] for process in attempt.data("process_started")}
    assert started == {ended["process"] for ended in attempt.data("process_exited") if ended["exit_code"] == 0}
    assert [joined["world_size"] for joined in attempt.data("joined")] == [nodes * devices] * nodes
    assert [interval["work"] for interval in attempt.data("interval")] == [{"images": 4 * devices}] * STEPS * nodes


@pytest.mark.parametrize("cell", [cell for cell in CELLS if "async" not in cell[0]])
def test_synchronous_replicas_are_bitwise_equal(trained, cell) -> None:
    replicas = trained(*cell).data("replica")
    assert len(replicas) == 2
    assert len({replica["sha256"] for replica in replicas}) == 1


def test_asynchronous_workers_say_how_far_they_are_apart(trained) -> None:
    one, other = trained("kvstore-dist-async", 2, 1).data("replica")
    assert 0 <= distance_ratio(one, other) < math.inf  # how far depends on how unevenly the workers go on


@pytest.mark.parametrize(("synchronous", "devices"), [("single", 1), ("kvstore-device", 2)])
def test_a_server_updates_as_a_worker_does(trained, synchronous: str, devices: int) -> None:
    """The optimiser is sent to the servers, with its momentum and weight decay, and what it divides the sum over a
    worker's devices by; one worker is never out of step."""
    losses = [trained(name, 1, devices).losses()["worker0"] for name in (synchronous, "kvstore-dist-async")]
    assert len(losses[0]) == STEPS
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


@pytest.mark.parametrize("cell", CELLS[1:4])
def test_where_gradients_are_added_changes_nothing_but_the_last_digits(trained, cell) -> None:
    """Neither does in how many processes they come about."""
    reference = trained("kvstore-device", 1, 2).data("replica")[0]
    assert distance_ratio(reference, trained(*cell).data("replica")[0]) < 1e-5


@contextmanager
def in_mid_run(job: dict[str, Any], folder: Path) -> Iterator[OnThisHost]:
    """The job while it trains; afterwards none of its processes is left."""
    attempt = OnThisHost(job, folder)
    try:
        until(lambda: len(attempt.data("interval")) >= 4, attempt)
        yield attempt
        attempt.said = attempt.finish(60.0)
    finally:
        attempt.popen.kill()
    assert not processes.with_token(job["token"])


def until(condition: Callable[[], bool], attempt: OnThisHost, patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        assert attempt.popen.poll() is None, attempt.popen.communicate()[1]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def pid_of(attempt: OnThisHost, name: str) -> int:
    return next(found["pid"] for found in attempt.data("process_started") if found["process"] == name)


@pytest.mark.parametrize(("victim", "strategy"), [("server0", "kvstore-dist-sync"), ("worker1", "kvstore-dist-async")])
def test_a_process_that_is_killed_in_mid_run_ends_the_gang_with_one_outcome(
    tmp_path: Path, victim: str, strategy: str
) -> None:
    """MXNet's own workers would wait for it for ever."""
    with in_mid_run(strategy_job("mxnet", strategy, 2, 1, max_steps=10**6), tmp_path) as attempt:
        os.kill(pid_of(attempt, victim), signal.SIGKILL)
        attempt.popen.wait(90.0)
    failure = attempt.failure()
    assert failure["kind"] == "crashed"
    assert failure["signal"] == signal.SIGKILL
    assert "server0" in failure["message"] if victim == "server0" else failure["ranks"] == [1]


def test_a_server_that_stands_still_ends_at_the_time_limit(tmp_path: Path) -> None:
    job = strategy_job("mxnet", "kvstore-dist-sync", 2, 1, max_steps=10**6, timeout_s=20.0)
    with in_mid_run(job, tmp_path) as attempt:
        os.kill(pid_of(attempt, "server1"), signal.SIGSTOP)
    failure = attempt.failure()
    assert failure["kind"] == "timed_out", failure["message"]


def test_a_taken_port_of_the_scheduler_is_a_failed_set_up(tmp_path: Path) -> None:
    job = strategy_job("mxnet", "kvstore-dist-sync")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        job["nodes"][0]["ports"]["framework"] = other.getsockname()[1]
        attempt = carried_out(job, tmp_path)
    assert attempt.failure()["kind"] == "setup_failed"
    assert "scheduler cannot listen" in attempt.failure()["message"]


def test_a_worker_whose_servers_never_come_gives_up(python_of, tmp_path: Path) -> None:
    job = strategy_job("mxnet", "kvstore-dist-sync", timeout_s=4.0)
    worker = Trainer(job, tmp_path, python_of("mxnet"), "worker0")
    assert worker.finish(60.0) == EXIT_STATUS["timed_out"]
    assert "did not all meet" in worker.data("error")[0]["message"]
