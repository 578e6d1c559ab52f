"""Horovod over Gloo, by the node agent and real processes: what is not the same for every strategy of several ranks.

That a rank which is killed is named, and that gradients are averaged: tests/contract/test_strategies.py.
"""

import socket
from pathlib import Path

import pytest

from tests.support.strategy_jobs import carried_out, strategy_job

FRAMEWORKS = [
    pytest.param(name, marks=[pytest.mark.framework(name), pytest.mark.after_change])
    for name in ("pytorch", "tensorflow", "mxnet")
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


@pytest.mark.parametrize("framework", FRAMEWORKS[2:], indirect=True)
def test_a_taken_port_of_the_rendezvous_is_a_failed_set_up(framework, tmp_path: Path) -> None:
    """The process that finds it taken knows nothing of frameworks."""
    job = strategy_job(framework, "horovod", 1, 2, timeout_s=60.0)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen(1)
        job["nodes"][0]["ports"]["framework"] = other.getsockname()[1]
        attempt = carried_out(job, tmp_path)
    assert attempt.failure()["kind"] == "setup_failed"
    assert "rendezvous cannot listen" in attempt.failure()["message"]
