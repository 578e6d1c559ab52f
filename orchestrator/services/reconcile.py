"""One pass of the reconciler: ``look`` what is, ``decide`` (pure) what to do, ``apply`` it.

Every step can be repeated. The store moves a run only from the state that was seen. To an agent a second start or stop
is as one. Entries of logs are stored by their number. So when a server dies between any two steps, the next one goes
on.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from orchestrator.domain.errors import DamagedRow, DevicesTaken, JobRefused, NodeUnreachable, NotFound
from orchestrator.domain.failure import Failure, FailureKind
from orchestrator.domain.peaks import ARITHMETIC
from orchestrator.domain.placement import Node, NodeState, NotNow, Placement, place
from orchestrator.domain.plan import Needs
from orchestrator.domain.ports import AttemptStatus
from orchestrator.domain.run import HOLDS_DEVICES, Attempt, Run, RunState
from orchestrator.services.clock import new_id, new_token
from orchestrator.services.conclude import conclude
from orchestrator.services.context import Context
from orchestrator.services.expectations import expected_of
from orchestrator.services.fetch_log import fetch_log
from orchestrator.services.job import build_job, device_keys
from orchestrator.services.review import review

log = logging.getLogger(__name__)


class Word(StrEnum):
    """What is known of an attempt's processes on one node."""

    RUNNING = "running"  # the agent: they run
    ENDED = "ended"  # the agent: they are dead, by pid and start time
    UNKNOWN = "unknown"  # the agent answers, but knows no such attempt
    SILENT = "silent"  # the agent does not answer; they may well run
    DEAD = "dead"  # it has not answered beyond the fence and a margin: the agent ended them, or they died with it


@dataclass(frozen=True)
class OpenAttempt:
    """An open attempt as seen from here: per node the word on its processes, where its log is stored to the end, and
    whether one of these ended with a failure."""

    words: Mapping[str, Word]
    stored: frozenset[str]
    failed: bool = False

    def gone(self, node: str) -> bool:
        """Nothing more will come from the node: neither steps nor entries."""
        return node not in self.stored and self.words[node] in (Word.UNKNOWN, Word.DEAD)

    def over(self, node: str) -> bool:
        """The attempt's processes on the node are dead."""
        return node in self.stored or self.words[node] in (Word.ENDED, Word.UNKNOWN, Word.DEAD)


@dataclass(frozen=True)
class Situation:
    """What ``look`` saw. ``runs``: those that hold devices or are to be cancelled, then of the queue the first ones
    of each kind in the order in which they should be placed."""

    runs: Sequence[Run]
    nodes: Sequence[Node]
    attempts: Mapping[str, OpenAttempt] = field(default_factory=dict)
    idle_experiments: Sequence[str] = ()


@dataclass(frozen=True)
class Launch:
    run: Run
    placement: Placement


@dataclass(frozen=True)
class Wait:
    """The queued runs that ask for ``needs`` cannot be placed now, and a person should see why."""

    needs: Needs
    reason: str


@dataclass(frozen=True)
class Tell:
    """Tell these nodes (again) to start the attempt."""

    run: Run
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Move:
    run: Run
    to: RunState


@dataclass(frozen=True)
class Stop:
    run: Run
    nodes: tuple[str, ...]
    reason: FailureKind


@dataclass(frozen=True)
class Fetch:
    run: Run
    node: str


@dataclass(frozen=True)
class Conclude:
    """All logs that can be had are stored; ``lost`` are the nodes whose log is not complete."""

    run: Run
    lost: tuple[str, ...]


@dataclass(frozen=True)
class Review:
    """See whether an experiment is over."""

    experiment_id: str


Action = Launch | Wait | Tell | Move | Stop | Fetch | Conclude | Review


def decide(situation: Situation) -> list[Action]:
    """What to do now. Pure: the same situation gives the same actions, in the order in which they are to be applied."""
    held: dict[str, set[str]] = {}
    for run in situation.runs:
        if run.state in HOLDS_DEVICES and run.attempt:
            _hold(held, run.attempt.placement)
    actions: list[Action] = []
    for run in situation.runs:
        if run.state is not RunState.QUEUED:
            assert run.attempt is not None
            actions += _decide_open(run, run.attempt, situation.attempts[run.attempt.id])
        elif run.cancel_requested:
            actions.append(Move(run, RunState.CANCELLED))
    actions += _decide_queue(situation, held)
    return actions + [Review(experiment_id) for experiment_id in situation.idle_experiments]


