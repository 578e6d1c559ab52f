"""The agent of a node: long-lived, it starts attempts, keeps their logs and answers questions about them.

Every method takes and returns what JSON can hold and answers at once; only ``wait`` may take as long as it was told to.
Whoever serves it (a Unix socket for the local cluster, an actor for Ray) only passes calls on. Any call counts as
contact: without contact for ``fence_s`` the agent ends its processes itself, so that whoever cannot reach it may, after
that long and a margin, take them for dead.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple

from workers.node import background, checkpoints, host_facts, interpreters, port_choice, processes, space
from workers.node.attempts import Attempts, token_sha256
from workers.node.children import Spawner
from workers.node.code_version import code_version
from workers.node.event_log import EventLog, boottime
from workers.node.inventory import Inventory, boot_id
from workers.node.outcome import Failure
from workers.node.own.project import OWN_COMMAND, Project
from workers.node.provenance import Provenance
from workers.node.supervisor import Supervisor, Surroundings
from workers.node.telemetry.nvml import Nvml
from workers.trainer import protocol
from workers.trainer.base.failure import lacks_space

DEFAULT_FENCE_S = 60.0

_FENCE_CHECK_S = 0.5
_CLOSE_PATIENCE_S = 15.0
LONGEST_WAIT_S = 30.0

Json = Dict[str, Any]


class SupersededError(RuntimeError):
    """A server calls whose term is over: another one leads."""


class KnownAttempt(NamedTuple):
    """An attempt whose log is still here. ``supervisor`` is None for one that a former agent left."""

    id: str
    token_sha256: str
    log: EventLog
    supervisor: Supervisor | None
    thread: threading.Thread | None


def fence_from_environment() -> float:
    """Return the setting ``TBD_FENCE_S`` in seconds.

    Raises:
        ValueError: it is not a positive number.
    """
    value = float(os.environ.get("TBD_FENCE_S") or DEFAULT_FENCE_S)
    if not value > 0:
        raise ValueError(f"TBD_FENCE_S={value:g}: it has to be positive")
    return value


class Agent:
    """The agent of this node over ``directory``. A new one ends what a former agent of the directory left running.

    Args:
        directory: where the attempts are kept; made where missing.
        node: the node's name in jobs; the host's name where None.
        fence_s: seconds without contact after which running attempts are ended; None for the setting ``TBD_FENCE_S``.
        nvml: for tests, what stands for NVML.

    Raises:
        DirectoryInUseError: another agent owns the directory.
        ValueError: a setting is wrong.
    """

    def __init__(
        self, directory: Any, node: str | None = None, fence_s: float | None = None, nvml: Nvml | None = None
    ) -> None:
        self.agent_id = uuid.uuid4().hex
        self._code = code_version()  # of this process, whatever is installed beside it later
        self._fence_s = fence_from_environment() if fence_s is None else fence_s
        self._attempts = Attempts(Path(directory))
        self._nvml = nvml or Nvml()
        self._inventory = Inventory(node, self._attempts.directory, self._nvml)
        facts = self._inventory.read()
        self.node: str = facts["node"]
        self._housekeeping = facts["housekeeping_cores"]
        self._boot_id = boot_id()
        self._lock = threading.RLock()
        self._changed = threading.Condition()
        self._known: dict[str, KnownAttempt] = {}
        self._leaving: set[str] = set()  # attempts whose files are being removed
        self._ports = port_choice.Ports()
        self._spawner = Spawner()
        folder, read = self._attempts.directory, Provenance().read
        self._around = Surroundings(
            self.node, folder, self._spawner, self._inventory.read, read, self._nvml, self._is_known
        )
        self._closing = threading.Event()
        self._contact = boottime()
        self._term: int | None = None  # the highest of which this agent has heard
        self._sweep()
        checkpoints.tidy(self._attempts.directory / checkpoints.NAME)
        self._guard = threading.Thread(target=self._keep_fence, name="tbd-fence", daemon=True)
        self._guard.start()

    def heed(self, term: int | None) -> None:
        """Note the term of the server that calls, before its call; None: it is one of a database without terms.

        Raises:
            SupersededError: another server has called in a later one. The call is no contact.
        """
        with self._lock:
            if term is not None and self._term is not None and term < self._term:
                raise SupersededError(
                    f"a server called in term {term}, and another one leads in term {self._term}; if that was of "
                    "another database, start the node of this agent anew"
                )
            self._term = term if term is not None else self._term

    def step_back(self) -> None:
        """Take the calling thread out of the way of what is measured; those that answer calls do it."""
        background.step_back(self._housekeeping, "tbd-agent")

    def _sweep(self) -> None:
        """End what a former agent left, and close the logs it could not close."""
        for job in self._attempts.left():
            log = EventLog(self._attempts.folder(job["attempt_id"]) / "log.jsonl", self._notify)
            stray = processes.with_token(job["token"], self.node)
            processes.end_all(job["token"], node=self.node)
            ranks = [rank for item in job["processes"] if item["node"] == self.node for rank in item["ranks"]]
            message = f"the agent of this node ended while the attempt ran; {len(stray)} processes of it were found"
            log.close(Failure("node_lost", ranks, message=message).as_json())
            attempt = KnownAttempt(job["attempt_id"], token_sha256(job["token"]), log, None, None)
            self._known[attempt.id] = attempt
            if attempt.log.deletable:
                self._drop(attempt)

    def inventory(self) -> Json:
        """Return the facts of this node; see ``workers.node.inventory``."""
        self._touch()
        if not self.running:
            self._inventory.look()
        return self._inventory.read()

    def reserve(self, attempt_id: str) -> Json:
        """Return the ports on which processes of the attempt on this node can be reached: {"control", "framework"}.

        The same attempt gets the same ports, however often it asks.

        Raises:
            OSError: there are none left.
        """
        self._touch()
        with self._lock:
            return self._ports.of(attempt_id)

    def start(self, job: Json) -> Json:
        """Start an attempt: ``{"attempt_id", "state": "running" | "ended" | "refused", "reason", "failure"}``.

        Repeating it changes nothing and answers the present state. Refused, with the reason, are a job of another
        protocol, another token for a known attempt, an attempt that was stopped before it came, and one that the disk
        has no room for. ``failure`` is the failure kind of a refusal.
        """
        self._touch()
        try:
            protocol.check_job(job)
            with self._lock:
                return self._start(job)
        except (ValueError, OSError) as error:
            attempt_id = job.get("attempt_id") if isinstance(job, dict) else None
            if lacks_space(error):
                return _answer(attempt_id, "refused", self._no_space(error), "no_space")
            return _answer(attempt_id, "refused", str(error), "setup_failed")

    def _no_space(self, error: Exception) -> str:
        return space.words(self.node, self._attempts.directory, error)

    def _start(self, job: Json) -> Json:
        attempt_id, sha256 = job["attempt_id"], token_sha256(job["token"])
        over = self._attempts.ended(attempt_id)
        known = self._known.get(attempt_id)
        if over is not None:
            if over["token_sha256"] is None:
                return _answer(
                    attempt_id, "refused", "it was stopped before it came: {}".format(over["reason"]), "setup_failed"
                )
            if over["token_sha256"] == sha256:
                return _answer(attempt_id, "ended")
        elif known is None:
            self._begin(job, sha256)
            return _answer(attempt_id, "running")
        elif known.token_sha256 == sha256:
            return _answer(attempt_id, _state(known))
        return _answer(attempt_id, "refused", "the attempt is known here with another token", "setup_failed")

    def _begin(self, job: Json, sha256: str) -> None:
        if self._closing.is_set():
            raise ValueError("the agent is closing")
        job = checkpoints.given(job, self._attempts.directory)
        folder = self._attempts.begin(job)
        log = EventLog(folder / "log.jsonl", self._notify)
        own = (job.get("strategy") or {}).get("launcher") == OWN_COMMAND
        supervisor = (Project if own else Supervisor)(job, folder, log, self._around)
        thread = threading.Thread(target=supervisor.run, name="tbd-attempt-" + job["attempt_id"], daemon=True)
        self._known[job["attempt_id"]] = KnownAttempt(job["attempt_id"], sha256, log, supervisor, thread)
        thread.start()

    def stop(self, attempt_id: str, reason: str, detail: str = "") -> Json:
        """Ask for the end of an attempt and return its state; that it has ended is told by its log.

        ``reason`` (one of ``FAILURE_KINDS``) becomes its failure. Repeating it changes nothing. An attempt unknown here
        is remembered, so that a start that comes late is refused.

        Raises:
            ValueError: the reason is no failure kind, or the id none.
        """
        self._touch()
        if reason not in protocol.FAILURE_KINDS:
            raise ValueError("{!r} is no reason: it is one of {}".format(reason, ", ".join(protocol.FAILURE_KINDS)))
        with self._lock:
            known = self._known.get(attempt_id)
            if known is None:
                if self._attempts.ended(attempt_id) is None:
                    self._attempts.forget(attempt_id, None, reason=reason)
                return _answer(attempt_id, "ended")
            if known.supervisor is not None:
                known.supervisor.stop(reason, detail)
            return _answer(attempt_id, _state(known))

    def status(self) -> Json:
        """Return who this agent is, its fence, the room on the disk of the attempts, and the state of every attempt
        whose log is here."""
        self._touch()
        room = {"fence_s": self._fence_s, "disk_free_bytes": space.free_bytes(self._attempts.directory)}
        with self._lock:
            attempts = [
                {
                    "attempt_id": attempt.id,
                    "token_sha256": attempt.token_sha256,
                    "state": _state(attempt),
                    "last_seq": attempt.log.last_seq,
                    "acknowledged": attempt.log.acknowledged,
                    "ended_ago_s": attempt.log.closed_for_s(),
                }
                for attempt in self._known.values()
            ]
        return {"node": self.node, "agent_id": self.agent_id, "boot_id": self._boot_id, "attempts": attempts, **room}

    def fetch(self, attempt_id: str, after: int = 0, limit: int = 1000) -> Json:
        """Return ``{"entries", "last_seq", "ended", "known"}``: at most ``limit`` entries of a log after ``after``.

        ``ended`` says that the log is closed; the last entry is then ``log_closed``. Of an attempt that is not known
        (any more) there are no entries, ``last_seq`` is 0 and ``known`` is false.
        """
        self._touch()
        with self._lock:
            known = self._known.get(attempt_id)
        if known is None:
            return {"entries": [], "last_seq": 0, "ended": True, "known": False}
        entries, last_seq, ended = known.log.view(after, limit)
        return {"entries": entries, "last_seq": last_seq, "ended": ended, "known": True}

    def wait(self, after_by_attempt: Mapping[str, int], timeout_s: float) -> Json:
        """Return when a named attempt has entries beyond the number given or has ended, or after ``timeout_s``.

        The answer names those that have: ``{"attempts": {attempt_id: {"last_seq", "ended"}}}``. An attempt that is not
        known here is named at once, with ``last_seq`` 0 and ``ended`` true.
        """
        self._touch()
        deadline = time.monotonic() + min(timeout_s, LONGEST_WAIT_S)
        with self._changed:
            while True:
                news = self._news(after_by_attempt)
                left = deadline - time.monotonic()
                if news or left <= 0 or self._closing.is_set():
                    break
                self._changed.wait(left)
        self._touch()
        return {"attempts": news}

    def _news(self, after_by_attempt: Mapping[str, int]) -> Json:
        news = {}
        for attempt_id, after in after_by_attempt.items():
            known = self._known.get(attempt_id)
            if known is None:
                news[attempt_id] = {"last_seq": 0, "ended": True}
                continue
            last_seq, ended = known.log.state()
            if last_seq > after or ended:
                news[attempt_id] = {"last_seq": last_seq, "ended": ended}
        return news

    def acknowledge(self, attempt_id: str, seq: int) -> Json:
        """Note that entries up to ``seq`` are stored elsewhere. A closed log acknowledged to its end is deleted.

        Its files are removed apart from the lock: where their file system hangs, this call does, and no other."""
        self._touch()
        with self._lock:
            known = self._known.get(attempt_id)
            if known is None:
                return {"attempt_id": attempt_id, "acknowledged": seq, "deleted": True}
            acknowledged = known.log.acknowledge(seq)
            deleted = known.log.deletable and attempt_id not in self._leaving
            if deleted:
                self._leaving.add(attempt_id)
        if deleted:
            try:
                self._drop(known)
            finally:
                self._leaving.discard(attempt_id)
        return {"attempt_id": attempt_id, "acknowledged": acknowledged, "deleted": deleted}

    def _drop(self, attempt: KnownAttempt) -> None:
        if attempt.thread is not None:
            attempt.thread.join()  # it has closed the log and has only its files left to remove
        last = attempt.log.view(attempt.log.last_seq - 1, 1)[0]
        if last:  # of a log whose entries are gone nobody knows how it ended
            checkpoints.settle(self._attempts.job(attempt.id), last[-1]["data"].get("failure"), self.node)
        self._attempts.forget(attempt.id, attempt.token_sha256, last_seq=attempt.log.last_seq)
        with self._lock:
            attempt.log.release()
            self._known.pop(attempt.id, None)

    def heartbeat(self) -> Json:
        """Return who this is, of which version (``code_version``), and both clocks; its purpose is the contact."""
        self._touch()
        clocks = {"t": time.monotonic(), "wall": time.time()}
        return {"node": self.node, "agent_id": self.agent_id, "boot_id": self._boot_id, "tbd": self._code, **clocks}

    def interpreters(self) -> list[Json]:
        """Return every interpreter defined here, ready or not; see ``workers.node.interpreters.describe``."""
        self._touch()
        return interpreters.describe()

    def checks(self) -> Json:
        """Return what ``tbd doctor`` wants to know of this node: facts of ``gpus`` and of the ``machine``; see
        ``workers.node.host_facts``."""
        self._touch()
        gpus = host_facts.of_gpus(self._nvml, self._inventory.offer, self.running)
        return {"gpus": gpus, "machine": host_facts.of_machine()}

    def close(self) -> None:
        """End all attempts (``node_lost``) and let the directory go. The logs stay."""
        self._closing.set()
        self._stop_all("the agent of this node was closed")
        with self._changed:
            self._changed.notify_all()
        deadline = time.monotonic() + _CLOSE_PATIENCE_S
        for attempt in list(self._known.values()):
            if attempt.thread is not None:
                attempt.thread.join(max(0.0, deadline - time.monotonic()))
        self._guard.join()
        self._spawner.close()
        self._nvml.close()
        self._attempts.release()

    @property
    def out_of_contact_s(self) -> float:
        """Seconds since the last call."""
        return boottime() - self._contact

    @property
    def running(self) -> bool:
        """Whether an attempt has not ended yet."""
        return any(not attempt.log.closed for attempt in list(self._known.values()))

    def _is_known(self, token: str) -> bool:
        return any(attempt.token_sha256 == token_sha256(token) for attempt in list(self._known.values()))

    def _keep_fence(self) -> None:
        background.step_back(self._housekeeping, "tbd-fence")
        while not self._closing.wait(min(_FENCE_CHECK_S, self._fence_s / 4)):
            if self.out_of_contact_s > self._fence_s and self.running:
                self._stop_all(f"fence: the agent was out of contact for more than {self._fence_s:g} s")

    def _stop_all(self, detail: str) -> None:
        for attempt in list(self._known.values()):
            if attempt.supervisor is not None:
                attempt.supervisor.stop("node_lost", detail)

    def _touch(self) -> None:
        self._contact = boottime()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()


def _state(attempt: KnownAttempt) -> str:
    return "ended" if attempt.log.closed else "running"


def _answer(attempt_id: str | None, state: str, reason: str | None = None, failure: str | None = None) -> Json:
    return {"attempt_id": attempt_id, "state": state, "reason": reason, "failure": failure}
