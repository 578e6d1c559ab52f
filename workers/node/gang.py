"""The processes of an attempt on one node, as one thing: started together, heard together, ended together.

Owns the attempt's files beside the log (a job, an events file and a scratch folder for each process) and the writing of
what the processes say into the log. Judging it is the supervisor's. Processes that are ``started_by`` a launcher are
only prepared here, and adopted.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any, Iterator, Mapping, NamedTuple, Sequence, Union

from workers.node import children, locality, processes
from workers.node.adopted import Adopted
from workers.node.event_log import EventLog
from workers.node.mpi import hosts, rank
from workers.node.prepare import SetupError
from workers.trainer import protocol
from workers.trainer.base import job as jobs

# Kinds that only the agent may write: a process that does is not believed.
_AGENT_KINDS = frozenset(
    (
        "log_opened",
        "process_started",
        "reading",
        "output",
        "stop_requested",
        "stopping_decided",
        "garbage",
        "process_exited",
        "counters",
        "log_closed",
    )
)

# Reads of what a dead process left in its pipes; bounded, since a stray child of it may hold them and write on.
_LAST_READS = 8

_GARBAGE_BYTES = 1000
_GARBAGE_LINES = 20


Member = Union[children.Child, Adopted]


class Exit(NamedTuple):
    """The end of one process: its exit status as subprocess gives it, and what it had reported of itself."""

    child: Member
    status: int
    error: dict[str, Any] | None
    finished: bool
    torn: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "process": self.child.name,
            "exit_code": self.status if self.status >= 0 else None,
            "signal": -self.status if self.status < 0 else None,
            "stderr_tail": self.child.stderr_tail(),
        }


class Gang:
    """All processes of ``job`` that belong to one node.

    Args:
        mine: those entries of ``job["processes"]``.
        folder: the attempt's folder; must exist.
        log: where everything they say is written.
        node: this node's name in the job; None to take all processes of the job for this node's.
        phase: None for the training; else what its processes do instead (``--phase``). In the log they are then called
            ``worker0:memory``: each process has one beginning and one end.
        prefix: what the commands of processes with a rank are preceded by.
    """

    def __init__(
        self,
        job: Mapping[str, Any],
        mine: Sequence[Mapping[str, Any]],
        folder: Path,
        log: EventLog,
        spawner: children.Spawner,
        node: str | None = None,
        phase: str | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        self._job = job
        self._mine = mine
        self._folder = folder
        self._log = log
        self._spawner = spawner
        self._node = node
        self._phase = phase
        self._prefix = prefix
        self.children: list[Member] = []
        self._met: list[Adopted] = []
        self._errors: dict[str, dict[str, Any]] = {}
        self._finished: set[str] = set()
        self._garbage_lines = 0
        self._host_gpus = 0
        self._near_cores: Mapping[str, Sequence[int]] = {}

    def start(
        self,
        path: Path,
        host_cores: Sequence[int],
        host_gpus: int = 0,
        near_cores: Mapping[str, Sequence[int]] = MappingProxyType({}),
    ) -> None:
        """Start every process; ``path`` is their PYTHONPATH, ``host_cores`` for those without devices of cores, which
        all ``host_gpus`` GPUs of this host share; of these a process with GPUs gets those that are of the NUMA nodes
        of its GPUs' ``near_cores``.

        Raises:
            SetupError: one could not be started. Those before it run and have to be ended.
            LogError: the log cannot be written.
        """
        self._host_gpus, self._near_cores = host_gpus, near_cores
        started = [process for process in self._mine if not process.get("started_by")]
        adopted = [process for process in self._mine if process.get("started_by")]
        for process in adopted:
            self._write_launch(process, path, host_cores)
        for process in started:
            child = self._start(process, path, host_cores)
            self._add(child)
            self._log_started(child)
        launcher = next((child for child in self.children if child.process["role"] == "launcher"), None)
        for process in adopted:
            assert isinstance(launcher, children.Child), "processes to be started by a launcher, and no launcher here"
            own = rank.files(self._folder, process["name"])
            self._add(Adopted(process, launcher, self._events(process), own))

    def _add(self, child: Member) -> None:
        if self._phase is not None:
            child.name = f"{child.name}:{self._phase}"
        self.children.append(child)

    def _log_started(self, child: Member) -> None:
        assert child.id is not None
        self._log.append(
            "process_started",
            process=child.name,
            role=child.process["role"],
            pid=child.id.pid,
            start_ticks=child.id.start_ticks,
        )

    def _start(self, process: Mapping[str, Any], path: Path, host_cores: Sequence[int]) -> children.Child:
        try:
            launch = self._prepare(process, path, host_cores)
            popen = self._spawner.popen(
                launch.command,
                cores=launch.cores,
                memory_bytes=children.memory_of(self._job, process),
                memory_nodes=launch.memory_nodes,
                cwd=launch.cwd,
                env=children.environment(children.inherited(self._job), launch.environment),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise SetupError(f"cannot start process {process['name']}: {error}") from error
        return children.Child(process, popen, self._events(process))

    def _write_launch(self, process: Mapping[str, Any], path: Path, host_cores: Sequence[int]) -> None:
        """Write down how mpirun has to start ``process``."""
        own = rank.files(self._folder, process["name"])
        try:
            launch = self._prepare(process, path, host_cores)
            _write_private(own.launch, json.dumps(launch._asdict()))
            for pipe in (own.stdout, own.stderr):
                os.mkfifo(str(pipe), 0o600)
        except OSError as error:
            raise SetupError(f"cannot prepare process {process['name']}: {error}") from error

    def _prepare(self, process: Mapping[str, Any], path: Path, host_cores: Sequence[int]) -> rank.Launch:
        """Write the files of ``process`` and return how it is started."""
        name = process["name"]
        job_path, scratch = self._folder / (name + ".job.json"), self._folder / ("scratch-" + name)
        added = children.of_process(self._job, process, str(path), host_cores, self._host_gpus)
        scratch.mkdir()
        _write_private(job_path, json.dumps({**self._job, "process": name}))
        python, switches, module = self._job["interpreter"]["python"], [], "workers.trainer"
        if process["role"] == "launcher":
            # The agent's own Python: a launcher belongs to the node, not to the framework.
            python, switches, module = sys.executable, ["-S"], "workers.node.mpi.launch"
            interface = protocol.node_of(self._job, process)["interface"]
            added.update(hosts.environment(self._folder, scratch, python, interface))
        command = [python, *switches, "-m", module, "--job", str(job_path), "--events", str(self._events(process))]
        if self._phase is not None and process["role"] != "launcher":
            command += ["--phase", self._phase]
        if process["ranks"]:
            command = [*self._prefix, *command]
        near = [core for device in process["devices"] for core in self._near_cores.get(device["id"], ())]
        cores = children.cores_of(process) or locality.beside(near, host_cores)
        shares_node = self._job["plan"].get("exclusive") == "device"
        memory_nodes = locality.memory_nodes(cores) if shares_node else []
        return rank.Launch(command, cores, str(scratch), added, memory_nodes)

    def _events(self, process: Mapping[str, Any]) -> Path:
        return self._folder / (process["name"] + ".events.jsonl")

    def met(self) -> list[Adopted]:
        """Return the adopted processes that have said since the last call who they are."""
        met, self._met = self._met, []
        return met

    def hear(self) -> Iterator[Heard]:
        """Write into the log what the processes have said since; yield each child's events, good and bad.

        Raises:
            LogError: the log cannot be written.
        """
        for child in self.children:
            if not child.reported:
                yield self._hear(child)

    def _hear(self, child: Member) -> Heard:
        for stream in child.streams:
            output = stream.read()
            if output:
                self._log.append("output", process=child.name, **output._asdict())
        good: list[dict[str, Any]] = []
        bad: list[bytes] = []
        for line in child.events.read():
            event = _parse(line, child.process["ranks"])
            if event is None:
                bad.append(line)
            else:
                good.append(event)
        self._meet(child, good)
        if good:
            self._log.extend(good, child.name)
        self._remember(child.name, good)
        self._throw_away(child.name, bad)
        return Heard(child, good, len(bad))

    def _meet(self, child: Member, events: list[dict[str, Any]]) -> None:
        for event in events:
            if not isinstance(child, Adopted) or event["kind"] != "started":
                continue
            if child.meet(event["data"]["pid"], self._job["token"]):
                self._log_started(child)
                self._met.append(child)

    def _remember(self, name: str, events: list[dict[str, Any]]) -> None:
        for event in events:
            if event["kind"] == "error":
                self._errors.setdefault(name, event["data"])
            elif self._is_end(event):
                self._finished.add(name)

    def _is_end(self, event: Mapping[str, Any]) -> bool:
        """Whether a process has said by ``event`` that it has done all it had to do."""
        if self._phase is None or event["rank"] is None:
            return bool(event["kind"] == "finished")
        return bool(event["kind"] == "profiled" and event["data"]["profile"] == self._phase)

    def _throw_away(self, name: str, lines: list[bytes]) -> None:
        for line in lines:
            self._garbage_lines += 1
            if self._garbage_lines <= _GARBAGE_LINES:
                self._log.append("garbage", process=name, text=line[:_GARBAGE_BYTES].decode("utf-8", "replace"))

    def exits(self) -> list[Exit]:
        """Return the processes that have ended since the last call, after everything they said is in the log.

        Raises:
            LogError: the log cannot be written.
        """
        found = []
        for child in self.children:
            status = None if child.reported else child.poll()
            if status is not None:
                found.append(self._exit(child, status))
        return found

    def _exit(self, child: Member, status: int) -> Exit:
        self._hear(child)
        for _ in range(child.events.reads_left()):
            self._hear(child)
        for _ in range(_LAST_READS):
            if not any(stream.pending() for stream in child.streams):
                break
            self._hear(child)
        torn = child.events.close()
        if torn:
            self._throw_away(child.name, [torn])
        ended = Exit(
            child,
            status,
            self._errors.get(child.name),
            child.name in self._finished or not _has_to_finish(child.process),
            bool(torn),
        )
        child.reported = True
        child.close()
        if child.id is not None:
            self._log.append("process_exited", **ended.as_json())
        return ended

    def living(self) -> list[Member]:
        """Return the children whose end was not yet noticed."""
        return [child for child in self.children if not child.reported]

    def terminate(self) -> None:
        """Ask every process to end (SIGTERM)."""
        for child in self.living():
            child.signal(signal.SIGTERM)

    def kill(self) -> set[processes.ProcessId]:
        """End every process of the attempt on this host, however far it has strayed, and confirm that it is dead.

        Returns:
            Those that would not die.
        """
        for child in self.living():
            child.kill_group()
        return processes.end_all(
            self._job["token"],
            [child.id for child in self.living() if child.id is not None],
            reap=lambda: [child.poll() for child in self.children],
            node=self._node,
        )

    def unreported(self) -> list[dict[str, Any]]:
        """Return, without touching the log, ``process_exited`` events that could not be written to it."""
        events = []
        for child in self.living():
            status = child.poll()
            if status is not None:
                events.append(protocol.event("process_exited", Exit(child, status, None, False, False).as_json()))
                child.close()
        return events

    def clean(self) -> None:
        """Remove the files beside the log."""
        for child in self.children:
            child.close()
        for process in self._mine:
            shutil.rmtree(self._folder / ("scratch-" + process["name"]), ignore_errors=True)
            own = rank.files(self._folder, process["name"])
            socket = Path(jobs.socket_path(str(self._folder), process["name"]))
            for file in (self._folder / (process["name"] + ".job.json"), self._events(process), socket, *own):
                file.unlink(missing_ok=True)
        if self._phase is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class Heard(NamedTuple):
    """What one child has said: its events, and how many lines were none."""

    child: Member
    events: list[dict[str, Any]]
    garbage: int


def _has_to_finish(process: Mapping[str, Any]) -> bool:
    """Whether ``process`` reports ``finished`` where all goes well; servers, schedulers and launchers do not."""
    return bool(process["ranks"]) or process["role"] in protocol.MODEL_ROLES


def _parse(line: bytes, ranks: Sequence[int]) -> dict[str, Any] | None:
    try:
        event: dict[str, Any] = protocol.check_event(json.loads(line))
    except ValueError:  # no JSON, no UTF-8, or a ProtocolError
        return None
    if event["kind"] in _AGENT_KINDS or event.get("rank") not in (None, *ranks):
        return None
    return {key: event.get(key) for key in ("t", "wall", "kind", "rank", "data")}


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        file.write(text)
