"""A node of the simulation: its disk, its processes, and an agent that keeps the contract of ``workers.node.agent``.

``tests/simulation/test_agent.py`` holds the simulated agent to the real one.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from workers.node.attempts import token_sha256
from workers.trainer import protocol

Json = dict[str, Any]

_RECORDED = Path(__file__).parents[1] / "replays" / "logs" / "good_sleep.jsonl"
EPOCH = 1_800_000_000.0  # when the time of the simulation begins
STEPS = 4  # of a simulated training: its log is the recorded one's, cut, so that its analysis takes little
END_S = (0.0, 3.0)  # how long processes take to obey
BEGIN_S = (0.05, 3.0)
NO_FAILURE: Json = {"ranks": [], "exit_code": None, "signal": None, "message": "", "stderr_tail": ""}


def _recorded() -> list[Json]:
    """The entries of a sound run of ``STEPS`` steps, but for ``log_opened`` and ``log_closed``."""
    entries = [json.loads(line) for line in _RECORDED.read_text().splitlines()]
    for entry in entries:
        if entry["kind"] == "stopped":
            entry["data"]["step"] = STEPS
    steps = {"interval": "first_step", "loss": "step"}
    kept = [one for one in entries if one["data"].get(steps.get(one["kind"], ""), 0) <= STEPS]
    return [one for one in kept if one["kind"] != "reading"]


OPENED, *BEGUN, _ = _recorded()
TRAINED = BEGUN[5:]  # what it writes from its first step on
del BEGUN[5:]


class Around(Protocol):
    """What a node stands in."""

    time: float

    def at(self, delay_s: float, call: Callable[[], None]) -> None:
        """Have ``call`` called so much later."""

    def between(self, least: float, most: float) -> float:
        """Something between, by the seed."""

    def began(self, node: str, attempt_id: str) -> None:
        """A training notes that it lives."""

    def ended(self, node: str, attempt_id: str) -> None:
        """It lives no longer."""

    def removed(self, node: str, attempt_id: str, entries: int) -> None:
        """A log of so many entries was deleted."""


@dataclass
class Folder:
    """What the disk has of an attempt: its log, or only the memory that it is over."""

    sha256: str | None
    ranks: tuple[int, ...] = ()
    entries: list[Json] = field(default_factory=list)
    acknowledged: int = 0
    over: str | None = None  # why, where the log is gone or never was
    closed_by: str = ""  # which agent

    @property
    def closed(self) -> bool:
        return bool(self.entries) and self.entries[-1]["kind"] == "log_closed"


class Node:
    """A host: what of it outlives its agent, and the ways in which either can fail."""

    def __init__(
        self, around: Around, name: str, inventory: Json, fence_s: float, train_s: Callable[[], float]
    ) -> None:
        self.around, self.name, self.inventory, self.fence_s, self.train_s = around, name, inventory, fence_s, train_s
        self.disk: dict[str, Folder] = {}
        self.processes: dict[str, int] = {}  # attempt -> which process of it
        self.offset_s = 0.0  # of its clock that tells the time
        self.boots = 0
        self.down = False
        self.hung = False
        self.waiting: list[Callable[[], None]] = []  # what a hung agent will do first
        self.agent: SimulatedAgent | None = None
        self._numbers = 0

    @property
    def wall(self) -> float:
        return EPOCH + self.around.time + self.offset_s

    def write(self, folder: Folder, kind: str, data: Json, recorded: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Append an entry to a log, stamped now; the rest of it as it was ``recorded``."""
        since_s = recorded["t"] - TRAINED[0]["t"] if recorded else 0.0
        stamped = {"seq": len(folder.entries) + 1, "t": self.around.time + since_s, "wall": self.wall + since_s}
        whole = {"source": "agent", "rank": None, **recorded, "kind": kind, "data": data, **stamped}
        folder.entries.append(whole if whole["rank"] is None else whole | {"rank": folder.ranks[0]})

    def later(self, agent: "SimulatedAgent", delay_s: float, call: Callable[[], None]) -> None:
        """Have ``agent`` do it then, if it lives; one that hangs does it when it goes on."""

        def do() -> None:
            if self.agent is not agent:
                return
            if self.hung:
                self.waiting.append(do)
            else:
                call()

        self.around.at(delay_s, do)

    def begin(self, attempt_id: str) -> int:
        self._numbers += 1
        self.processes[attempt_id] = self._numbers
        self.around.began(self.name, attempt_id)
        return self._numbers

    def end(self, attempt_id: str, process: int | None = None) -> bool:
        """End the process of an attempt; False where there is none, or it is another one by now."""
        if process is not None and self.processes.get(attempt_id) != process:
            return False
        if self.processes.pop(attempt_id, None) is None:
            return False
        self.around.ended(self.name, attempt_id)
        return True

    def kill_agent(self) -> None:
        self.agent, self.hung, self.waiting = None, False, []

    def hang(self) -> None:
        self.hung = self.agent is not None

    def go_on(self) -> None:
        self.hung, waiting, self.waiting = False, self.waiting, []
        for call in waiting:
            call()

    def power_off(self) -> None:
        self.kill_agent()
        self.down = True
        for attempt_id in list(self.processes):
            self.end(attempt_id)

    def power_on(self) -> None:
        self.down, self.boots = False, self.boots + 1

    def start_agent(self) -> None:
        if self.agent is None:
            self.agent = SimulatedAgent(self)


