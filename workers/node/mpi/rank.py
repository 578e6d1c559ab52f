"""One rank, started by mpirun on this node: ``python -m workers.node.mpi.rank NAME``.

The agent of the node has written down what to start (``Launch``); this process starts it, waits for its end and writes
that down, since it is mpirun and not the agent that learns of it. What the rank prints reaches the agent by pipes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from workers.node.mpi import hosts

_BEFORE_EXEC = str(Path(__file__).parents[1] / "before_exec.py")

# How often it looks whether mpirun (or orted) still lives: a rank must not outlive it. Signals wake it at once.
_LOOK_S = 1.0


class Launch(NamedTuple):
    """What to start: the command, the cores it is pinned to, its folder, what its environment has besides, and the NUMA
    nodes whose memory it may have (none: any)."""

    command: Sequence[str]
    cores: Sequence[int]
    cwd: str
    environment: dict[str, str]
    memory_nodes: Sequence[int] = ()


class Files(NamedTuple):
    """The files between the agent and a rank it has not started itself; the streams are named pipes."""

    launch: Path
    ended: Path
    stdout: Path
    stderr: Path


def files(folder: Path, name: str) -> Files:
    """Return the files of the process ``name`` in the attempt's folder."""
    return Files(*(folder / f"{name}.{ending}" for ending in ("launch.json", "ended.json", "stdout", "stderr")))


class Ended(NamedTuple):
    """How a rank has ended: its status as subprocess gives it, and whether mpirun had told it to end before."""

    status: int
    told: bool


def read_ended(path: Path) -> Ended | None:
    """Return what was written down, None while the rank lives."""
    try:
        return Ended(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def main(arguments: Sequence[str]) -> int:
    """Carry out one rank; return the exit status for mpirun: that of the rank, 128 and the signal that ended it."""
    own = files(Path(os.environ[hosts.FOLDER_VARIABLE]), arguments[0])
    launch = Launch(**json.loads(own.launch.read_text()))
    ended = _carry_out(launch, own)
    _write(own.ended, ended._asdict())
    return ended.status if ended.status >= 0 else 128 - ended.status


def _carry_out(launch: Launch, own: Files) -> Ended:
    parent = os.getppid()
    environment = {**os.environ, **launch.environment}
    cores, nodes = (",".join(map(str, numbers)) for numbers in (launch.cores, launch.memory_nodes))
    # What memory it may have it inherits from the launcher.
    command = [sys.executable, "-I", "-S", _BEFORE_EXEC, str(os.getpid()), cores, "", nodes, *launch.command]
    # In mpirun's process group for this rank, and not in a session of its own: what mpirun sends reaches both.
    stdout, stderr = _opened(own.stdout), _opened(own.stderr)
    process = subprocess.Popen(
        command, cwd=launch.cwd, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
    )
    os.close(stdout)
    os.close(stderr)
    waited = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    told = False
    while process.poll() is None:
        got = signal.sigtimedwait(waited, _LOOK_S)
        if got is not None and got.si_signo != signal.SIGCHLD:
            told = True
            process.send_signal(signal.SIGTERM)
        if os.getppid() != parent:
            told = True
            process.kill()
    return Ended(process.returncode, told)


def _opened(pipe: Path) -> int:
    """Open a named pipe to write into; one that nobody reads is an error and not waited for."""
    descriptor = os.open(str(pipe), os.O_WRONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def _write(path: Path, data: dict[str, Any]) -> None:
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(data))
    os.replace(str(temporary), str(path))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