def _decide_queue(situation: Situation, held: dict[str, set[str]]) -> Iterator[Action]:
    """Launch what can be placed, in order. Runs that ask for the same fare alike: once one of them has to wait all that
    come after it have to."""
    refused: set[Needs] = set()
    for run in situation.runs:
        needs = run.plan.needs
        if run.state is not RunState.QUEUED or run.cancel_requested or needs in refused:
            continue
        answer = place(needs, situation.nodes, held)
        if not isinstance(answer, NotNow):
            _hold(held, answer)
            yield Launch(run, answer)
            continue
        refused.add(needs)
        if answer.reason != run.waiting:
            yield Wait(needs, answer.reason)


def _hold(held: dict[str, set[str]], placement: Placement) -> None:
    for share in placement.shares:
        held.setdefault(share.node, set()).update(device.id for device in share.devices)


def _decide_open(run: Run, attempt: Attempt, seen: OpenAttempt) -> Iterator[Action]:
    nodes = attempt.placement.nodes
    alive = tuple(node for node in nodes if not seen.over(node))
    reason = _why_stop(run, attempt, seen)
    if reason and alive:
        yield Stop(run, alive, reason)
    yield from (Fetch(run, node) for node in nodes if node not in seen.stored and seen.words[node] in _SPEAKS)
    if run.state is RunState.PLACING:
        yield from _decide_placing(run, seen, reason)
    elif run.state is RunState.RUNNING and not alive:
        yield Move(run, RunState.COLLECTING)
    elif run.state is RunState.COLLECTING and all(node in seen.stored or seen.gone(node) for node in nodes):
        yield Conclude(run, tuple(node for node in nodes if node not in seen.stored))


_SPEAKS = (Word.RUNNING, Word.ENDED)


def _decide_placing(run: Run, seen: OpenAttempt, reason: FailureKind | None) -> Iterator[Action]:
    untold = tuple(node for node, word in seen.words.items() if word is Word.UNKNOWN and node not in seen.stored)
    if reason:
        # A stop also reaches an agent that was never told to start: it then refuses a start that comes late.
        if untold:
            yield Stop(run, untold, reason)
        if all(seen.over(node) for node in seen.words):
            yield Move(run, RunState.COLLECTING)
    elif untold:
        yield Tell(run, untold)
    elif Word.SILENT not in seen.words.values():
        yield Move(run, RunState.RUNNING)


def _why_stop(run: Run, attempt: Attempt, seen: OpenAttempt) -> FailureKind | None:
    """Why the rest of the attempt is to be ended: as it was asked for, or because a node of the gang is lost to it. The
    failure that a node's log ended with explains the run; that the others were stopped for it does not."""
    if attempt.stop_requested:
        return FailureKind(attempt.stop_requested)
    if run.cancel_requested:
        return FailureKind.CANCELLED
    if any(word is Word.DEAD and node not in seen.stored for node, word in seen.words.items()):
        return FailureKind.NODE_LOST
    if seen.failed:
        return FailureKind.NODE_LOST
    if run.state is not RunState.PLACING and any(seen.gone(node) for node in seen.words):
        return FailureKind.NODE_LOST
    return None


@dataclass(frozen=True)
class Stored:
    """What the store had to say at ``at`` (monotonic seconds), for a cluster of ``devices`` devices."""

    runs: Sequence[Run]
    idle_experiments: Sequence[str]
    devices: int
    at: float


