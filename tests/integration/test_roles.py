"""A model's own roles through the whole node agent: actors beside a worker, whose batches they make."""

import os
import signal

import pytest

from orchestrator.domain.asked.catalog import StrategyFacts
from orchestrator.domain.asked.placement import Device, NodeShare, Placement
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.reconcile.job import processes_of
from tests.integration.node_attempts import NODE, a_job, carried_out, failure_of, log_of, of_kind, steps_begin, until
from tests.support.acted_model.actor import WAYS
from tests.support.folders import files_below
from tests.trainer_process import ROOT
from workers.node import processes
from workers.node.agent import Agent

NAMES = ["actor0-0", "actor0-1", "worker0"]
A3C = load_catalog().models["a3c"]


@pytest.fixture
def agent(tmp_path, monkeypatch):
    # Models of the tests are found as an operator's own would be.
    monkeypatch.setenv("TBD_SUITE_PATH", str(ROOT))
    found = Agent(tmp_path, NODE, fence_s=300)
    yield found
    found.close()


def beside_actors(job, count):
    (device,) = job["processes"][0]["devices"]
    placement = Placement((NodeShare(NODE, (Device(device["id"], "cpu", "a cpu", tuple(device["cores"])),)),))
    job["processes"] = processes_of(placement, StrategyFacts("single", "system", 1, 1), {"actor": count})
    return job


def acted(leaves=None, **plan):
    """A job with two actors beside its worker, laid out by the orchestrator; ``leaves``: see the model's actor."""
    job = beside_actors(a_job(**plan), 2)
    own = {"leaves": {"type": "str", "default": None}}
    job["model"] = {**job["model"], "module": "tests.support.acted_model", "options": own, "work_unit": "images"}
    job["plan"]["options"] = {"leaves": leaves}
    return job


def started(entries):
    return {data["process"]: data for data in of_kind(entries, "process_started")}


def test_actors_feed_their_worker_on_its_cores_and_end_with_it(agent, tmp_path):
    job = acted(max_steps=6)
    entries = carried_out(agent, job)
    assert failure_of(entries) is None
    assert [started(entries)[name]["role"] for name in NAMES] == ["actor", "actor", "worker"]
    assert [data["value"] for data in of_kind(entries, "loss")] == [1, 1001, 2, 1002, 3, 1003]
    cores = job["processes"][-1]["devices"][0]["cores"]
    printed = [data for data in of_kind(entries, "output") if data["stream"] == "stdout"]
    # A line may come in parts, between which the other actor's come.
    for name in NAMES[:2]:
        said = "".join(data["text"] for data in printed if data["process"] == name)
        assert said == f"{name} {list(cores)} no framework\n"
    exits = {data["process"]: data["exit_code"] for data in of_kind(entries, "process_exited")}
    assert exits == dict.fromkeys(NAMES, 0)
    assert not processes.with_token(job["token"])
    # The log is closed before the files beside it are removed.
    until(lambda: not files_below(tmp_path, ".socket"), 10)


def test_an_actor_that_dies_fails_the_attempt_and_is_the_one_named(agent):
    job = acted(max_steps=10**9)
    assert agent.start(job)["state"] == "running"
    steps_begin(agent, job)
    os.kill(started(agent.fetch(job["attempt_id"], 0, 10**6)["entries"])["actor0-1"]["pid"], signal.SIGKILL)
    failure = failure_of(log_of(agent, job))
    assert (failure["kind"], failure["ranks"], failure["signal"]) == ("crashed", [], signal.SIGKILL)
    assert failure["message"].startswith("actor0-1: killed by SIGKILL")
    assert not processes.with_token(job["token"])


@pytest.mark.parametrize("leaves", WAYS)
def test_an_actor_that_ends_with_status_0_in_mid_training_is_lost_as_a_killed_one_is(agent, leaves):
    job = acted(leaves, max_steps=10**9)
    failure = failure_of(carried_out(agent, job))
    assert failure["message"] == "actor0-1: ended with status 0 before its worker had gone"
    assert (failure["kind"], failure["ranks"], failure["exit_code"]) == ("crashed", [], 0)
    assert not processes.with_token(job["token"])


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_an_actor_that_hangs_ends_the_attempt_and_is_named(agent, python_of):
    """Of A3C, which has four."""
    job = beside_actors(a_job(framework="pytorch", max_steps=10**9, timeout_s=600, options={}), A3C.roles["actor"])
    tiny = {**A3C.facts["sizes"]["tiny"], "answer_s": 2.0}
    job["model"] = {**A3C.facts_with({}), "sizes": {"tiny": tiny}}
    job["interpreter"] = {**job["interpreter"], "name": "pytorch", "python": python_of("pytorch")}
    assert agent.start(job)["state"] == "running"

    def so_far():
        return agent.fetch(job["attempt_id"], 0, 10**6)["entries"]

    until(lambda: of_kind(so_far(), "interval"), 240)
    entries = so_far()
    assert all(data["work"]["agent_steps"] == 4 * 4 for data in of_kind(entries, "interval"))
    os.kill(started(entries)["actor0-2"]["pid"], signal.SIGSTOP)
    failure = failure_of(log_of(agent, job, patience_s=120))
    assert (failure["kind"], failure["ranks"]) == ("timed_out", [0])
    assert "actor0-2 has played no step in 2 s" in failure["message"]
    assert not processes.with_token(job["token"])
