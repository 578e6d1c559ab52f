"""An agent behind a Unix socket, for a cluster on this machine without Ray, and the client for it.

    python -m workers.node serve --directory DIR --socket PATH [--node NAME] [--fence-s S] [--idle-exit-s S]

One JSON object a line each way: ``{"method", "arguments"}``, answered by ``{"result"}`` or ``{"error": {"type",
"message"}}``. The socket is its owner's alone (mode 0600). Without any contact for ``--idle-exit-s`` the server ends.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import socketserver
import sys
import threading
from pathlib import Path
from typing import Any, Mapping, Sequence

from workers.node.agent import LONGEST_WAIT_S, Agent
from workers.node.attempts import DirectoryInUseError
from workers.trainer import protocol

METHODS = (
    "inventory",
    "reserve",
    "start",
    "stop",
    "status",
    "fetch",
    "wait",
    "acknowledge",
    "heartbeat",
    "interpreters",
    "checks",
)

DEFAULT_IDLE_EXIT_S = 900.0
_CALL_PATIENCE_S = 30.0


class AgentUnreachableError(ConnectionError):
    """Nobody answers at the agent's socket."""


class AgentRefusedError(RuntimeError):
    """The agent answered with an error; the message is its own."""


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        for line in self.rfile:
            try:
                self.wfile.write((protocol.to_json(self._answer(line)) + "\n").encode())
            except (BrokenPipeError, ConnectionResetError):
                return

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            if request["method"] not in METHODS:
                raise ValueError("unknown method {!r}".format(request["method"]))
            agent = self.server.agent  # type: ignore[attr-defined]
            return {"result": getattr(agent, request["method"])(**request.get("arguments", {}))}
        except Exception as error:  # belongs to the caller
            return {"error": {"type": type(error).__name__, "message": str(error)}}


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, agent: Agent) -> None:
        self.agent = agent
        super().__init__(path, _Connection)


def serve(directory: Path, path: Path, node: str | None, fence_s: float | None, idle_exit_s: float) -> None:
    """Serve an agent over ``directory`` at the socket ``path`` until SIGTERM, SIGINT, idleness or the directory's end.

    Raises:
        DirectoryInUseError: another agent owns the directory.
        OSError: there can be no socket at that path.
    """
    agent = Agent(directory, node, fence_s)
    try:
        server = _listening(path, agent)
        agent.step_back()  # and with this thread those that it starts
        end = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: end.set())
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.5}, daemon=True).start()
        while not end.wait(min(1.0, idle_exit_s / 4)):
            if agent.out_of_contact_s > idle_exit_s and not agent.running:
                break
            if not directory.is_dir():  # taken away: nothing that runs could be told of, and nobody finds this agent
                break
        server.shutdown()
        server.server_close()
        path.unlink(missing_ok=True)
    finally:
        agent.close()


def _listening(path: Path, agent: Agent) -> _Server:
    """The server; its socket gets the name ``path`` once it listens, so that nobody who finds it is refused."""
    unready = path.with_name(path.name[:-1] + "~")  # no longer than the name itself, whose length is limited
    unready.unlink(missing_ok=True)
    mask = os.umask(0o177)
    try:
        server = _Server(str(unready), agent)
    finally:
        os.umask(mask)
    unready.replace(path)  # one of a predecessor goes: the directory's lock says that nobody answers there
    return server


def main(arguments: Sequence[str]) -> int:
    """Run ``serve``; return its exit status: 0 ended in order, 1 it could not begin, 2 usage."""
    parser = argparse.ArgumentParser(prog="python -m workers.node serve", description=__doc__.splitlines()[0])
    parser.add_argument("--directory", type=Path, required=True, help="where attempts are kept")
    parser.add_argument("--socket", type=Path, required=True, help="path of the Unix socket")
    parser.add_argument("--node", help="the node's name in jobs; default: the host's name")
    parser.add_argument("--fence-s", type=float, help="default: TBD_FENCE_S, else 60")
    parser.add_argument("--idle-exit-s", type=float, default=DEFAULT_IDLE_EXIT_S, help="default: %(default)s")
    options = parser.parse_args(arguments)
    try:
        serve(options.directory, options.socket, options.node, options.fence_s, options.idle_exit_s)
    except (DirectoryInUseError, OSError, ValueError) as error:
        print(f"the agent cannot run: {error}", file=sys.stderr)
        return 1
    return 0


class AgentClient:
    """Calls an agent at a socket; the same methods as ``Agent``, safe to use from several threads.

    Raises (every method):
        AgentUnreachableError: nobody answers.
        AgentRefusedError: the agent answered with an error.
    """

    def __init__(self, path: Any, patience_s: float = _CALL_PATIENCE_S) -> None:
        self._path = str(path)
        self._patience_s = patience_s

    def _call(self, method: str, patience_s: float | None = None, **arguments: Any) -> Any:
        request = json.dumps({"method": method, "arguments": arguments}) + "\n"
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(patience_s or self._patience_s)
                connection.connect(self._path)
                connection.sendall(request.encode())
                with connection.makefile("rb") as file:
                    line = file.readline()
        except OSError as error:
            raise AgentUnreachableError(f"no agent answers at {self._path}: {error}") from error
        if not line.endswith(b"\n"):
            raise AgentUnreachableError(f"the agent at {self._path} went away during {method}")
        answer = json.loads(line)
        if "error" in answer:
            raise AgentRefusedError("{}: {}".format(answer["error"]["type"], answer["error"]["message"]))
        return answer["result"]

    def inventory(self) -> dict[str, Any]:
        return dict(self._call("inventory"))

    def reserve(self, attempt_id: str) -> dict[str, Any]:
        return dict(self._call("reserve", attempt_id=attempt_id))

    def start(self, job: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._call("start", job=job))

    def stop(self, attempt_id: str, reason: str, detail: str = "") -> dict[str, Any]:
        return dict(self._call("stop", attempt_id=attempt_id, reason=reason, detail=detail))

    def status(self) -> dict[str, Any]:
        return dict(self._call("status"))

    def fetch(self, attempt_id: str, after: int = 0, limit: int = 1000) -> dict[str, Any]:
        return dict(self._call("fetch", attempt_id=attempt_id, after=after, limit=limit))

    def wait(self, after_by_attempt: Mapping[str, int], timeout_s: float) -> dict[str, Any]:
        patience_s = min(timeout_s, LONGEST_WAIT_S) + self._patience_s
        return dict(self._call("wait", patience_s, after_by_attempt=after_by_attempt, timeout_s=timeout_s))

    def acknowledge(self, attempt_id: str, seq: int) -> dict[str, Any]:
        return dict(self._call("acknowledge", attempt_id=attempt_id, seq=seq))

    def heartbeat(self) -> dict[str, Any]:
        return dict(self._call("heartbeat"))

    def checks(self) -> dict[str, Any]:
        return dict(self._call("checks"))

    def interpreters(self) -> list[dict[str, Any]]:
        return list(self._call("interpreters"))
