"""Starting the processes of an attempt and reading what they say.

Owns how a child begins (its environment, its cores, its session, its death with the agent) and the reading of its
events file, stdout and stderr while it lives. What the text means is the supervisor's matter.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import math
import os
import queue
import select
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from workers.node import processes, suites
from workers.trainer import protocol

# Per stream. A rank that prints without end must not fill the disk; what it says first is what explains it, and the
# newest 4 KiB of stderr are kept beside in ``process_exited``.
OUTPUT_LIMIT_BYTES = 1024 * 1024
OUTPUT_MARKER = "\n[tbd: this stream is longer than 1 MiB; the rest was not kept]\n"
STDERR_TAIL_BYTES = 4096

_READ_BYTES = 64 * 1024
_EVENTS_BYTES = 1024 * 1024
_F_SETPIPE_SZ = 1031  # linux/fcntl.h; Python 3.10 has it by name
_PIPE_BYTES = 1024 * 1024  # what an ordinary user may ask for (/proc/sys/fs/pipe-max-size)
_LINE_LIMIT_BYTES = 16 * 1024 * 1024
_BEFORE_EXEC = str(Path(__file__).with_name("before_exec.py"))

# Of the agent's own surroundings, nothing of this reaches a child: Ray's and Python's settings would change what is
# measured, and tbd's hold secrets.
_DROPPED = ("PYTHON", "RAY_", "TBD_", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "GOMP_", "CUDA_VISIBLE", "NVIDIA_VISIBLE")
_DROPPED_NAMES = ("VIRTUAL_ENV", "LD_PRELOAD", "__PYVENV_BEFORE_EXECER__")


class Spawner:
    """Starts children from one thread that lives as long as the agent.

    The signal that takes a child along when the agent dies (PR_SET_PDEATHSIG) fires when the *thread* that forked it
    ends; an attempt's thread ends before the agent does. Children inherit its priority and its cores: it has to begin
    before whoever makes it steps back (``background``).
    """

    def __init__(self) -> None:
        self._queue: queue.Queue[tuple[Callable[[], Any], Future[Any]] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._serve, name="tbd-spawner", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            item = self._queue.get()
            if item is None:
                return
            call, future = item
            try:
                future.set_result(call())
            except BaseException as error:  # belongs to whoever asked
                future.set_exception(error)

    def popen(
        self,
        command: Sequence[str],
        cores: Sequence[int] = (),
        memory_bytes: int | None = None,
        memory_nodes: Sequence[int] = (),
        **options: Any,
    ) -> subprocess.Popen[bytes]:
        """Start ``command`` in a session of its own, pinned to ``cores`` (all where there are none), with so much
        private memory for it and for each of its children (None: no limit), from the NUMA nodes ``memory_nodes`` alone
        (none given: from any).

        Raises:
            OSError: it cannot be started.
        """
        launcher = [sys.executable, "-I", "-S", _BEFORE_EXEC, str(os.getpid()), ",".join(map(str, cores))]
        launcher += ["" if memory_bytes is None else str(memory_bytes), ",".join(map(str, memory_nodes))]

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                [*launcher, *command], stdin=subprocess.DEVNULL, start_new_session=True, close_fds=True, **options
            )

        future: Future[subprocess.Popen[bytes]] = Future()
        self._queue.put((start, future))
        return future.result()

    def close(self) -> None:
        """End the thread, and with it every child that still lives."""
        self._queue.put(None)
        self._thread.join()


def environment(inherited: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: ``inherited`` without what must not leak, and ``added``."""
    kept = {
        name: value for name, value in inherited.items() if not name.startswith(_DROPPED) and name not in _DROPPED_NAMES
    }
    return {**kept, **added}


def inherited(job: Mapping[str, Any]) -> dict[str, str]:
    """Return what processes of ``job`` inherit: this process's environment, but for the variables that the job fixes
    (``interpreter.variables``; null: not set)."""
    found = dict(os.environ)
    for name, value in (job["interpreter"].get("variables") or {}).items():
        found.pop(name, None)
        if value is not None:
            found[name] = value
    return found