class Lookout:
    """Looks at the store and the cluster. Keeps between passes only what may be forgotten: since when a node has been
    silent (forgotten at a restart, which waits longer, never shorter), which logs are known to be complete, and what
    the store said of runs, until somebody calls ``forget``."""

    # Seconds beyond the fence, for an agent that was slow to notice and for clocks that differ. A judgement.
    FENCE_MARGIN_S = 15.0

    # Queued runs that a pass cancels at most; the next pass goes on. A judgement.
    MOST_CANCELLED = 500

    # Seconds after which the store is asked again although nobody said that anything changed. A judgement: it is for
    # what somebody else did to the database.
    ASK_AGAIN_S = 30.0

    def __init__(self, context: Context, fence_s: float) -> None:
        self._context = context
        self._dead_after_s = fence_s + self.FENCE_MARGIN_S
        self._silent_since: dict[str, float] = {}
        self._seen: dict[str, OpenAttempt] = {}
        self._stored: Stored | None = None

    def forget(self) -> None:
        """What the store said of runs may be true no longer."""
        self._stored = None

    def look(self) -> Situation:
        """Raises ``StoreUnavailable`` or ``ClusterUnavailable``; silent nodes are part of the situation."""
        orders = self._context.store.node_orders()
        nodes = [_ordered(node, orders) for node in self._context.cluster.nodes()]
        stored = self._stored = self._ask(sum(len(node.devices) for node in nodes))
        runs = stored.runs
        reports = {node: self._status(node) for node in sorted({*_nodes_of(runs), *(node.name for node in nodes)})}
        attempts = {
            run.attempt.id: self._see(run.attempt, reports)
            for run in runs
            if run.attempt and run.state in HOLDS_DEVICES
        }
        self._seen = attempts
        return Situation(runs, nodes, attempts, stored.idle_experiments)

    def _ask(self, devices: int) -> Stored:
        """Of the queue no more than could be placed if all devices were free: a run holds one at least."""
        before, store, now = self._stored, self._context.store, self._context.clock.monotonic()
        if before is not None and before.devices == devices and now - before.at < self.ASK_AGAIN_S:
            return before
        # The idle ones first: what is added after this look belongs to no experiment that it has seen.
        idle = store.idle_experiments()
        runs = [*store.open_runs(self.MOST_CANCELLED), *store.queue_heads(max(devices, 1))]
        return Stored(list({run.id: run for run in runs}.values()), idle, devices, now)

    def _status(self, node: str) -> Mapping[str, AttemptStatus] | Word:
        """The agent's report by attempt, or the word on a node that gives none."""
        now = self._context.clock.monotonic()
        try:
            report = self._context.cluster.status(node)
        except NodeUnreachable as error:
            since = self._silent_since.setdefault(node, now)
            if since == now:
                log.warning("%s", error)
            return Word.DEAD if now - since > self._dead_after_s else Word.SILENT
        self._silent_since.pop(node, None)
        return {status.attempt_id: status for status in report}

    def _see(self, attempt: Attempt, reports: Mapping[str, Mapping[str, AttemptStatus] | Word]) -> OpenAttempt:
        words = {node: _word(attempt, reports[node]) for node in attempt.placement.nodes}
        before = self._seen.get(attempt.id)
        if before is not None and before.stored == frozenset(attempt.placement.nodes):
            return replace(before, words=words)
        closed = self._context.store.entries(attempt.id, kinds=["log_closed"])
        stored = frozenset(str(entry["node"]) for entry in closed)
        return OpenAttempt(words, stored, any(entry["data"].get("failure") for entry in closed))


def _word(attempt: Attempt, report: Mapping[str, AttemptStatus] | Word) -> Word:
    if isinstance(report, Word):
        return report
    status = report.get(attempt.id)
    if status is None:
        return Word.UNKNOWN
    return Word.ENDED if status.ended else Word.RUNNING


def _ordered(node: Node, orders: Mapping[str, NodeState]) -> Node:
    if node.state is NodeState.AVAILABLE and node.name in orders:
        return replace(node, state=orders[node.name])
    return node


def _nodes_of(runs: Sequence[Run]) -> set[str]:
    return {node for run in runs if run.attempt and run.state in HOLDS_DEVICES for node in run.attempt.placement.nodes}


def apply(context: Context, actions: Sequence[Action]) -> bool:
    """Carry out ``actions`` in order; whether anything changed that is worth another look at once.

    What fails for one run or node is logged and left to the next pass; the actions of that run that come after it are
    left out, because they may rest on it.

    Raises:
        StoreUnavailable: nothing further can be done.
    """
    changed = False
    spoiled: set[str] = set()
    for action in actions:
        run_id = None if isinstance(action, Review | Wait) else action.run.id
        if run_id in spoiled:
            continue
        try:
            changed |= _apply(context, action)
        except (NodeUnreachable, NotFound, DamagedRow) as error:  # also: somebody removed it just now
            log.info("%s: %s", type(action).__name__, error)
            if run_id:
                spoiled.add(run_id)
    return changed


