"""Carries out one attempt on this node: from the job to ``log_closed``.

Owns the order of things (complete the job, open the log, prepare, start, watch, end, close) and every reason to end
before the processes do. A failed attempt is a result that stands in the log; ``run`` never raises.

Where the plan asks for profiles that need processes of their own (operations counted in hardware, allocations from the
first one on), further sets of processes make them when the first has ended well. What goes wrong there costs the
profile, and not what was measured before.
"""

from __future__ import annotations

import time
import traceback
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from workers.node import background, children, outcome, prepare, processes, space, speed_settings, suites
from workers.node.children import Spawner
from workers.node.event_log import EventLog, LogError
from workers.node.gang import Exit, Gang, Member
from workers.node.length import Length
from workers.node.outcome import Failure
from workers.node.standstill import Standstill
from workers.node.telemetry import counting, ncu
from workers.node.telemetry.sampler import Sampler
from workers.node.waking import Waking
from workers.trainer import protocol
from workers.trainer.base.failure import lacks_space

# How often the processes are listened to: often while they start, where seconds count for a person; seldom while the
# loop is timed, where a wake-up takes time from what is measured. Then it is a tenth of the time that the phase has
# lasted, within these limits: so a decision to stop comes at most a tenth too late. That a process has ended, or that
# somebody wants it to, is noticed at once.
_EAGER_S = 0.01
_CALM_S = (0.1, 1.0)

# Judgements. How long the other ranks may still report after one has gone; how long processes have to obey SIGTERM;
# how long a server or scheduler may outlive the last worker.
GANG_GRACE_S = 2.0
TERMINATE_GRACE_S = 1.0
IDLE_ROLES_GRACE_S = 5.0

# Judgement: longest time of the memory phase, which builds the model and does a few steps with every allocation
# followed. It needs a limit of its own: a rank that fails on another node may never report.
MEMORY_PHASE_LIMIT_S = 900.0


class Surroundings(NamedTuple):
    """What a supervisor needs of the node: shared by all its attempts.

    ``node`` is this node's name in jobs, None to carry out all processes of any job here. ``folder`` is a folder to
    put the children's PYTHONPATH into. ``inventory`` and ``provenance`` return what ``log_opened`` holds. ``is_known``
    says of a token whether an attempt on this node has it.
    """

    node: str | None
    folder: Path
    spawner: Spawner
    inventory: Callable[[], dict[str, Any]]
    provenance: Callable[[], dict[str, Any]]
    nvml: Any
    is_known: Callable[[str], bool] = lambda token: False


class Stop(NamedTuple):
    """A wish to end the attempt: ``reason`` is one of ``protocol.FAILURE_KINDS``."""

    reason: str
    detail: str


