"""A node of Ray in the foreground, for whoever keeps it alive: a unit of systemd, a container.

    python -m orchestrator.cluster.ray_node OPTIONS-OF-RAY-START [-- COMMAND ...]

It ends when a core process of its Ray ends, however that came, and ends the others: ``ray start --block`` would wait
for ever beside a raylet that has ended in order. ``COMMAND`` runs beside the node, once that is up, and the end of
either ends both: so the service has the node that a driver of Ray needs on its host. It sleeps until something has
ended, and does without importing Ray.

Exit status: that of ``COMMAND``; 0 after SIGTERM and SIGINT; 2 when the secret file of Ray's token cannot be used; 4
when the node did not come up or has ended.
"""

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from orchestrator.cluster.node_names import given_name
from orchestrator.cluster.records import end_session, in_session, tail
from orchestrator.domain.words.errors import ClusterUnavailable, SettingsError, TbdError
from orchestrator.serve.secret_files import NOT_EVERYBODY, read_secret
from workers.node import processes
from workers.node.processes import ProcessId

CORE_PROGRAMS = ("gcs_server", "raylet")
# Judgements: `ray start` gives up by itself where the head does not answer; a service ends its attempts in order.
START_TIMEOUT_S = 150.0
COMMAND_PATIENCE_S = 50.0


class Told(Exception):  # noqa: N818 - a person or a supervisor told this process to end
    """SIGTERM or SIGINT has come."""


def main(words: Sequence[str]) -> int:
    options, command = divided(words)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _be_told)
    try:
        return keep(options, command)
    except Told:
        return 0
    except SettingsError as error:
        print(f"tbd: {error}", file=sys.stderr)
        return 2
    except TbdError as error:
        print(f"tbd: {error}", file=sys.stderr)
        return 4


def divided(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options of ``ray start``, and the command after ``--``."""
    if "--" not in words:
        return list(words), []
    place = list(words).index("--")
    return list(words[:place]), list(words[place + 1 :])


def keep(options: Sequence[str], command: Sequence[str]) -> int:
    """Start the node and ``command``, and wait until one of them ends; then end all. The exit status of ``command``.

    Raises:
        SettingsError: see ``check_token`` and ``start``.
        ClusterUnavailable: the node did not come up, or has ended.
        Told: this process was told to end.
    """
    check_token(os.environ)
    session = None
    child: subprocess.Popen[bytes] | None = None
    try:
        with tempfile.NamedTemporaryFile(prefix="tbd-ray-start-") as log:
            starter = start(options, log.name)
            session = processes.identify(starter.pid) or ProcessId(starter.pid, 0)
            core = wait_for(starter, session, Path(log.name))
        if command:
            child = subprocess.Popen(command)
        ended = first_ended([*core, *([child.pid] if child else [])])
        if child and ended == child.pid:
            status = child.wait()
            return status if status >= 0 else 128 - status  # by a signal: as a shell says it
        raise ClusterUnavailable(f"{core[ended]} of this node of Ray has ended; its logs are below /tmp/ray")
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        if child:
            end_child(child)
        if session:
            end_session(session)


def check_token(environment: Mapping[str, str]) -> None:
    """Look at the secret file of Ray's token, where one is named.

    Raises:
        SettingsError: it is missing, or others may read it.
    """
    if path := environment.get("RAY_AUTH_TOKEN_PATH"):
        read_secret(Path(path), "RAY_AUTH_TOKEN_PATH", closed_to=NOT_EVERYBODY)


def start(options: Sequence[str], log: str) -> "subprocess.Popen[bytes]":
    """Begin ``ray start`` in a session of its own, by which its processes are found.

    Raises:
        SettingsError: the node cannot be called as it should be.
    """
    name = given_name()
    named = [f"--node-name={name}"] if name else []
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", *named, *options]
    with open(log, "wb") as output:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)


def wait_for(starter: "subprocess.Popen[bytes]", session: ProcessId, log: Path) -> dict[int, str]:
    """The node's core processes, once it is up: process id -> program.

    Raises:
        ClusterUnavailable: it did not come up; the message ends with what it said.
    """
    try:
        status = starter.wait(START_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise ClusterUnavailable(f"Ray did not start within {START_TIMEOUT_S:.0f} s: {tail(log)}") from None
    core = {process.pid: name for process in in_session(session) if (name := program(process.pid)) in CORE_PROGRAMS}
    if status or not core:
        raise ClusterUnavailable(f"Ray did not start (status {status}): {tail(log)}")
    print(f"tbd: a node of Ray is up: {', '.join(sorted(core.values()))}", file=sys.stderr, flush=True)
    return core


def first_ended(pids: Iterable[int]) -> int:
    """Sleep until one of these processes has ended; which."""
    poll = select.poll()
    by_descriptor = {}
    try:
        for pid in pids:
            try:
                descriptor = os.pidfd_open(pid)
            except ProcessLookupError:
                return pid
            by_descriptor[descriptor] = pid
            poll.register(descriptor, select.POLLIN)
        return by_descriptor[poll.poll()[0][0]]
    finally:
        for descriptor in by_descriptor:
            os.close(descriptor)


def end_child(child: "subprocess.Popen[bytes]") -> None:
    """End the command in order, or else at once."""
    if child.poll() is None:
        child.terminate()
    try:
        child.wait(COMMAND_PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _be_told(*_: object) -> None:
    raise Told


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
