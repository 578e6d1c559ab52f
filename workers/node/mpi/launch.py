"""A process ``launcher<i>``: ``python -m workers.node.mpi.launch --job PATH --events PATH``.

On the first node it becomes mpirun. On any other it waits for mpirun's remote shell (``workers.node.mpi.agent``) to
connect, and carries out the one command line that this brings: OpenMPI's daemon, which starts the node's ranks.

One JSON object a line: ``{"token", "words"}`` in; ``{"output"}``, then ``{"exit"}`` back, or ``{"refused"}``.
"""

from __future__ import annotations

import argparse
import hmac
import json
import os
import platform
import select
import shlex
import shutil
import socket
import subprocess
import sys
import time
from typing import Any, Mapping, NoReturn, Sequence

from workers.node.mpi import hosts
from workers.trainer import protocol

FIRST_LAUNCHER = "launcher0"

# Judgements: how long a peer may take to say who it is, how long orted has to end by itself and to obey SIGTERM.
HELLO_TIMEOUT_S = 10.0
TERMINATE_S = 2.0

_LONGEST_HELLO = 65536
_READ_BYTES = 65536


class LaunchError(Exception):
    """The ranks of this node cannot be started; ``kind`` is one of ``protocol.FAILURE_KINDS``."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def main(arguments: Sequence[str]) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="workers.node.mpi.launch", description="Starts the ranks of this node.")
    parser.add_argument("--job", required=True)
    parser.add_argument("--events", required=True)
    options = parser.parse_args(arguments)
    job = protocol.read_job(options.job)
    writer = protocol.EventWriter(options.events)
    writer.emit("started", pid=os.getpid(), python=platform.python_version())
    try:
        missing = hosts.missing_programs()
        if missing is not None:
            raise LaunchError("setup_failed", missing)
        if job["process"] == FIRST_LAUNCHER:
            _become_mpirun(job)
        return _serve(job)
    except (LaunchError, OSError, ValueError) as error:
        kind = error.kind if isinstance(error, LaunchError) else "setup_failed"
        writer.emit("error", failure=kind, type=type(error).__name__, message=str(error), traceback="")
        return protocol.EXIT_STATUS[kind]
    finally:
        writer.close()


def _become_mpirun(job: Mapping[str, Any]) -> NoReturn:
    command = hosts.command(job)
    os.execvp(command[0], command)


def _serve(job: Mapping[str, Any]) -> int:
    """Carry out orted's command line when it comes; return orted's exit status."""
    node = job["nodes"][int(job["process"][len("launcher") :])]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((node["address"], node["ports"]["framework"]))
        listener.listen(8)
        peer, words = _await_mpirun(listener, job["token"], time.monotonic() + hosts.join_timeout_s(job))
    with peer:
        return _run_orted(peer, words)


def _await_mpirun(listener: socket.socket, token: str, deadline: float) -> tuple[socket.socket, list[str]]:
    while True:
        listener.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            peer, _ = listener.accept()
        except socket.timeout:
            raise LaunchError("timed_out", "mpirun on the first node has not asked for the ranks of this one") from None
        try:
            return peer, _greet(peer, token)
        except (OSError, ValueError, KeyError, TypeError) as error:
            _send(peer, {"refused": f"refused: {error}\n"})
            peer.close()


def _greet(peer: socket.socket, token: str) -> list[str]:
    peer.settimeout(HELLO_TIMEOUT_S)
    text = b""
    while not text.endswith(b"\n"):
        data = peer.recv(_READ_BYTES)
        text += data
        if not data or len(text) > _LONGEST_HELLO:
            raise ValueError("no request")
    request = json.loads(text)
    if not hmac.compare_digest(str(request["token"]).encode(), token.encode()):
        raise ValueError("wrong token")
    return orted_arguments(request["words"])


def orted_arguments(words: Sequence[str]) -> list[str]:
    """Return the arguments of orted in a command line for a remote shell, which may set up a PATH before.

    Raises:
        ValueError: there is no orted in it.
    """
    found = shlex.split(" ".join(words))
    names = [os.path.basename(word) for word in found]
    if "orted" not in names:
        raise ValueError("only orted is started for mpirun")
    return found[names.index("orted") + 1 :]


def _run_orted(peer: socket.socket, arguments: Sequence[str]) -> int:
    program = shutil.which("orted")
    assert program is not None
    process = subprocess.Popen(
        [program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        _relay(process, peer)
    finally:
        status = _end(process)
    _send(peer, {"exit": status})
    return status


def _relay(process: subprocess.Popen[bytes], peer: socket.socket) -> None:
    """Pass on what orted prints until it ends, or until mpirun's side has gone."""
    assert process.stdout is not None
    output = process.stdout.fileno()
    sources = [output, peer.fileno()]
    while output in sources:
        for source in select.select(sources, [], [])[0]:
            if source == output:
                data = os.read(output, _READ_BYTES)
                if not data:
                    sources.remove(output)
                elif not _send(peer, {"output": data.decode("utf-8", "replace")}):
                    return
            elif not peer.recv(_READ_BYTES):
                return


def _end(process: subprocess.Popen[bytes]) -> int:
    """Return orted's exit status; one that does not end by itself now is ended."""
    for end in (process.terminate, process.kill):
        try:
            status = process.wait(TERMINATE_S)
            break
        except subprocess.TimeoutExpired:
            end()
    else:
        status = process.wait()
    return status if status >= 0 else 128 - status


def _send(peer: socket.socket, message: Mapping[str, Any]) -> bool:
    try:
        peer.sendall((json.dumps(message) + "\n").encode())
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