def of_process(
    job: Mapping[str, Any], process: Mapping[str, Any], path: str, host_cores: Sequence[int], host_gpus: int = 0
) -> dict[str, str]:
    """Return what the environment of one process of ``job`` has beyond the inherited.

    Args:
        path: the folder that holds ``workers`` and ``suites``.
        host_cores: logical cores that a process without cores of its own may use.
        host_gpus: how many GPUs this host has. A process gets the threads of its GPUs' share of the cores, so that one
            of eight GPUs has as many when it trains alone as when all of them train.
    """
    gpus = [device["id"] for device in process["devices"] if device["kind"] == "cuda"]
    here = sum(1 for one in job["processes"] if one.get("node") == process.get("node"))
    parts = max(here, host_gpus // len(gpus) if gpus else 0)
    threads = len(cores_of(process)) or max(1, len(host_cores) // max(1, parts))
    ranks = max(1, len(process.get("ranks") or ()))
    decoders = max(1, threads // ranks // 2)  # half of its cores: the others are left to the training
    if (job.get("strategy") or {}).get("threads") == "per-device":
        threads = max(1, threads // max(1, len(process["devices"])))
    added = {
        protocol.TOKEN_VARIABLE: job["token"],
        protocol.NODE_VARIABLE: str(process.get("node") or ""),
        # Models from outside the tree come behind our own: none of them can take a name of ours.
        "PYTHONPATH": os.pathsep.join([path, *suites.path_of(job)]),
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(threads),
        protocol.DECODERS_VARIABLE: str(decoders),
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
    }
    added.update(job["interpreter"].get("environment") or {})
    return added


def memory_of(job: Mapping[str, Any], process: Mapping[str, Any]) -> int | None:
    """Return the bytes that ``process`` may have, the plan's limit for each of its devices; None: no limit."""
    limit = job["plan"].get("memory_limit_bytes")
    return None if limit is None else int(limit) * max(1, len(process["devices"]))


def cores_of(process: Mapping[str, Any]) -> list[int]:
    """Return the logical cores of all devices of ``process``, and those that it was given without, in order."""
    found = {core for device in process["devices"] for core in device.get("cores") or ()}
    return sorted(found | set(process.get("cores") or ()))


class Output(NamedTuple):
    """Text of one stream, with the offset of its first byte in that stream."""

    stream: str
    offset: int
    text: str


class Stream:
    """One of a child's pipes: read without waiting, decoded, and kept up to a limit."""

    def __init__(self, name: str, pipe: Any) -> None:
        self.name = name
        self._pipe = pipe
        os.set_blocking(pipe.fileno(), False)
        with contextlib.suppress(OSError):  # room for what is written between two looks, else its writer has to wait
            fcntl.fcntl(pipe.fileno(), _F_SETPIPE_SZ, _PIPE_BYTES)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = 0
        self._full = False
        self.tail = b""
        self.open = True

    def read(self) -> Output | None:
        """Return what has been written since, or None. Drains one buffer: a chatty child cannot keep us here."""
        if not self.open:
            return None
        try:
            data = os.read(self._pipe.fileno(), _READ_BYTES)
        except BlockingIOError:
            return None
        if not data:
            self.close()
        self.tail = (self.tail + data)[-STDERR_TAIL_BYTES:]
        return self._keep(data)

    def pending(self) -> bool:
        """Whether something lies in the pipe that was not read yet."""
        if not self.open:
            return False
        poll = select.poll()  # unlike select(), it knows descriptors beyond 1023
        poll.register(self._pipe, select.POLLIN | select.POLLHUP)
        return bool(poll.poll(0))

    def _keep(self, data: bytes) -> Output | None:
        offset, self._offset = self._offset, self._offset + len(data)
        if self._full:
            return None
        self._full = self._offset > OUTPUT_LIMIT_BYTES
        text = self._decoder.decode(data[: max(0, OUTPUT_LIMIT_BYTES - offset)], final=self._full or not data)
        if self._full:
            text += OUTPUT_MARKER
        return Output(self.name, offset, text) if text else None

    def close(self) -> None:
        if self.open:
            self.open = False
            self._pipe.close()


class EventsFile:
    """The file that a process appends its events to, read as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._rest = bytearray()

    def read(self) -> list[bytes]:
        """Return the whole lines that are new, of a part of the file: what is left of it takes ``reads_left``."""
        if self._file is None:
            try:
                self._file = os.open(str(self._path), os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return []
        *ended, rest = os.read(self._file, _EVENTS_BYTES).split(b"\n")
        lines = []
        for piece in ended:
            lines.append(bytes(self._rest + piece))
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > _LINE_LIMIT_BYTES:  # no event of ours: let it be judged as it is
            lines.append(bytes(self._rest))
            self._rest.clear()
        return lines

    def reads_left(self) -> int:
        """How many reads it takes until all that lies in the file now is read."""
        if self._file is None:
            return 0
        unread = os.fstat(self._file).st_size - os.lseek(self._file, 0, os.SEEK_CUR)
        return math.ceil(unread / _EVENTS_BYTES)

    def close(self) -> bytes:
        """Return the torn last line, if any, and give the file back."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        return bytes(self._rest)


class Followed:
    """A process of the attempt, whoever has started it: who it is, and what it says."""

    def __init__(self, process: Mapping[str, Any], events: Path, stdout: Any, stderr: Any) -> None:
        self.process = process
        self.name: str = process["name"]
        self.id: processes.ProcessId | None = None
        self.events = EventsFile(events)
        self.streams = [Stream("stdout", stdout), Stream("stderr", stderr)]
        self.reported = False  # its end stands in the log
        self.told = False  # only what the agent has not started itself can have been ended by somebody else

    def stderr_tail(self) -> str:
        return self.streams[1].tail.decode("utf-8", "replace")

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
        self.events.close()


class Child(Followed):
    """One that the agent has started itself."""

    def __init__(self, process: Mapping[str, Any], popen: subprocess.Popen[bytes], events: Path) -> None:
        super().__init__(process, events, popen.stdout, popen.stderr)
        self._popen = popen
        self.id = processes.identify(popen.pid) or processes.ProcessId(popen.pid, 0)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def poll(self) -> int | None:
        """Return its exit status (negative: the signal that ended it), or None while it lives. Reaps it."""
        return self._popen.poll()

    def signal(self, number: int) -> None:
        if self._popen.poll() is None:
            self._popen.send_signal(number)

    def kill_group(self) -> None:
        """Kill it and what still is in its process group."""
        if self._popen.poll() is None:
            processes.kill_group(self.pid)
