"""An agent whose disk is full: attempts end clearly, or are refused."""

import os
import shutil

import pytest

from tests.integration.node_attempts import NODE, UNEVEN, a_job, carried_out, failure_of
from workers.node import processes
from workers.node.agent import Agent

pytest_plugins = ["tests.integration.node_agents"]


@pytest.fixture
def cramped(small_disk):
    """An agent whose attempts are kept there."""
    agent = Agent(small_disk, NODE)
    yield agent
    agent.close()


def test_a_full_disk_ends_the_attempt_clearly(cramped, small_disk):
    job = a_job(options={**UNEVEN, "step_time_s": 0.001}, max_steps=1000000)
    entries = carried_out(cramped, job)
    assert failure_of(entries)["kind"] == "no_space"
    message = failure_of(entries)["message"]
    assert f"no space left on a disk of node {NODE}" in message
    assert f"in {small_disk} (" in message
    assert "make room there" in message
    assert entries[-1]["data"]["entries"] == len(entries)
    assert not processes.with_token(job["token"])
    assert cramped.acknowledge(job["attempt_id"], len(entries))["deleted"]


def test_an_agent_on_a_full_disk_refuses_an_attempt_and_may_be_told_to_stop_it(cramped, small_disk):
    with open(small_disk / "filler", "wb") as filler:
        os.posix_fallocate(filler.fileno(), 0, shutil.disk_usage(small_disk).free)
    job = a_job()
    answer = cramped.start(job)
    assert (answer["state"], answer["failure"]) == ("refused", "no_space")
    assert f"{small_disk} (0.0 MiB free now): make room there" in answer["reason"]
    assert cramped.status()["disk_free_bytes"] == 0
    assert cramped.stop(job["attempt_id"], "no_space")["state"] == "ended"
    (small_disk / "filler").unlink()
    assert "stopped before it came" in cramped.start(job)["reason"]
    assert cramped.status()["disk_free_bytes"] > 0
