"""Whose processor time is whose: with real processes, of tbd, Ray, PostgreSQL, mpirun and strangers."""

import json
import subprocess
import sys
import uuid
from contextlib import ExitStack

import psycopg
import pytest

from tests.integration.node_attempts import until
from tests.support.service import running_service
from workers.node import processes
from workers.node.telemetry.census import Census
from workers.node.telemetry.nvml import Nvml
from workers.node.telemetry.sampler import Observer

pytest_plugins = ["tests.contract.store_servers"]

SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def strangers():
    """Starts programs under whatever name; ends them."""
    started = []

    def start(*words):
        child = subprocess.Popen(words, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def own_pids(token="no such token"):
    return {process.pid for process in Census(token).take().own}


def test_a_process_is_own_by_what_it_was_started_as_and_not_by_a_word_in_its_command_line(strangers):
    titled = strangers("ray::IDLE", "-c", SLEEP)
    task = strangers("ray::train", "-c", SLEEP)
    named = strangers("python", "-c", SLEEP, "raylet", "workers.node", "orchestrator.app")
    until(lambda: titled.pid in own_pids())
    assert not {task.pid, named.pid} & own_pids()


def test_a_worker_of_ray_that_others_compute_in_becomes_foreign_and_a_stranger_that_becomes_the_service_own(strangers):
    """A process keeps its number when it becomes another program."""
    program = "import os, sys; sys.stdin.readline(); os.execv({!r}, {!r})"
    becomes_foreign = strangers("ray::IDLE", "-c", program.format(sys.executable, ["ray::train", "-c", SLEEP]))
    becomes_own = strangers("python", "-c", program.format(sys.executable, ["ray::IDLE", "-c", SLEEP]))
    census = Census("no such token")
    until(lambda: becomes_foreign.pid in {process.pid for process in census.take().own})
    census.take()
    for child in (becomes_foreign, becomes_own):
        child.stdin.write(b"\n")
        child.stdin.flush()
    until(lambda: becomes_foreign.pid not in {process.pid for process in census.take().own})
    until(lambda: becomes_own.pid in {process.pid for process in census.take().own})


@pytest.mark.after_change
def test_the_service_its_agent_and_the_processes_of_its_database_are_own(postgresql):
    for name in ("accounting", "shop"):
        postgresql.execute(f"CREATE DATABASE {name} TEMPLATE template_tbd")
    url = postgresql.url("accounting")
    with ExitStack() as stack:
        shop = stack.enter_context(psycopg.connect(postgresql.url("shop"), autocommit=True))
        ours = stack.enter_context(psycopg.connect(url, autocommit=True))
        service = stack.enter_context(running_service(TBD_CLUSTER="local", TBD_DATABASE_URL=url))
        assert {service.pid, *agents_of(service.data_dir), ours.info.backend_pid} <= own_pids()
        assert shop.info.backend_pid not in own_pids()


def agents_of(data_dir):
    """The ids of the agents of a local cluster, as it has recorded them."""
    found = [json.loads(path.read_text())["pid"] for path in data_dir.glob("local/nodes/*/agent.json")]
    assert found
    return found


BURN = """
import sys, time
end = time.process_time() + float(sys.argv[1])
while time.process_time() < end: pass
"""


def test_what_a_child_used_that_came_and_went_between_two_readings_is_the_attempts(strangers):
    token = uuid.uuid4().hex
    program = (
        "import subprocess, sys; sys.stdin.readline();"
        f"subprocess.run([{sys.executable!r}, '-c', {BURN!r}, '0.4']); print('done', flush=True); sys.stdin.readline()"
    )
    child = strangers("python", "-c", program)
    observer = Observer(token, {"worker0": processes.identify(child.pid)}, [], Nvml())
    observer.read()
    child.stdin.write(b"\n")
    child.stdin.flush()
    child.stdout.readline()
    values = {(metric, subject): value for metric, subject, value in observer.read()}
    assert values["cpu_s", "attempt"] >= 0.4
    assert values["cpu_s", "process:worker0"] < 0.4  # its own