def _apply(context: Context, action: Action) -> bool:
    store, now = context.store, context.clock.now()
    match action:
        case Launch(run, placement):
            return _launch(context, run, placement)
        case Wait(needs, reason):
            store.set_waiting(needs.key, reason)
            return False
        case Tell(run, nodes):
            return _tell(context, run, run.attempt, nodes)
        case Move(run, to):
            return store.move_run(run.id, run.state, to, at=now)
        case Stop(run, nodes, reason):
            return _stop(context, run, nodes, reason)
        case Fetch(run, node):
            return _fetch(context, run, node)
        case Conclude(run, lost):
            return conclude(context, run, _loss(lost))
        case Review(experiment_id):
            return review(context, experiment_id)


def _launch(context: Context, run: Run, placement: Placement) -> bool:
    """Hold its devices, make the attempt durable, then tell its agents."""
    attempt = Attempt(
        id=new_id("att"),
        run_id=run.id,
        number=len(run.attempts) + 1,
        token=new_token(),
        placement=placement,
        created_at=context.clock.now(),
    )
    try:
        context.cluster.hold(attempt.id, placement)
    except DevicesTaken as error:
        context.store.set_waiting(run.plan.needs.key, str(error))
        return False
    if not context.store.begin_attempt(run.id, attempt):
        return False  # what is held for it is given back in the next pass
    _tell(context, run, attempt, placement.nodes)
    return True


def _tell(context: Context, run: Run, attempt: Attempt | None, nodes: Sequence[str]) -> bool:
    assert attempt is not None
    try:
        job = _job(context, run, attempt)
        for node in nodes:
            context.cluster.start(node, job)
    except JobRefused as error:
        _give_up(context, run, attempt, Failure(FailureKind(error.failure), str(error)))
        return True
    if set(nodes) == set(attempt.placement.nodes):
        context.store.move_run(run.id, RunState.PLACING, RunState.RUNNING, at=context.clock.now())
    return True


def _job(context: Context, run: Run, attempt: Attempt) -> Mapping[str, Any]:
    """The job of the attempt; the same again when it is told again."""
    taking_part = attempt.placement.nodes
    ports = {node: context.cluster.reserve(node, attempt.id) for node in taking_part} if len(taking_part) > 1 else None
    arithmetic = ARITHMETIC.get(run.plan.precision, run.plan.precision)
    calibrated = context.store.calibrated(device_keys(attempt.placement), arithmetic)
    expected = expected_of(context, run, attempt)
    return build_job(run, attempt, context.catalog, context.cluster.nodes(), ports, calibrated, expected)


def _give_up(context: Context, run: Run, attempt: Attempt, failure: Failure) -> None:
    """An agent refused: end the attempt where it may have started, and the run with it if it is worth no other."""
    for node in attempt.placement.nodes:
        context.cluster.stop(node, attempt.id, failure.kind)
    now = context.clock.now()
    if context.store.move_run(run.id, RunState.PLACING, RunState.COLLECTING, at=now):
        conclude(context, replace(run, attempts=(*run.attempts[: attempt.number - 1], attempt)), failure)


def _stop(context: Context, run: Run, nodes: Sequence[str], reason: FailureKind) -> bool:
    assert run.attempt is not None
    if run.attempt.stop_requested is None:
        context.store.request_stop(run.attempt.id, reason)
    for node in nodes:
        context.cluster.stop(node, run.attempt.id, reason)
    return False


def _fetch(context: Context, run: Run, node: str) -> bool:
    assert run.attempt is not None
    try:
        return fetch_log(context, run.attempt.id, node)
    except NotFound:
        # Acknowledged to its end and deleted in an earlier pass, or swept away: the next look tells which.
        return False


def _loss(lost: Sequence[str]) -> Failure | None:
    if not lost:
        return None
    return Failure(FailureKind.NODE_LOST, f"the log of {', '.join(lost)} ended without a word: the node was lost")
