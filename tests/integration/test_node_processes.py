"""Processes known by token, by descent, by pid and start time."""

import os
import subprocess
import sys
import uuid

import pytest

from tests.integration.node_attempts import until
from workers.node import processes
from workers.trainer import protocol

SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def token():
    token = uuid.uuid4().hex
    yield token
    processes.end_all(token)


def started(token, program=SLEEP, **options):
    environment = {**os.environ, protocol.TOKEN_VARIABLE: token}
    return subprocess.Popen([sys.executable, "-c", program], env=environment, **options)


def test_a_process_is_found_by_its_token_in_whatever_session_it_is(token):
    child = started(token, start_new_session=True)
    # A program that has only just been executed may have no environment to read yet.
    until(lambda: {process.pid for process in processes.with_token(token)} == {child.pid})
    assert processes.end_all(token, reap=child.poll) == set()
    assert child.wait() == -9


def test_a_token_that_only_begins_alike_is_another_one(token):
    child = started(token + "0")
    assert processes.with_token(token) == set()
    processes.end_all(token + "0", reap=child.poll)
    child.wait()


def test_a_descendant_without_the_token_is_ended_too(token):
    program = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', %r], env={}).pid, flush=True); %s"
    child = started(token, program % (SLEEP, SLEEP), stdout=subprocess.PIPE)
    grandchild = processes.identify(int(child.stdout.readline()))
    assert grandchild not in processes.with_token(token)
    assert processes.end_all(token, reap=child.poll) == set()
    assert not processes.alive(grandchild)
    child.wait()
    child.stdout.close()


def test_a_zombie_counts_as_dead_and_a_reused_pid_is_another_process(token):
    child = started(token, "pass")
    identity = processes.identify(child.pid)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not processes.alive(identity)
    child.wait()
    me = processes.identify(os.getpid())
    assert processes.alive(me)
    assert not processes.alive(me._replace(start_ticks=me.start_ticks - 1))


def test_a_process_that_is_none_has_no_identity():
    assert processes.identify(2**22 + 1) is None


def test_a_process_lives_on_after_its_first_thread_until_its_last_has_ended(token):
    program = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""
    child = started(token, program, stdout=subprocess.PIPE)
    with child.stdout:
        child.stdout.readline()
        process = processes.identify(child.pid)
        until(lambda: processes.stat(child.pid).state == "Z")
        assert processes.alive(process)
        assert child.poll() is None
        assert processes.end_all(token, [process], reap=child.poll) == set()
    assert child.wait() == -9
    assert not processes.alive(process)
