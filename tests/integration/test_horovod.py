"""Horovod over Gloo, by the node agent and real processes: what is not the same for every strategy of several ranks."""

import os
import signal
import socket
import time
from pathlib import Path

import pytest

from orchestrator.analysis.replicas import distance_ratio
from tests.support.strategy_jobs import OnThisHost, carried_out, strategy_job
from workers.node import processes

FRAMEWORKS = [
    pytest.param("pytorch", marks=pytest.mark.framework("pytorch")),
    pytest.param("tensorflow", marks=pytest.mark.framework("tensorflow")),
    pytest.param("mxnet", marks=pytest.mark.framework("mxnet")),
]
STEPS = 3


@pytest.fixture(params=FRAMEWORKS)
def framework(request, python_of):
    """A framework whose Horovod is built here."""
    python_of(strategy_job(request.param, "horovod")["interpreter"]["name"])
    return request.param


def test_the_agent_carries_out_a_run_whose_ranks_end_with_equal_weights(framework, tmp_path: Path) -> None:
    attempt = carried_out(strategy_job(framework, "horovod", 1, 2, max_steps=STEPS), tmp_path)
    assert attempt.failure() is None, attempt.said
    assert {ended["process"] for ended in attempt.data("process_exited") if ended["exit_code"] == 0} == {
        "scheduler",
        "worker0",
        "worker1",
    }
    # The scheduler is listening before the others have imported what it does not need.
    assert [attempt.data("versions", name) != [] for name in ("scheduler", "worker0", "worker1")] == [False, True, True]
    assert [joined["world_size"] for joined in attempt.data("joined")] == [2, 2]
    assert {built["exchange"]["backend"] for built in attempt.data("built")} == {"gloo"}
    assert len(attempt.data("loss")) == 2 * STEPS
    assert len({replica["sha256"] for replica in attempt.data("replica")}) == 1


@pytest.mark.framework("mxnet")
def test_mxnet_trains_through_horovod_as_it_does_through_its_own_store(python_of, tmp_path: Path) -> None:
    """Gradients are averaged, not added: the same weights but for the last digits."""
    for name in ("mxnet", "horovod"):
        python_of(name)
    ends = []
    for strategy in ("kvstore-device", "horovod"):
        attempt = carried_out(strategy_job("mxnet", strategy, 1, 2, max_steps=STEPS), tmp_path / strategy)
        assert attempt.failure() is None, attempt.said
        ends.append(attempt.data("replica")[0])
    assert distance_ratio(*ends) < 1e-4


def test_a_rank_that_is_killed_ends_the_gang_and_is_the_one_named(framework, tmp_path: Path) -> None:
    job = strategy_job(framework, "horovod", 1, 2, max_steps=10**6)
    attempt = OnThisHost(job, tmp_path)
    try:
        deadline = time.monotonic() + 90.0
        while len(attempt.data("interval")) < 4:
            assert attempt.popen.poll() is None, attempt.finish()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (victim,) = [found["pid"] for found in attempt.data("process_started") if found["process"] == "worker1"]
        os.kill(victim, signal.SIGKILL)
        attempt.finish(60.0)
    finally:
        attempt.popen.kill()
    assert attempt.failure()["kind"] == "crashed"
    assert attempt.failure()["ranks"] == [1]
    assert attempt.failure()["signal"] == signal.SIGKILL
    assert not processes.with_token(job["token"])


def test_a_taken_port_of_the_rendezvous_is_a_failed_set_up(framework, tmp_path: Path) -> None:
    job = strategy_job(framework, "horovod", 1, 2, timeout_s=60.0)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        job["nodes"][0]["ports"]["framework"] = other.getsockname()[1]
        attempt = carried_out(job, tmp_path)
    assert attempt.failure()["kind"] == "setup_failed"
    assert "rendezvous cannot listen" in attempt.failure()["message"]
