"""Which threads of an agent have stepped back, and that what it starts has not."""

import os
import threading

import pytest

from tests.integration.node_attempts import UNEVEN, a_job, log_of, of_kind, steps_begin
from workers.node import background
from workers.node.agent import Agent


@pytest.fixture
def agent(tmp_path):
    agent = Agent(tmp_path, "node-1", fence_s=60)
    yield agent
    agent.close()


def niceness(thread):
    return os.getpriority(os.PRIO_PROCESS, thread)


def threads():
    return {thread.name: thread.native_id for thread in threading.enumerate()}


def test_the_agents_threads_step_back_and_neither_the_one_that_starts_children_nor_a_child_does(agent):
    usual = niceness(0)
    job = a_job(max_steps=10**6, options=UNEVEN)
    agent.start(job)
    steps_begin(agent, job)
    own = threads()
    for name in ("tbd-sampler", "tbd-fence", "tbd-attempt-" + job["attempt_id"]):
        assert niceness(own[name]) == max(usual, background.NICENESS)
    assert niceness(own["tbd-spawner"]) == usual
    agent.stop(job["attempt_id"], "cancelled")
    (started,) = of_kind(log_of(agent, job), "started")
    assert started["niceness"] in (0, usual)  # it may take back what its surroundings gave it, where it has the right


def test_a_thread_steps_back_to_the_cores_that_are_kept_and_its_own_children_with_it():
    (core, *_) = sorted(os.sched_getaffinity(0))
    found = {}

    def look():
        found["inherited"] = (os.sched_getaffinity(0), niceness(0))

    def step_back():
        background.step_back([core], "tbd-test")
        found["own"] = (os.sched_getaffinity(0), niceness(0))
        child = threading.Thread(target=look)
        child.start()
        child.join()

    thread = threading.Thread(target=step_back)
    thread.start()
    thread.join()
    assert found["own"] == found["inherited"] == ({core}, max(niceness(0), background.NICENESS))
