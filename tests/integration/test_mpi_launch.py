"""Ranks that mpirun starts, on one node and on two of this machine, without ssh: by the model that waits."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from tests.integration.mpi_jobs import OTHER_NODE, mpi_job
from tests.integration.node_attempts import (
    NODE,
    ROOT,
    UNEVEN,
    carried_out,
    failure_of,
    kinds,
    log_of,
    of_kind,
    steps_begin,
    until,
    waiting_for,
)
from workers.node import processes
from workers.node.agent import Agent
from workers.node.telemetry.census import Census
from workers.trainer import protocol

pytestmark = pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun: apt-get install openmpi-bin")

BOTH = (NODE, OTHER_NODE)


@pytest.fixture
def agents(tmp_path):
    found = {node: Agent(tmp_path / node, node, fence_s=60) for node in BOTH}
    yield found
    for agent in found.values():
        agent.close()


@pytest.fixture
def agent(agents):
    return agents[NODE]


def on_both(agents, job):
    """Carry out ``job`` on both nodes; return the entries of each."""
    for agent in agents.values():
        assert agent.start(job)["state"] == "running"
    entries = {node: log_of(agent, job) for node, agent in agents.items()}
    assert not processes.with_token(job["token"])
    return entries


def started(entries):
    return {data["process"]: data["pid"] for data in of_kind(entries, "process_started")}


def test_ranks_that_mpirun_has_started_are_the_agents_own(agent):
    job = mpi_job()
    entries = carried_out(agent, job)
    assert failure_of(entries) is None
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert set(started(entries)) == {"launcher0", "worker0", "worker1"}
    ends = {data["process"]: (data["exit_code"], data["signal"]) for data in of_kind(entries, "process_exited")}
    assert ends == {"launcher0": (0, None), "worker0": (0, None), "worker1": (0, None)}
    for entry in entries:
        if entry["kind"] == "started" and entry["source"] != "launcher0":
            assert entry["data"]["pid"] == started(entries)[entry["source"]]
    subjects = {value[1] for data in of_kind(entries, "reading") for value in data["values"]}
    assert {"process:worker0", "process:worker1"} <= subjects
    assert not processes.with_token(job["token"])


def test_each_rank_runs_on_the_cores_of_its_devices(agent):
    job = mpi_job(max_steps=10**6, options=UNEVEN)
    for process in job["processes"]:
        for device in process["devices"]:
            device["cores"] = [sorted(os.sched_getaffinity(0))[0]]
    agent.start(job)
    steps_begin(agent, job)
    for name, pid in started(agent.fetch(job["attempt_id"])["entries"]).items():
        if name != "launcher0":
            assert os.sched_getaffinity(pid) == {sorted(os.sched_getaffinity(0))[0]}
    agent.stop(job["attempt_id"], "cancelled")
    assert failure_of(log_of(agent, job))["kind"] == "cancelled"
    assert not processes.with_token(job["token"])


def test_what_a_rank_prints_is_its_own_output(agent):
    entries = carried_out(agent, mpi_job(options=waiting_for(3, fault="crash", fault_rank=1)))
    (text,) = [data["text"] for data in of_kind(entries, "output") if data["process"] == "worker1"]
    assert "asked to crash" in text


@pytest.mark.parametrize(("fault", "seen"), [("signal", (None, 9)), ("exit", (3, None)), ("crash", (86, None))])
@pytest.mark.after_change
def test_a_rank_that_goes_takes_the_others_along_and_is_named(agent, fault, seen):
    job = mpi_job(options=waiting_for(5, fault=fault, fault_rank=1))
    failure = failure_of(carried_out(agent, job))
    assert (failure["kind"], failure["ranks"]) == ("crashed", [1])
    assert (failure["exit_code"], failure["signal"]) == seen
    assert not processes.with_token(job["token"])


def test_an_mpirun_that_is_killed_takes_its_ranks_along(agent):
    job = mpi_job(max_steps=10**6, options=UNEVEN)
    agent.start(job)
    steps_begin(agent, job)
    os.kill(started(agent.fetch(job["attempt_id"])["entries"])["launcher0"], signal.SIGKILL)
    entries = log_of(agent, job)
    assert failure_of(entries)["kind"] == "crashed"
    assert len(of_kind(entries, "process_exited")) == 3
    assert not processes.with_token(job["token"])


def test_ranks_of_two_nodes_are_started_without_ssh(agents):
    entries = on_both(agents, mpi_job(BOTH))
    assert set(started(entries[NODE])) == {"launcher0", "worker0"}
    assert set(started(entries[OTHER_NODE])) == {"launcher1", "worker1"}
    for node in BOTH:
        assert failure_of(entries[node]) is None
        assert sum(interval["n"] for interval in of_kind(entries[node], "interval")) == 40


def test_a_rank_that_goes_ends_the_gang_on_both_nodes(agents):
    entries = on_both(agents, mpi_job(BOTH, options=waiting_for(5, fault="signal", fault_rank=1)))
    failure = failure_of(entries[OTHER_NODE])
    assert (failure["kind"], failure["ranks"], failure["signal"]) == ("crashed", [1], 9)
    assert (failure_of(entries[NODE])["kind"], failure_of(entries[NODE])["ranks"]) == ("crashed", [1])


def test_a_cancelled_gang_ends_on_both_nodes_and_all_of_it_was_the_attempts(agents):
    job = mpi_job(BOTH, max_steps=10**6, options=UNEVEN)
    others = processes.descendants([os.getpid()])
    for agent in agents.values():
        agent.start(job)
    steps_begin(agents[OTHER_NODE], job)
    members = [Census(job["token"], node).take().members for node in BOTH]
    # mpirun, its daemon, our launchers and what stands between them and the ranks: no load from outside.
    assert processes.descendants([os.getpid()]) - others <= members[0] | members[1]
    assert not members[0] & members[1]
    for agent in agents.values():
        agent.stop(job["attempt_id"], "cancelled")
    for agent in agents.values():
        assert failure_of(log_of(agent, job))["kind"] == "cancelled"
    assert not processes.with_token(job["token"])


def test_a_node_that_never_comes_is_not_waited_for_beyond_the_attempts_time(agent):
    job = mpi_job(BOTH, timeout_s=3)
    agent.start(job)
    entries = log_of(agent, job)
    assert failure_of(entries)["kind"] in ("timed_out", "crashed")
    assert "worker0" not in started(entries)
    assert not processes.with_token(job["token"])


@pytest.fixture
def launcher(tmp_path):
    """A launcher of the other node that waits to be asked: (its process, its address, its job)."""
    job = mpi_job(BOTH, timeout_s=20)
    (tmp_path / "job.json").write_text(json.dumps({**job, "process": "launcher1"}))
    command = [sys.executable, "-m", "workers.node.mpi.launch", "--job", "job.json", "--events", "events.jsonl"]
    process = subprocess.Popen(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    until((tmp_path / "events.jsonl").exists)
    node = job["nodes"][1]
    yield process, (node["address"], node["ports"]["framework"]), job
    process.kill()
    process.wait()


def ask(address, request):
    """Say ``request`` to the launcher; return its answers."""

    def answered():
        try:
            return socket.create_connection(address, timeout=10)
        except ConnectionRefusedError:
            return None

    channels = []
    until(lambda: channels.append(answered()) or channels[-1])
    with channels[-1] as channel:
        channel.sendall((json.dumps(request) + "\n").encode())
        return [json.loads(line) for line in channel.makefile("r")]


def test_a_launcher_starts_nothing_for_a_stranger_and_nothing_but_orted(launcher):
    process, address, job = launcher
    assert "wrong token" in ask(address, {"token": "guessed", "words": ["orted"]})[0]["refused"]
    assert "only orted" in ask(address, {"token": job["token"], "words": ["sh", "-c", "true"]})[0]["refused"]
    assert process.poll() is None
    answers = ask(address, {"token": job["token"], "words": ["orted", "--help"]})
    assert "exit" in answers[-1]
    assert any("orted" in answer.get("output", "") for answer in answers)
    assert process.wait(10) == answers[-1]["exit"]


def test_a_launcher_that_nobody_asks_says_so_in_time(tmp_path):
    job = mpi_job(BOTH, timeout_s=0.2)
    (tmp_path / "job.json").write_text(json.dumps({**job, "process": "launcher1"}))
    command = [sys.executable, "-m", "workers.node.mpi.launch", "--job", "job.json", "--events", "events.jsonl"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=30, check=False)
    events = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert kinds(events) == ["started", "error"]
    assert done.returncode == protocol.EXIT_STATUS["timed_out"]
