"""MXNet on several devices and several nodes, by the node agent and real processes.

That its stores add up rightly, and that replicas stay equal: tests/contract/test_strategies.py.
"""

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

from orchestrator.analysis.run.replicas import distance_ratio
from tests.support import linear_model
from tests.support.strategy_jobs import ROOT, OnThisHost, carried_out, strategy_job
from tests.trainer_process import Trainer
from workers.node import processes
from workers.trainer.protocol import EXIT_STATUS

pytestmark = pytest.mark.framework("mxnet")

ASYNCHRONOUS = "kvstore-dist-async"
STEPS = 3


@pytest.fixture(autouse=True)
def built(python_of):
    return python_of("mxnet")


@pytest.mark.parametrize("strategy", ["kvstore-dist-sync", pytest.param(ASYNCHRONOUS, marks=pytest.mark.after_change)])
def test_every_process_ends_well_and_every_rank_takes_part(tmp_path: Path, strategy: str) -> None:
    attempt = carried_out(strategy_job("mxnet", strategy, 2, 1, max_steps=STEPS), tmp_path)
    assert attempt.popen.returncode == 0, attempt.said
    started = {process["process"] for process in attempt.data("process_started")}
    assert started == {"scheduler", "server0", "server1", "worker0", "worker1"}
    assert started == {ended["process"] for ended in attempt.data("process_exited") if ended["exit_code"] == 0}
    assert [joined["world_size"] for joined in attempt.data("joined")] == [2, 2]
    assert [interval["work"] for interval in attempt.data("interval")] == [{"images": 4}] * STEPS * 2
    one, other = attempt.data("replica")
    assert (one["sha256"] == other["sha256"]) or strategy == ASYNCHRONOUS
    # How far asynchronous workers are apart depends on how unevenly they go on.
    assert 0 <= distance_ratio(one, other) < math.inf


@pytest.mark.after_change
@pytest.mark.parametrize(("devices", "limit"), [(1, None), (2, None), (1, 4.0), (2, 4.0)])
def test_a_server_updates_as_a_worker_does(
    tmp_path: Path, devices: int, limit: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The optimiser is sent to the servers, with its momentum and weight decay, and what it divides the sum over a
    worker's devices by; one worker is never out of step. The norm is limited by the worker, of one device alone."""
    # Models of the tests are found as an operator's own would be.
    monkeypatch.setenv("TBD_SUITE_PATH", str(ROOT))
    rule = {**linear_model.OPTIMIZER, "gradient_norm_limit": limit}
    job = strategy_job("mxnet", ASYNCHRONOUS, 1, devices)
    job["model"].update(module="tests.support.linear_model", input=None, rule=rule)
    attempt = carried_out(job, tmp_path)
    if devices > 1 and limit:
        assert attempt.failure()["kind"] == "unsupported"
        return
    assert attempt.popen.returncode == 0, attempt.said
    assert attempt.losses() == {"worker0": pytest.approx(linear_model.losses(6, rule), rel=1e-5)}


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


@pytest.mark.after_change
def test_a_server_that_is_killed_in_mid_run_ends_the_gang_with_one_outcome(tmp_path: Path) -> None:
    """MXNet's own workers would wait for it for ever; so they would for a worker."""
    with in_mid_run(strategy_job("mxnet", "kvstore-dist-sync", 2, 1, max_steps=10**6), tmp_path) as attempt:
        os.kill(pid_of(attempt, "server0"), signal.SIGKILL)
        attempt.popen.wait(90.0)
    failure = attempt.failure()
    assert (failure["kind"], failure["signal"]) == ("crashed", signal.SIGKILL)
    assert "server0" in failure["message"]


@pytest.mark.after_change
def test_a_server_that_stands_still_ends_at_the_time_limit(tmp_path: Path) -> None:
    job = strategy_job("mxnet", "kvstore-dist-sync", 2, 1, max_steps=10**6, timeout_s=20.0)
    with in_mid_run(job, tmp_path) as attempt:
        os.kill(pid_of(attempt, "server1"), signal.SIGSTOP)
    failure = attempt.failure()
    assert failure["kind"] == "timed_out", failure["message"]


@pytest.mark.after_change
def test_a_taken_port_of_the_scheduler_is_a_failed_set_up(tmp_path: Path) -> None:
    job = strategy_job("mxnet", "kvstore-dist-sync")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        job["nodes"][0]["ports"]["framework"] = other.getsockname()[1]
        attempt = carried_out(job, tmp_path)
    assert attempt.failure()["kind"] == "setup_failed"
    assert "scheduler cannot listen" in attempt.failure()["message"]


@pytest.mark.after_change
def test_a_worker_whose_servers_never_come_gives_up(python_of, tmp_path: Path) -> None:
    job = strategy_job("mxnet", "kvstore-dist-sync", timeout_s=4.0)
    worker = Trainer(job, tmp_path, python_of("mxnet"), "worker0")
    assert worker.finish(60.0) == EXIT_STATUS["timed_out"]
    assert "did not all meet" in worker.data("error")[0]["message"]