class Supervisor:
    """One attempt on one node.

    Args:
        job: a job that follows the protocol.
        folder: the attempt's own folder; must exist.
        log: its log, new.
    """

    def __init__(self, job: Mapping[str, Any], folder: Path, log: EventLog, around: Surroundings) -> None:
        self._job: dict[str, Any] = dict(job)
        self._folder = folder
        self._log = log
        self._around = around
        self._mine = [item for item in job["processes"] if around.node is None or item["node"] == around.node]
        self._leads = any(0 in process["ranks"] for process in self._mine)
        self._gang = Gang(self._job, self._mine, folder, log, around.spawner, around.node)
        self._ended_gangs: list[Gang] = []
        self._sampler: Sampler | None = None
        self._waking = Waking()
        self._stop: Stop | None = None
        self._failures: list[Failure] = []
        self._length = Length(self._job, self._leads)
        self._standstill = Standstill(job["plan"])
        self._oom_kills = 0

    def stop(self, reason: str, detail: str = "") -> None:
        """Ask for the attempt to end; returns at once. The first reason given is the one that counts."""
        if self._stop is None:
            self._stop = Stop(reason, detail)
            self._waking.wake()

    def run(self) -> Failure | None:
        """Carry the attempt out and close its log; return the failure, None when it ended well.

        The calling thread steps back for good; the children, which come from the spawner's, do not.
        """
        background.step_back(self._around.inventory()["housekeeping_cores"], "tbd-attempt")
        try:
            return self._run()
        finally:
            self._waking.close()

    def _run(self) -> Failure | None:
        try:
            self._carry_out()
        except prepare.SetupStoppedError:
            self._failures.append(self._stopped())
        except prepare.NoSpaceError as error:
            message = space.words(self._node(), error.folder, error, "datasets")
            self._failures.append(Failure("no_space", self._ranks(), message=message))
        except prepare.SetupError as error:
            self._failures.append(self._trouble("setup_failed", error, str(error)))
        except LogError as error:
            self._failures = [self._trouble("crashed", error, str(error))]
        except Exception as error:
            where = traceback.format_exc(limit=-3)
            self._failures.append(self._trouble("crashed", error, f"in the agent: {error}\n{where}"))
        return self._close()

    def _carry_out(self) -> None:
        problem = self._complete()
        self._open_log()
        if problem is not None:
            raise problem
        path = prepare.module_folder(self._around.folder)
        prepare.dataset_files(self._job, path, self._around.spawner, lambda: self._stop is not None)
        identity = prepare.dataset_identity(self._job)
        if identity is not None:
            self._log.append("dataset", **identity)
        self._oom_kills = processes.oom_kills()
        self._gang.start(path, self._cores(), self._gpus(), self._near_cores())
        self._sample()
        deadline = time.monotonic() + self._job["plan"]["timeout_s"]
        self._watch(deadline)
        counter = counting.tool(self._job)
        if counter is not None and self._well():
            self._count(counter, path, min(deadline, time.monotonic() + counting.LIMIT_S))
        if "memory" in (self._job["plan"].get("profile") or ()) and self._well():
            failure = self._apart("memory", path, min(deadline, time.monotonic() + MEMORY_PHASE_LIMIT_S))
            self._without("memory", failure)

    def _well(self) -> bool:
        return not self._failures and self._stop is None

    def _count(self, counter: str, path: Path, deadline: float) -> None:
        """Have a fresh process do one step while ``counter`` (ncu) watches it."""
        folder = self._folder / counting.PHASE
        failure = self._apart(counting.PHASE, path, deadline, counting.command(counter, folder))
        try:
            for data in counting.events(folder) if failure is None and self._well() else ():
                self._log.append("counters", **data)
        except ncu.NcuError as error:
            failure = Failure("unsupported", self._ranks(), message=str(error))
        if failure is not None:
            trouble = ncu.trouble(counting.said(folder))
            if trouble and trouble not in failure.message:
                failure = failure._replace(message=f"{failure.message}; ncu: {trouble}")
        self._without(counting.PHASE, failure)

    def _apart(self, phase: str, path: Path, deadline: float, prefix: Sequence[str] = ()) -> Failure | None:
        """Have fresh processes make the profile ``phase``; return what went wrong with it alone."""
        self._kill()  # servers and schedulers may outlive the workers
        folder = self._folder / phase
        folder.mkdir()
        self._ended_gangs.append(self._gang)
        around = self._around
        self._gang = Gang(self._job, self._mine, folder, self._log, around.spawner, around.node, phase, prefix)
        self._length.begin_anew()
        try:
            self._gang.start(path, self._cores(), self._gpus(), self._near_cores())
            self._adopt(self._gang.children)
            self._watch(deadline)
        except prepare.SetupError as error:
            self._failures.append(self._trouble("setup_failed", error, str(error)))
        if self._stop is not None:
            self._failures = [self._stopped()]
            return None
        failure = outcome.cause(self._failures)
        if failure is not None:
            self._kill()
        self._failures = []
        return failure

    def _without(self, profile: str, failure: Failure | None) -> None:
        """Say why there is no ``profile``, if there is none."""
        if failure is not None:
            self._log.append("profile_failed", profile=profile, failure=failure.as_json())

    def _complete(self) -> prepare.SetupError | None:
        try:
            if not self._mine:
                raise prepare.SetupError(f"the job has no process on node {self._around.node}")
            self._job.update(prepare.complete(self._job, self._leads, self._near_cores(), self._folder))
        except prepare.SetupError as error:
            return error
        return None

    def _open_log(self) -> None:
        self._log.append(
            "log_opened",
            protocol=protocol.PROTOCOL_VERSION,
            attempt_id=self._job["attempt_id"],
            run_id=self._job["run_id"],
            node=self._around.node or self._around.inventory()["node"],
            job={key: value for key, value in self._job.items() if key != "token"},
            inventory=self._around.inventory(),
            provenance=self._provenance(),
        )

    def _provenance(self) -> dict[str, Any]:
        """That of the agent, with what the job fixes of it, and the code of a model from outside the tree."""
        found = dict(self._around.provenance())
        if self._job["interpreter"].get("variables"):
            found["process"] = speed_settings.of_process(children.environment(children.inherited(self._job), {}))
        code = suites.code_of(self._job)
        return {**found, **({} if code is None else {"suite": code})}

    def _sample(self) -> None:
        self._sampler = Sampler(
            self._log,
            period_s=self._job["sample_s"],
            token=self._job["token"],
            attempt={child.name: child.id for child in self._gang.children if child.id is not None},
            devices=[device for process in self._mine for device in process["devices"]],
            nvml=self._around.nvml,
            node=self._around.node,
            is_neighbours=self._around.is_known if self._job["plan"].get("exclusive") == "device" else None,
        )
        self._sampler.start()

    def _watch(self, deadline: float) -> None:
        """Listen until every process has ended or a reason to end them has come, such as ``deadline``."""
        workers_gone_at: float | None = None
        while self._gang.living():
            self._sleep(self._pace_s(time.monotonic()))
            self._listen()
            self._note(self._gang.exits())
            now = time.monotonic()
            if self._stop is not None and self._gang.living():
                self._end(self._stopped(), asked=True)
            elif self._failures:
                self._hear_the_others()
            elif now > deadline and self._gang.living():
                self._end(self._late(), asked=False)
            elif not any(child.process["role"] == "worker" for child in self._gang.living()):
                workers_gone_at = workers_gone_at or now
                if now > workers_gone_at + IDLE_ROLES_GRACE_S:
                    return
            self._length.decide(self._log, now, reachable=bool(self._gang.living()))

    def _pace_s(self, now: float) -> float:
        """Seconds until the processes are listened to again."""
        timing_since = self._length.timing_since
        if timing_since is None:
            return _EAGER_S
        least, most = _CALM_S
        return min(most, max(least, (now - timing_since) / 10))

    def _sleep(self, longest_s: float) -> None:
        self._waking.sleep(longest_s, [child.id for child in self._gang.living() if child.id is not None])

    def _listen(self) -> None:
        for heard in self._gang.hear():
            if heard.garbage:
                self._failures.append(self._invalid(heard.child.process["ranks"], f"{heard.garbage} lines"))
            for event in heard.events:
                self._take(event, heard.child.process["ranks"])
                self._standstill.heard(heard.child.id)
        self._failures += self._standstill.find(self._gang.living(), time.monotonic())
        self._adopt(self._gang.met())
        if self._sampler is not None and self._sampler.error is not None:
            raise self._sampler.error

    def _adopt(self, children: Iterable[Member]) -> None:
        for child in children:
            if self._sampler is not None and child.id is not None:
                self._sampler.adopt(child.name, child.id)

    def _take(self, event: Mapping[str, Any], ranks: Sequence[int]) -> None:
        if event["kind"] == "interval" and event["data"]["phase"] == "timed":
            self._length.begun()
            if 0 not in ranks:
                return
            try:
                self._length.add(event["data"])
            except (ValueError, TypeError, KeyError) as error:
                self._failures.append(self._invalid(ranks, f"an interval that cannot be: {error}"))

    def _note(self, exits: Sequence[Exit]) -> None:
        limit, memory_short = self._job["plan"].get("memory_limit_bytes"), processes.oom_kills() > self._oom_kills
        for ended in exits:
            own = ended.child.process["ranks"]
            ranks = (ended.error or {}).get("ranks") or own
            tail = ended.child.stderr_tail()
            failure = outcome.of_exit(ranks, ended.status, ended.error, ended.finished, tail, memory_short, limit)
            if failure is None and ended.torn:
                failure = self._invalid(ranks, "the last line is torn")
            if failure is not None and failure.kind == "no_space":
                failure = failure._replace(message=self._no_space(failure.message))
            if failure is not None and not own:
                failure = failure._replace(message=f"{ended.child.name}: {failure.message}")
            if failure is not None:
                aftermath = ended.error is None and (ended.child.told or ended.child.process["role"] == "launcher")
                of_a_peer = bool(own) and not set(own) & set(ranks)
                of_an_actor = ended.child.process["role"] == "actor"
                told = {"of_a_peer": of_a_peer, "aftermath": aftermath, "of_an_actor": of_an_actor}
                self._failures.append(failure._replace(**told))

    def _hear_the_others(self) -> None:
        """One process has gone wrong: let the others say what they know, then go on to end them."""
        deadline = time.monotonic() + GANG_GRACE_S
        while self._gang.living() and time.monotonic() < deadline and self._stop is None:
            self._sleep(_EAGER_S)
            self._listen()
            self._note(self._gang.exits())
        self._kill()

    def _end(self, failure: Failure, asked: bool) -> None:
        """End the processes for a reason of the agent's own; how they end then is no finding."""
        self._failures.insert(0, failure)
        if asked and self._stop is not None:
            self._log.append("stop_requested", reason=self._stop.reason, detail=self._stop.detail)
        self._gang.terminate()
        deadline = time.monotonic() + TERMINATE_GRACE_S
        while self._gang.living() and time.monotonic() < deadline:
            time.sleep(_EAGER_S)
            self._listen()
            self._gang.exits()
        self._kill()
        self._failures = [failure]

    def _kill(self) -> None:
        self._gang.kill()
        self._gang.exits()

    def _close(self) -> Failure | None:
        stray = 0
        try:
            stray = len(processes.with_token(self._job["token"], self._around.node))
            undead = self._gang.kill()
            if self._sampler is not None:
                self._sampler.stop()
            failure = outcome.cause(self._failures)
            try:
                self._gang.exits()
            except LogError as error:
                failure = failure or self._trouble("crashed", error, str(error))
            if undead:
                pids = ", ".join(str(process.pid) for process in undead)
                so_far = failure.message if failure else ""
                message = f"{so_far}; the kernel would not end the processes {pids}"
                failure = (failure or Failure("crashed", self._ranks()))._replace(message=message)
        except Exception as error:
            failure = self._trouble("crashed", error, f"in the agent: {error}")
        self._log.close(failure.as_json() if failure else None, self._gang.unreported(), stray_processes=stray)
        for gang in (*self._ended_gangs, self._gang):
            gang.clean()
        return failure

    def _cores(self) -> list[int]:
        """The logical cores for what has none of its own: all but those that are tbd's."""
        inventory = self._around.inventory()
        return [core for core in inventory["cores"] if core not in inventory["housekeeping_cores"]]

    def _near_cores(self) -> dict[str, list[int]]:
        """GPU -> the logical cores that are its own where the node is shared."""
        devices = self._around.inventory()["devices"]
        return {device["id"]: device["near_cores"] for device in devices if device.get("near_cores")}

    def _gpus(self) -> int:
        """How many GPUs this node has, those among them that cannot be had now."""
        inventory = self._around.inventory()
        return sum(device["kind"] == "cuda" for device in inventory["devices"]) + len(inventory["gpus_withheld"])

    def _ranks(self) -> list[int]:
        return [rank for process in self._mine for rank in process["ranks"]]

    def _trouble(self, kind: str, error: BaseException, message: str) -> Failure:
        """A failure of the agent's own: ``kind``, unless ``error`` came of a full disk."""
        if lacks_space(error):
            return Failure("no_space", self._ranks(), message=self._no_space(message))
        return Failure(kind, self._ranks(), message=message)

    def _no_space(self, message: str) -> str:
        return space.words(self._node(), self._around.folder, message)

    def _node(self) -> str:
        return str(self._around.node or self._around.inventory()["node"])

    def _stopped(self) -> Failure:
        assert self._stop is not None
        return Failure(self._stop.reason, self._ranks(), message=self._stop.detail or "stopped on request")

    def _late(self) -> Failure:
        hanging = [rank for child in self._gang.living() for rank in child.process["ranks"]]
        return outcome.late(hanging, self._job["plan"]["timeout_s"], of_profile=bool(self._ended_gangs))

    @staticmethod
    def _invalid(ranks: Sequence[int], what: str) -> Failure:
        return Failure("invalid_log", ranks, message="its events do not follow the protocol: " + what)
