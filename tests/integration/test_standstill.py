"""A process that no memory is left to, and that never ends: found from outside, by a whole node agent."""

import os
import subprocess
import sys
import time

import pytest

from tests.integration.node_attempts import NODE, a_job, carried_out, failure_of
from tests.trainer_process import ROOT
from workers.node import processes, standstill
from workers.node.agent import Agent
from workers.node.outcome import Failure
from workers.node.processes import ProcessId

LIMIT = 160 * 2**20
# A program within a limit that first takes all but the room given, then computes or waits.
NEAR = """
import resource, sys, time
private = [int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmData")][0]
room, does = int(sys.argv[1]), sys.argv[2]
resource.setrlimit(resource.RLIMIT_DATA, (private + room,) * 2)
print("ready", flush=True)
while does == "computes":
    pass
time.sleep(600)
"""


class Process:
    """What ``Standstill`` needs of a member of a gang."""

    def __init__(self, room, does):
        command = [sys.executable, "-c", NEAR, str(room), does]
        self.popen = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.popen.stdout.readline()
        self.id: ProcessId = processes.identify(self.popen.pid)
        self.name, self.process = "worker0", {"ranks": [0]}


@pytest.fixture
def started():
    found = []

    def start(room, does):
        found.append(Process(room, does))
        return found[-1]

    yield start
    for one in found:
        one.popen.kill()
        one.popen.wait()
        one.popen.stdout.close()


def judged(process, monkeypatch, plan, longest_s, heard=False) -> list[Failure]:
    """What is found of ``process``, looked at for ``longest_s`` or until something is."""
    monkeypatch.setattr(standstill, "PATIENCE_S", 0.4)
    monkeypatch.setattr(standstill, "_COMPUTED_S", 0.1)
    monkeypatch.setattr(standstill, "_PERIOD_S", 0.1)
    watch, found = standstill.Standstill(plan), []
    deadline = time.monotonic() + longest_s
    while not found and time.monotonic() < deadline:
        if heard:
            watch.heard(process.id)
        found = watch.find([process], time.monotonic())
        time.sleep(0.05)
    return found


LIMITED = {"memory_limit_bytes": LIMIT}


def test_a_process_that_computes_in_its_last_memory_and_says_nothing_stands_still(started, monkeypatch):
    (failure,) = judged(started(2**19, "computes"), monkeypatch, LIMITED, longest_s=20.0)
    assert (failure.kind, failure.ranks) == ("out_of_memory", [0])


@pytest.mark.parametrize(
    ("room", "does", "plan", "heard"),
    [
        pytest.param(2**22, "computes", LIMITED, False, id="it has room"),
        pytest.param(2**19, "waits", LIMITED, False, id="it waits"),
        pytest.param(2**19, "computes", LIMITED, True, id="it reports"),
        pytest.param(2**19, "computes", {}, False, id="the plan sets no limit"),
    ],
)
@pytest.mark.after_change
def test_what_goes_on_or_waits_does_not(started, monkeypatch, room, does, plan, heard):
    assert judged(started(room, does), monkeypatch, plan, 1.2, heard) == []


@pytest.mark.after_change
def test_a_process_that_python_leaves_going_round_is_out_of_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("TBD_SUITE_PATH", str(ROOT))
    monkeypatch.setattr(standstill, "PATIENCE_S", 3.0)
    monkeypatch.setattr(standstill, "_COMPUTED_S", 0.5)
    agent = Agent(tmp_path, NODE, fence_s=300)
    try:
        job = a_job(memory_limit_bytes=LIMIT, timeout_s=50)
        job["model"] = {**job["model"], "module": "tests.support.starved_model", "options": {}}
        job["plan"]["options"] = {}
        failure = failure_of(carried_out(agent, job))
        assert failure["kind"] == "out_of_memory"
        assert "has stood still" in failure["message"]
        assert failure["ranks"] == [0]
        assert not processes.with_token(job["token"])
    finally:
        agent.close()


def test_the_memory_of_a_process_that_has_gone_is_none():
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert standstill.memory_of(gone.pid) is None
    assert standstill.memory_of(os.getpid()).private > 2**20
