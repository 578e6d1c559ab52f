"""The allocation profile: a second set of processes of an attempt, started when the first has ended well."""

import shutil

import pytest

from tests.integration.mpi_jobs import OTHER_NODE, mpi_job
from tests.integration.node_attempts import (
    NODE,
    a_job,
    carried_out,
    failure_of,
    kinds,
    log_of,
    of_kind,
    until,
    waiting_for,
)
from workers.node import processes
from workers.node.agent import Agent

PARAMETERS = 50_000
OPTIONS = {"step_time_s": 0.002, "parameters": PARAMETERS}


@pytest.fixture
def agents(tmp_path):
    found = {node: Agent(tmp_path / node, node, fence_s=60) for node in (NODE, OTHER_NODE)}
    yield found
    for agent in found.values():
        agent.close()


@pytest.fixture
def agent(agents):
    return agents[NODE]


def profiled(**changes):
    return {"profile": ["kernels", "layers", "memory"], "options": OPTIONS, "max_steps": 5, **changes}


def began(entries):
    return {data["process"]: data["pid"] for data in of_kind(entries, "process_started")}


def totals(entries, rank):
    """Bytes allocated and not freed, by class, of one rank."""
    found = {}
    for entry in entries:
        if entry["kind"] == "allocations" and entry["rank"] == rank:
            for index, size, _ in entry["data"]["items"]:
                name = entry["data"]["classes"][index]
                found[name] = found.get(name, 0) + size
    return found


def test_fresh_processes_follow_their_allocations_after_the_others_have_ended(agent, tmp_path):
    entries = carried_out(agent, a_job(**profiled()))
    assert failure_of(entries) is None
    assert sorted(began(entries)) == ["worker0", "worker0:memory"]
    assert len(set(began(entries).values())) == 2
    ends = ("process_started", "process_exited")
    order = [entry["data"]["process"] for entry in entries if entry["kind"] in ends]
    assert order == ["worker0", "worker0", "worker0:memory", "worker0:memory"]
    sources = {kind: {entry["source"] for entry in entries if entry["kind"] == kind} for kind in set(kinds(entries))}
    assert sources["interval"] == sources["kernels"] == sources["spans"] == sources["layers"] == {"worker0"}
    assert sources["allocations"] == {"worker0:memory"}
    assert [data["profile"] for data in of_kind(entries, "profiled")] == ["kernels", "layers", "memory"]
    assert totals(entries, 0)["weights"] == 4 * PARAMETERS
    until(lambda: not list(tmp_path.glob("*/attempt-*/memory")))


def test_a_run_that_asks_for_no_profile_of_memory_has_one_set_of_processes(agent):
    entries = carried_out(agent, a_job(**profiled(profile=["kernels"])))
    assert sorted(began(entries)) == ["worker0"]
    assert "allocations" not in kinds(entries)


def test_a_run_that_went_wrong_is_not_profiled(agent):
    options = waiting_for(2, fault="nan", parameters=PARAMETERS)
    entries = carried_out(agent, a_job(**profiled(options=options)))
    assert failure_of(entries)["kind"] == "diverged"
    assert sorted(began(entries)) == ["worker0"]


def test_every_rank_has_a_profile_of_its_own(agent):
    entries = carried_out(agent, a_job(ranks=2, **profiled()))
    assert failure_of(entries) is None
    assert [totals(entries, rank)["weights"] for rank in (0, 1)] == [4 * PARAMETERS] * 2


def test_what_goes_wrong_there_costs_the_profile_and_not_the_run(agent):
    options = {**OPTIONS, "fault": "no_memory_profile", "fault_rank": 1}
    job = a_job(ranks=2, **profiled(options=options))
    entries = carried_out(agent, job)
    assert failure_of(entries) is None
    assert len(of_kind(entries, "finished")) == 2
    (failed,) = of_kind(entries, "profile_failed")
    assert failed["profile"] == "memory"
    assert (failed["failure"]["kind"], failed["failure"]["ranks"]) == ("out_of_memory", [1])
    assert not processes.with_token(job["token"])


def test_a_run_can_be_cancelled_while_its_memory_is_profiled(agent):
    job = a_job(**profiled(options={**OPTIONS, "build_time_s": 4.0}))
    agent.start(job)
    until(lambda: "worker0:memory" in began(agent.fetch(job["attempt_id"])["entries"]))
    agent.stop(job["attempt_id"], "cancelled")
    entries = log_of(agent, job)
    assert failure_of(entries)["kind"] == "cancelled"
    assert "memory" not in [found["profile"] for found in of_kind(entries, "profiled")]
    assert not processes.with_token(job["token"])


def over_two_nodes(started_by_mpirun):
    """The ranks of the second node have ended long before those of the first: their successors must wait."""
    options = {**OPTIONS, "build_time_s": 0.0}
    job = mpi_job((NODE, OTHER_NODE), **profiled(options=options))
    if not started_by_mpirun:
        del job["strategy"]
        job["processes"] = [process for process in job["processes"] if process["role"] == "worker"]
        for process in job["processes"]:
            del process["started_by"]
    return job


MPIRUN = pytest.param(True, marks=pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun"), id="mpirun")


@pytest.mark.parametrize("started_by_mpirun", [pytest.param(False, id="agents"), MPIRUN])
def test_the_second_set_of_processes_meets_over_two_nodes_as_the_first_did(agents, started_by_mpirun):
    job = over_two_nodes(started_by_mpirun)
    for agent in agents.values():
        assert agent.start(job)["state"] == "running"
    logs = {node: log_of(agent, job) for node, agent in agents.items()}
    for rank, (node, entries) in enumerate(logs.items()):
        assert failure_of(entries) is None, node
        assert not of_kind(entries, "profile_failed")
        assert totals(entries, rank)["weights"] == 4 * PARAMETERS
    assert not processes.with_token(job["token"])
