"""Real training over two nodes: two agents side by side on this machine, each with its own part of one job.

What agents do with the processes of a gang, whatever they run, is proved with ``sleep`` in ``test_two_nodes``. Here is
what needs a framework.
"""

import os
import signal
import time

import pytest

from tests.integration.node_attempts import failure_of, log_of, of_kind
from tests.support.strategy_jobs import strategy_job
from workers.node import processes
from workers.node.agent import Agent

DDP = ("pytorch", "ddp")
MULTI_WORKER = ("tensorflow", "multi-worker-mirrored")
# Judgement: two frameworks are imported on few and busy cores, or a rank that stands still is noticed.
PATIENCE_S = 180.0


@pytest.fixture
def agents(tmp_path):
    found = [Agent(tmp_path / node, node, fence_s=300) for node in ("node-0", "node-1")]
    yield found
    for agent in found:
        agent.close()


@pytest.fixture
def job_of(python_of):
    """A function that makes a job of two nodes with a device each; keywords go into its plan."""

    def make(strategy, **plan):
        job = strategy_job(*strategy, nodes=2, devices=1, **plan)
        python_of(job["interpreter"]["name"])
        return job

    return make


def start(agents, job):
    for agent in agents:
        assert agent.start(job)["state"] == "running"


def logs_of(agents, job):
    return [log_of(agent, job, PATIENCE_S) for agent in agents]


def pid_in_mid_run(agent, job, steps):
    """Wait until the one process of ``agent`` has made ``steps`` steps; return its pid."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        entries = agent.fetch(job["attempt_id"], 0, 10**6)["entries"]
        if len(of_kind(entries, "interval")) >= steps:
            return of_kind(entries, "process_started")[0]["pid"]
        assert time.monotonic() < deadline, [entry["kind"] for entry in entries]
        time.sleep(0.05)


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_two_nodes_train_one_model_each_with_its_own_log(agents, job_of):
    job = job_of(DDP, max_steps=5)
    start(agents, job)
    logs = logs_of(agents, job)
    assert [failure_of(entries) for entries in logs] == [None, None]
    replicas = [of_kind(entries, "replica") for entries in logs]
    assert [len(found) for found in replicas] == [1, 1]
    assert replicas[0][0]["sha256"] == replicas[1][0]["sha256"]
    assert [entry["rank"] for entries in logs for entry in entries if entry["kind"] == "finished"] == [0, 1]
    assert not processes.with_token(job["token"])


@pytest.mark.framework("tensorflow")
@pytest.mark.after_change
def test_a_killed_rank_ends_the_gang_on_both_nodes_and_is_the_one_named(agents, job_of):
    """TensorFlow's first worker leads the others: here it loses one (tests/contract/test_strategies.py kills it)."""
    job = job_of(MULTI_WORKER, max_steps=10**6)
    start(agents, job)
    os.kill(pid_in_mid_run(agents[1], job, 3), signal.SIGKILL)
    first, second = (failure_of(entries) for entries in logs_of(agents, job))
    assert (second["kind"], second["ranks"], second["signal"]) == ("crashed", [1], signal.SIGKILL)
    assert (first["kind"], first["ranks"]) == ("crashed", [1])
    assert not processes.with_token(job["token"])


@pytest.mark.framework("tensorflow")
@pytest.mark.after_change
def test_a_rank_that_stands_still_is_named_on_the_other_node(agents, job_of):
    """Its sockets stay open: within a minute TensorFlow's health check tells, or between steps rank 0 does."""
    job = job_of(MULTI_WORKER, max_steps=10**6, timeout_s=600.0)
    start(agents, job)
    os.kill(pid_in_mid_run(agents[1], job, 3), signal.SIGSTOP)
    first = failure_of(log_of(agents[0], job, PATIENCE_S))
    assert (first["kind"], first["ranks"]) == ("timed_out", [1]), first
    agents[1].stop(job["attempt_id"], "timed_out")
    assert failure_of(log_of(agents[1], job, PATIENCE_S))["kind"] == "timed_out"
    assert not processes.with_token(job["token"])
