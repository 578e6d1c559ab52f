"""Carries out one run of a person's own script: their command as it stands, and the ranks that appear in it.

The command is no part of the job, which others may send to a node: only ``tbd exec`` makes an ``OwnScript``, on the
host and in the name of the person who gave it. It runs in their folder and their environment, with the hook
(``workers/trainer/hook.py``) first on PYTHONPATH. Whatever starts its ranks, each says in a file of its own who it is,
once it trains. Then the log is opened, of the moment at which the command was started, with a job of these ranks.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

import workers
from workers.node import processes
from workers.node.adopted import Adopted
from workers.node.children import Child, Followed, Output
from workers.node.event_log import EventLog
from workers.node.gang import Exit, Gang
from workers.node.inventory import usable_cores
from workers.node.outcome import Failure
from workers.node.own.jobs import Share, devices_of, joined
from workers.node.prepare import SetupError
from workers.node.supervisor import Supervisor, Surroundings
from workers.trainer import hook, protocol

# Judgements. How often files of ranks are looked for; how long the other ranks may take to train, once the first does;
# how long an ended rank may wait for the status of what started it; how long a script may take to end after its last
# step, in a barrier or in what it saves.
_LOOK_S = 0.05
_OTHERS_S = 30.0
_STATUS_S = 5.0
_END_S = 15.0

LINES = "import tbd_hook; tbd_hook.begin(unit=…); … tbd_hook.step(work=n)"


class Command(NamedTuple):
    """``words`` to carry out in ``folder`` with the whole ``environment``, on ``cores`` (none named: on all), and with
    no more memory than ``memory_bytes`` (None: no limit)."""

    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str]
    cores: Sequence[int] = ()
    memory_bytes: int | None = None


class OwnRank(Adopted):
    """A rank that the command, or something that it started, has become. What it prints is the command's."""

    def __init__(self, process: Mapping[str, Any], command: Child, events: Path, gang: OwnGang) -> None:
        Followed.__init__(self, process, events, _nothing(), _nothing())
        self._command = command
        self._gang = gang
        self.gone_at: float | None = None
        self._status: int | None = None

    def stderr_tail(self) -> str:
        return self._command.stderr_tail()

    def poll(self) -> int | None:
        """Return its exit status; None while it lives, and at the first look at one that has gone: it may have said
        something. Only what started it learns the status of another process than the command: 0 where it had finished,
        else that of the command, else 1."""
        status = self._command.poll()
        if self._status is not None or (processes.alive(self.id) if self.id else status is None):
            return self._status
        now = time.monotonic()
        if self.gone_at is None:
            self.gone_at = now
        elif self._gang.has_finished(self.name):
            self._status = 0
        elif status is not None:
            self._status = status or (0 if self.id is None or self.id.pid == self._command.pid else 1)
        elif now > self.gone_at + _STATUS_S:
            self._status = 1
        return self._status