class SimulatedAgent:
    """Answers as ``workers.node.agent.Agent`` does."""

    def __init__(self, node: Node) -> None:
        self._node = node
        node.agent = self
        self.agent_id = f"{node.name}-{node.boots}-{node.around.time}"
        self._stopping: dict[str, str] = {}  # attempt -> the first reason
        self._contact = node.around.time
        for attempt_id, folder in node.disk.items():
            if folder.over is None:
                node.end(attempt_id)
                self._close(attempt_id, _failure("node_lost", "the agent of this node ended while the attempt ran"))
                self._drop_acknowledged(attempt_id)

    @property
    def running(self) -> bool:
        return any(folder.over is None and not folder.closed for folder in self._node.disk.values())

    def inventory(self) -> Json:
        self._touch()
        return self._node.inventory

    def heartbeat(self) -> Json:
        self._touch()
        return {"node": self._node.name, "agent_id": self.agent_id}

    def reserve(self, attempt_id: str) -> Json:
        self._touch()
        return {"control": 1, "framework": 2}

    def start(self, job: Json) -> Json:
        self._touch()
        try:
            protocol.check_job(job)
        except ValueError as error:
            found = job.get("attempt_id") if isinstance(job, dict) else None
            return _answer(found, "refused", str(error), "setup_failed")
        attempt_id, sha256 = job["attempt_id"], token_sha256(job["token"])
        folder = self._node.disk.get(attempt_id)
        if folder is None:
            self._begin(job, sha256)
            return _answer(attempt_id, "running")
        if folder.over is not None and folder.sha256 is None:
            why = f"it was stopped before it came: {folder.over}"
            return _answer(attempt_id, "refused", why, "setup_failed")
        if folder.sha256 == sha256:
            return _answer(attempt_id, self._state(folder))
        return _answer(attempt_id, "refused", "the attempt is known here with another token", "setup_failed")

    def _begin(self, job: Json, sha256: str) -> None:
        node, attempt_id = self._node, str(job["attempt_id"])
        ranks = tuple(rank for one in job["processes"] if one["node"] == node.name for rank in one["ranks"])
        folder = node.disk[attempt_id] = Folder(sha256, ranks)
        opened = {**OPENED["data"], "attempt_id": attempt_id, "run_id": job["run_id"], "node": node.name}
        node.write(folder, "log_opened", opened)
        node.later(self, node.around.between(*BEGIN_S), lambda: self._train(attempt_id, folder))
        node.later(self, node.fence_s, self._keep_fence)

    def _train(self, attempt_id: str, folder: Folder) -> None:
        if folder.closed or attempt_id in self._stopping:
            return
        node = self._node
        process, train_s = node.begin(attempt_id), node.train_s()
        for entry in BEGUN:
            node.write(folder, entry["kind"], entry["data"], entry)

        def end() -> None:
            if node.end(attempt_id, process) and node.agent is self:
                node.later(self, 0.1, lambda: self._finish(attempt_id, folder))

        node.around.at(train_s, end)

    def _finish(self, attempt_id: str, folder: Folder) -> None:
        if attempt_id not in self._stopping and not folder.closed:
            for entry in TRAINED:
                self._node.write(folder, entry["kind"], entry["data"], entry)
            self._close(attempt_id, None)

    def stop(self, attempt_id: str, reason: str, detail: str = "") -> Json:
        self._touch()
        if reason not in protocol.FAILURE_KINDS:
            raise ValueError(f"{reason!r} is no reason: it is one of {', '.join(protocol.FAILURE_KINDS)}")
        folder = self._node.disk.get(attempt_id)
        if folder is None:
            self._node.disk[attempt_id] = Folder(None, over=reason)
            return _answer(attempt_id, "ended")
        self._end(attempt_id, folder, reason, detail)
        return _answer(attempt_id, self._state(folder))

    def _end(self, attempt_id: str, folder: Folder, reason: str, detail: str = "") -> None:
        if folder.over is not None or folder.closed or attempt_id in self._stopping:
            return
        self._stopping[attempt_id] = reason

        def end() -> None:
            self._node.end(attempt_id)
            self._close(attempt_id, _failure(reason, detail))

        self._node.later(self, self._node.around.between(*END_S), end)

    def _close(self, attempt_id: str, failure: Json | None) -> None:
        folder = self._node.disk[attempt_id]
        if not folder.closed:
            data = {"entries": len(folder.entries) + 1, "failure": failure, "stray_processes": 0}
            self._node.write(folder, "log_closed", data)
            folder.closed_by = self.agent_id

    def status(self) -> Json:
        self._touch()
        attempts = [
            {
                "attempt_id": attempt_id,
                "token_sha256": folder.sha256,
                "state": self._state(folder),
                "last_seq": len(folder.entries),
                "acknowledged": folder.acknowledged,
                "ended_ago_s": self._closed_for_s(folder),
            }
            for attempt_id, folder in self._node.disk.items()
            if folder.over is None
        ]
        return {"node": self._node.name, "attempts": attempts, "fence_s": self._node.fence_s, "disk_free_bytes": None}

    def _closed_for_s(self, folder: Folder) -> float | None:
        if not folder.closed:
            return None
        last, node = folder.entries[-1], self._node
        return node.around.time - last["t"] if folder.closed_by == self.agent_id else max(0.0, node.wall - last["wall"])

    def fetch(self, attempt_id: str, after: int = 0, limit: int = 1000) -> Json:
        self._touch()
        folder = self._node.disk.get(attempt_id)
        if folder is None or folder.over is not None:
            return {"entries": [], "last_seq": 0, "ended": True, "known": False}
        entries = folder.entries[after : after + limit]
        return {"entries": entries, "last_seq": len(folder.entries), "ended": folder.closed, "known": True}

    def acknowledge(self, attempt_id: str, seq: int) -> Json:
        self._touch()
        folder = self._node.disk.get(attempt_id)
        if folder is None or folder.over is not None:
            return {"attempt_id": attempt_id, "acknowledged": seq, "deleted": True}
        folder.acknowledged = max(folder.acknowledged, min(seq, len(folder.entries)))
        acknowledged = folder.acknowledged
        return {
            "attempt_id": attempt_id,
            "acknowledged": acknowledged,
            "deleted": self._drop_acknowledged(attempt_id),
        }

    def _drop_acknowledged(self, attempt_id: str) -> bool:
        folder = self._node.disk[attempt_id]
        if not folder.closed or folder.acknowledged < len(folder.entries):
            return False
        self._node.around.removed(self._node.name, attempt_id, len(folder.entries))
        self._node.disk[attempt_id] = Folder(folder.sha256, over="acknowledged")
        return True

    def _keep_fence(self) -> None:
        if not self.running:
            return
        left_s = self._contact + self._node.fence_s - self._node.around.time
        if left_s > 0:
            self._node.later(self, left_s + 0.1, self._keep_fence)
            return
        for attempt_id, folder in self._node.disk.items():
            self._end(attempt_id, folder, "node_lost", f"fence: out of contact for more than {self._node.fence_s:g} s")

    def _touch(self) -> None:
        self._contact = self._node.around.time

    def _state(self, folder: Folder) -> str:
        return "ended" if folder.over is not None or folder.closed else "running"


def _failure(kind: str, message: str) -> Json:
    return {**NO_FAILURE, "kind": kind, "message": message}


def _answer(attempt_id: Any, state: str, reason: str | None = None, failure: str | None = None) -> Mapping[str, Any]:
    return {"attempt_id": attempt_id, "state": state, "reason": reason, "failure": failure}
