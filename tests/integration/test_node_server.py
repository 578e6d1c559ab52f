"""An agent as a process of its own behind a socket: killed, started again, idle; and the client for it."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.node_attempts import (
    NODE,
    UNEVEN,
    a_job,
    failure_of,
    kinds,
    log_of,
    of_kind,
    until,
    waiting_for,
)
from workers.node import processes
from workers.node.server import AgentClient, AgentRefusedError, AgentUnreachableError

ROOT = Path(__file__).resolve().parents[2]


class Server:
    """A served agent; ``process`` is None while there is none."""

    def __init__(self, folder):
        self.folder = folder
        self.socket = folder / "agent.sock"
        self.client = AgentClient(self.socket)
        self.process = None

    def start(self, *more):
        self.begin(*more)
        until(self.answers)

    def begin(self, *more, python=("-m", "workers.node")):
        command = [sys.executable, *python, "serve", "--directory", str(self.folder / "agent")]
        command += ["--socket", str(self.socket), "--node", NODE, *more]
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)

    def answers(self):
        assert self.process.poll() is None, self.process.stderr.read().decode()
        try:
            return bool(self.client.heartbeat())
        except AgentUnreachableError:
            return False

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(20)
        self.process.stderr.close()


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    server.start()
    yield server
    if server.process.poll() is None:
        server.end()


def test_an_attempt_can_be_carried_out_over_the_socket(server):
    job = a_job()
    assert server.client.start(job)["state"] == "running"
    entries = log_of(server.client, job)
    assert failure_of(entries) is None
    assert server.client.acknowledge(job["attempt_id"], len(entries))["deleted"] is True
    assert server.client.status()["attempts"] == []
    assert server.client.inventory()["node"] == NODE
    assert server.client.interpreters()[0]["name"] == "system"


SLOW_TO_LISTEN = """
import socketserver, sys, time
from workers.node.__main__ import main
activate = socketserver.UnixStreamServer.server_activate
socketserver.UnixStreamServer.server_activate = lambda server: (time.sleep(0.5), activate(server))[1]
sys.exit(main(sys.argv[1:]))
"""


def test_whoever_finds_the_socket_is_answered(tmp_path):
    server = Server(tmp_path)
    server.begin(python=("-c", SLOW_TO_LISTEN))
    try:
        until(server.socket.exists)
        assert server.client.heartbeat()["node"] == NODE
    finally:
        server.end()


def test_the_socket_is_its_owners_alone(server):
    assert stat.S_IMODE(os.stat(server.socket).st_mode) == 0o600


def test_an_error_of_the_agent_comes_back_as_one_and_the_server_goes_on(server):
    with pytest.raises(AgentRefusedError, match="bored"):
        server.client.stop("some-attempt", "bored")
    with pytest.raises(AgentRefusedError, match="unknown method"):
        server.client._call("close")
    assert server.client.heartbeat()["node"] == NODE


def test_an_agent_that_is_not_there_is_unreachable(tmp_path):
    with pytest.raises(AgentUnreachableError, match="no agent answers"):
        AgentClient(tmp_path / "nothing.sock").status()


def test_an_agent_killed_takes_its_children_along_and_the_next_one_closes_the_log(server):
    job = a_job(options=UNEVEN, max_steps=100000)
    server.client.start(job)
    until(lambda: "interval" in kinds(server.client.fetch(job["attempt_id"])["entries"]))
    assert processes.with_token(job["token"])
    server.end(signal.SIGKILL)
    until(lambda: not processes.with_token(job["token"]), patience_s=60)
    seen = server.client
    server.start()
    entries = log_of(seen, job)
    assert [entry["seq"] for entry in entries] == list(range(1, len(entries) + 1))
    assert failure_of(entries)["kind"] == "node_lost"
    assert server.client.start(job)["state"] == "ended"


def test_what_a_killed_agent_left_in_other_sessions_is_ended_by_the_next_one(server):
    job = a_job(options={**waiting_for(3, fault="leak_child"), **UNEVEN}, max_steps=100000)
    server.client.start(job)
    until(lambda: len(processes.with_token(job["token"])) == 2)
    server.end(signal.SIGKILL)
    until(lambda: len(processes.with_token(job["token"])) == 1, patience_s=60)
    server.start()
    assert not processes.with_token(job["token"])
    assert "1 processes of it were found" in failure_of(log_of(server.client, job))["message"]


def test_an_acknowledged_position_survives_the_agent(server):
    job = a_job()
    server.client.start(job)
    entries = log_of(server.client, job)
    server.client.acknowledge(job["attempt_id"], 3)
    server.end(signal.SIGKILL)
    server.start()
    (attempt,) = server.client.status()["attempts"]
    assert (attempt["acknowledged"], attempt["last_seq"]) == (3, len(entries))


def test_an_agent_asked_to_end_ends_its_attempts_in_order(server):
    job = a_job(options=UNEVEN, max_steps=100000)
    server.client.start(job)
    until(lambda: "interval" in kinds(server.client.fetch(job["attempt_id"])["entries"]))
    server.end(signal.SIGTERM)
    assert not processes.with_token(job["token"])
    assert not server.socket.exists()
    server.start()
    entries = log_of(server.client, job)
    assert of_kind(entries, "stop_requested")[0]["reason"] == "node_lost"


def test_an_agent_that_nobody_calls_ends_itself(tmp_path):
    server = Server(tmp_path)
    server.start("--idle-exit-s", "0.4")
    assert server.process.wait(20) == 0
    server.process.stderr.close()


@pytest.mark.after_change
def test_an_agent_does_not_begin_where_another_one_is(server):
    command = [sys.executable, "-m", "workers.node", "serve", "--directory", str(server.folder / "agent")]
    began = time.monotonic()
    done = subprocess.run(
        [*command, "--socket", str(server.folder / "other.sock")], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "belongs to another agent" in done.stderr
    assert time.monotonic() - began < 30
    assert server.client.heartbeat()["node"] == NODE