class OwnGang(Gang):
    """The command and its ranks on this node."""

    several_nodes = False  # whether there are ranks on others

    def __init__(self, job: Mapping[str, Any], folder: Path, log: EventLog, around: Surroundings) -> None:
        super().__init__(job, [], folder, log, around.spawner, around.node)
        self._early: list[tuple[str, Output]] = []
        self._told: list[str] = []

    def begin(self, command: Command) -> Child:
        """Start ``command``.

        Raises:
            SetupError: it cannot be started.
        """
        (self._folder / hook.SETTINGS).write_text(json.dumps(self._settings()))
        path = self._folder / "path"
        path.mkdir()
        for name in ("sitecustomize.py", "tbd_hook.py"):
            (path / name).symlink_to(hook.__file__)
        own = {
            protocol.TOKEN_VARIABLE: self._job["token"],
            protocol.NODE_VARIABLE: self._node or "",
            hook.FOLDER_VARIABLE: str(self._folder),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(path), command.environment.get("PYTHONPATH")])),
        }
        try:
            popen = self._spawner.popen(
                command.words,
                cores=command.cores,
                memory_bytes=command.memory_bytes,
                cwd=str(command.folder),
                env={**command.environment, **own},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise SetupError(f"cannot start {command.words[0]} in {command.folder}: {error}") from error
        child = Child(self._job["processes"][0], popen, self._folder / "none")
        self._add(child)
        return child

    def _settings(self) -> dict[str, Any]:
        job = self._job
        asked = {name: job["script"].get(name) for name in ("work", "unit")}
        control = [job["control"]["host"], job["control"]["port"]]
        more = {"token": job["token"], "control": control, "max_steps": job["plan"]["max_steps"]}
        more["several_nodes"] = self.several_nodes
        more |= {"profile": job["plan"]["profile"], "tools": str(Path(workers.__file__).parents[1])}
        return {**asked, **more, "interval_s": job["interval_s"]}

    def drain(self) -> None:
        """Read what the command prints before there is a log to write it to."""
        for child in self.children:
            self._early += [(child.name, found) for stream in child.streams for found in [stream.read()] if found]

    def told(self) -> list[dict[str, Any]]:
        """Return what the ranks that have begun say of themselves, in their order."""
        found = []
        for file in self._folder.glob("rank-*.events.jsonl"):
            first, end, _ = file.read_bytes().partition(b"\n")
            if end:
                event = json.loads(first)
                found.append({**event["data"], "rank": event["rank"]})
        return sorted(found, key=lambda one: int(one["rank"]))

    def notes(self) -> list[dict[str, Any]]:
        """Return the words that processes have left beside their events."""
        try:
            return [json.loads(line) for line in (self._folder / "notes.jsonl").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def join(self, ranks: Sequence[Mapping[str, Any]], command: Child) -> None:
        """The log is open: write into it what was there before, and follow ``ranks`` from here on."""
        self._log_started(command)
        for name, output in self._early:
            self._log.append("output", process=name, **output._asdict())
        for process in ranks:
            events = self._folder / f"rank-{process['ranks'][0]}.events.jsonl"
            self._add(OwnRank(process, command, events, self))

    def _remember(self, name: str, events: list[dict[str, Any]]) -> None:
        super()._remember(name, events)
        self._told += [name for one in events if one["kind"] == "stopped" and one["data"]["reason"] != hook.BY_ITSELF]

    def has_finished(self, name: str) -> bool:
        return name in self._finished

    def were_told_to_end(self) -> bool:
        """Whether every rank has done all it had to do, and has ended because it was told to."""
        ranks = [child.name for child in self.children if child.process["ranks"]]
        return bool(ranks) and all(name in self._finished and name in self._told for name in ranks)


class OwnScript(Supervisor):
    """One run of ``command``; the rest is a supervisor's. None: a subclass has it when the job is complete."""

    def __init__(
        self, command: Command | None, job: Mapping[str, Any], folder: Path, log: EventLog, around: Surroundings
    ) -> None:
        super().__init__(job, folder, log, around)
        self._command = command
        self._gang: OwnGang = OwnGang(self._job, folder, log, around)
        self._opened: dict[str, Any] | None = None
        self._finished_at: float | None = None

    def _carry_out(self) -> None:
        problem = self._complete()
        self._opened = protocol.event("log_opened", self._opening())
        if problem is not None:
            self._open_log()
            raise problem
        assert self._command is not None
        try:
            command = self._gang.begin(self._command)
        except SetupError:
            self._open_log()
            raise
        self._oom_kills = processes.oom_kills()
        deadline = time.monotonic() + self._job["plan"]["timeout_s"]
        told = self._await(command, deadline)
        wrong = self._wrong(told) if told else None
        if told and wrong is None:
            self._job.update(self._joined(told))
        self._open_log()
        if wrong is not None:
            self._gang.join([], command)
            self._end(wrong, asked=False)
            return
        here = command.process["node"]
        self._mine = [one for one in self._job["processes"] if one["node"] == here and (told or not one["ranks"])]
        self._gang.join([one for one in self._mine if one["ranks"]], command)
        if not told:
            self._without_ranks(command, deadline)
            return
        self._sample()
        self._watch(deadline)

    def _joined(self, told: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What of the job is otherwise, now that its ranks have ``told`` who they are."""
        ranks = range(int(told[0]["world_size"]))
        return joined(self._job, [self._share(told, ranks)])

    def _share(self, told: Sequence[Mapping[str, Any]], ranks: Sequence[int]) -> Share:
        """What this node has of the training, with ``ranks``."""
        command, control = self._job["processes"][0], self._job["control"]
        devices = devices_of(told, len(ranks), self._around.inventory()["devices"])
        return Share(command["node"], command["name"], control["host"], control["port"], ranks, devices, told)

    def _wrong(self, told: Sequence[Mapping[str, Any]]) -> Failure | None:
        """Why what these ranks do would tell nothing."""
        return self._too_many(told, int(told[0]["world_size"]))

    def _too_many(self, told: Sequence[Mapping[str, Any]], here: int) -> Failure | None:
        """A failure where so many ranks on this node have not a core each."""
        cores = len(usable_cores())
        if told[0]["device"] == "cuda" or here <= cores:
            return None
        message = f"{here} ranks train on {cores} cores: each has to have one of its own. Begin fewer"
        return Failure("unsupported", [int(one["rank"]) for one in told], message=message)

    def _opening(self) -> dict[str, Any]:
        return {
            "protocol": protocol.PROTOCOL_VERSION,
            "attempt_id": self._job["attempt_id"],
            "run_id": self._job["run_id"],
            "node": self._node(),
            "job": {},
            "inventory": self._around.inventory(),
            "provenance": self._provenance(),
        }

    def _open_log(self) -> None:
        """Write how the log begins: of the moment before the command was started, with the job as it is known now."""
        assert self._opened is not None
        self._opened["data"]["job"] = {key: value for key, value in self._job.items() if key != "token"}
        self._log.extend([self._opened], "agent")

    def _await(self, command: Child, deadline: float) -> list[dict[str, Any]]:
        """Return what the ranks say of themselves, once all of them have begun; nothing where none will."""
        since: float | None = None
        while True:
            ended = command.poll() is not None
            told = self._gang.told()
            now = time.monotonic()
            since = since or (now if told else None)
            whole = self._is_whole(told)
            late = since is not None and now > since + _OTHERS_S
            if whole or late or ended or self._stop is not None or now > deadline:
                return told
            self._sleep(_LOOK_S)
            self._gang.drain()

    def _is_whole(self, told: Sequence[Mapping[str, Any]]) -> bool:
        """Whether all ranks have begun, if ``told`` is what those of this node say."""
        return bool(told) and len(told) >= int(told[0]["world_size"])

    def _without_ranks(self, command: Child, deadline: float) -> None:
        """Nothing has trained: say why, as far as that can be told."""
        if self._stop is not None:
            self._end(self._stopped(), asked=True)
            return
        status = command.poll()
        if status is None:
            late = f"it has not trained a step within timeout_s = {self._job['plan']['timeout_s']:g} s"
            self._end(Failure("timed_out", [0], message=f"{late}; {self._looked_for()}"), asked=False)
            return
        self._gang.exits()
        if status != 0:
            exit_code, number = (None, -status) if status < 0 else (status, None)
            tail = [line for line in command.stderr_tail().splitlines() if line.strip()][-1:]
            words = f"; its last words: {tail[0].strip()}" if tail else ""
            message = f"the command ended {_how(status)} before it trained a step{words}"
            self._failures.append(Failure("crashed", [0], exit_code, number, message))
            return
        self._failures.append(Failure("unsupported", [0], 0, None, f"it never trained a step: {self._looked_for()}"))

    def _looked_for(self) -> str:
        """What was looked for and not found, and what to do."""
        notes = self._gang.notes()
        problems = [str(one["problem"]) for one in notes if "problem" in one]
        if problems:
            return problems[0]
        versions = [one["torch"] for one in notes if "torch" in one]
        if versions:
            found = f"PyTorch {versions[0]} was imported, and no optimiser of torch.optim stepped"
        else:
            found = "no process imported PyTorch, or each hid from the hook (python -I, -E or -S, env -i)"
        return (
            f"{found}. Of anything else let the script say its steps: {LINES} (tbd exec --write-hook copies tbd_hook)"
        )

    def _take(self, event: Mapping[str, Any], ranks: Sequence[int]) -> None:
        super()._take(event, ranks)
        if event["kind"] == "error":
            data = event["data"]
            of_others = data.get("ranks") or ()
            failure = Failure(str(data["failure"]), of_others or ranks, message=str(data["message"]))
            self._failures.append(failure._replace(of_a_peer=bool(of_others)))

    def _listen(self) -> None:
        super()._listen()
        if self._gang.were_told_to_end():
            self._finished_at = self._finished_at or time.monotonic()
            if time.monotonic() > self._finished_at + _END_S:
                self._kill()

    def _note(self, exits: Sequence[Exit]) -> None:
        """How a process ends is a finding until all ranks were told to: then what was to be measured is there."""
        if not self._gang.were_told_to_end():
            super()._note(sorted(exits, key=_gone_at))


def _gone_at(ended: Exit) -> float:
    """When a rank was seen to have gone; what started it ends because of it, and comes last."""
    return getattr(ended.child, "gone_at", None) or float("inf")


def _how(status: int) -> str:
    return f"by signal {-status}" if status < 0 else f"with status {status}"


def _nothing() -> Any:
    return open(os.devnull, "rb", buffering=0)
