"""Looking: what the store and the cluster have to say, as one ``Situation``.

What is asked about one node or one run is asked in its own lane: who does not answer is left out, and keeps no other
waiting.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, partial
from typing import TypeVar

from orchestrator.domain.around.device_health import DeviceEvent
from orchestrator.domain.asked.placement import Kept, Node, NodeState, Placement
from orchestrator.domain.runs.durations import at_most_s, left_at_least_s
from orchestrator.domain.runs.log import AttemptStatus
from orchestrator.domain.runs.run import HOLDS_DEVICES, Attempt, Run, RunState
from orchestrator.domain.runs.stored import DamagedHold
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.words.errors import DamagedRow, NodeUnreachable, NotFound
from orchestrator.services.context import Context
from orchestrator.services.facts.devices import note as note_devices
from orchestrator.services.facts.devices import open_events
from orchestrator.services.facts.nodes import as_known, as_ordered
from orchestrator.services.reconcile.expectations import Durations, durations_of
from orchestrator.services.reconcile.lanes import Lanes
from orchestrator.services.reconcile.trouble import Trouble, Troubles

Answer = TypeVar("Answer")

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
class Stray:
    """An attempt that is over for the database, and that the agent of ``node`` still carries out (``lives``), or whose
    log it still has. ``ended_at``: when it ended there, by this service's clock, where the agent tells."""

    attempt: Attempt
    node: str
    lives: bool
    ended_at: float | None = None


@dataclass(frozen=True)
class Launching:
    """A placement that is being given to a run, what its plan says of sharing, and whether something of it is lent."""

    placement: Placement
    exclusive: str
    is_guest: bool


@dataclass(frozen=True)
class Situation:
    """What ``look`` saw ``at`` (seconds since the epoch). ``runs``: those that hold devices or are to be cancelled,
    then of the queue the first ones of each kind in the order in which they should be placed.

    ``launching``: what is being given to queued runs. ``left_alone``: runs and experiments that something is being done
    for at this moment, or that rest after a failure. ``hopeless``: runs that nothing more can be done for, and why.
    ``durations``: cell -> seconds that completed runs of it took, where that was looked up. ``slow``: nodes that are
    suspect only because they did not answer in time: what waits for them goes on doing so, and where they stay silent
    the cluster itself soon calls them suspect."""

    runs: Sequence[Run]
    nodes: Sequence[Node]
    attempts: Mapping[str, OpenAttempt] = field(default_factory=dict)
    idle_experiments: Sequence[str] = ()
    launching: Sequence[Launching] = ()
    left_alone: Collection[str] = ()
    hopeless: Mapping[str, Failure] = field(default_factory=dict)
    # Attempts that devices are held for although they are over.
    over: Collection[str] = ()
    damaged: Sequence[DamagedHold] = ()  # with the nodes on which their processes may live
    strays: Sequence[Stray] = ()
    uses: Mapping[str, float] = field(default_factory=dict)  # owner -> device-seconds of late
    durations: Mapping[str, Sequence[float]] = field(default_factory=dict)
    at: float = 0.0
    slow: Collection[str] = ()

    def ends_s(self, run: Run) -> float:
        """Seconds that ``run`` would last at most if it began now."""
        known_s = at_most_s(self.durations.get(run.plan.cell_key, ()))
        return run.plan.timeout_s if known_s is None else min(known_s, run.plan.timeout_s)

    def begins_s(self, kept: Kept) -> float:
        """Seconds that pass at least before a run can begin that waits for ``kept``: until the last of those that it
        waits for ends."""
        return max((self._left_s(self.by_id[one]) for one in kept.awaited if one in self.by_id), default=0.0)

    def _left_s(self, run: Run) -> float:
        if run.state is not RunState.RUNNING or run.cancel_requested or not run.attempt or run.attempt.stop_requested:
            return 0.0
        lasted_s = self.at - (run.attempt.started_at or run.attempt.created_at)
        return left_at_least_s(self.durations.get(run.plan.cell_key, ()), lasted_s)

    @cached_property
    def by_id(self) -> Mapping[str, Run]:
        return {run.id: run for run in self.runs}


@dataclass(frozen=True)
class UnderWay:
    """What is being done while a pass looks: lanes with work, and the attempts that are being launched."""

    lanes: Collection[str] = ()
    launches: Mapping[str, Launching] = field(default_factory=dict)


NOTHING = UnderWay()


@dataclass(frozen=True)
class Stored:
    """What the store had to say at ``at`` (monotonic seconds), for a cluster of ``devices`` devices, after so many
    ``changes``."""

    runs: Sequence[Run]
    damaged: Sequence[DamagedHold]
    idle_experiments: Sequence[str]
    device_events: Sequence[DeviceEvent]
    uses: Mapping[str, float]
    durations: Mapping[str, Sequence[float]]
    devices: int
    at: float
    changes: int


# Tries after which a run is given up: of one whose own data raises what nobody foresaw, and of one that a node cannot
# begin or whose log it cannot give. By ``trouble.PAUSES_S`` that is after some 7 and 63 s. Judgements.
OWN_TRIES, NODE_TRIES = 3, 6


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

    def __init__(self, context: Context, fence_s: float, lanes: Lanes, troubles: Troubles[str]) -> None:
        self._context = context
        self._lanes = lanes
        self._troubles = troubles
        self._fence_s = fence_s
        self._fences: dict[str, float] = {}  # node -> the longest fence of the agents of attempts there, as they told
        self._silent_since: dict[str, float] = {}
        self._seen: dict[str, OpenAttempt] = {}
        self._stored: Stored | None = None
        self._durations = Durations()
        self._changes = 0

    def forget(self) -> None:
        """What the store said of runs may be true no longer, also what it is saying now."""
        self._changes += 1

    def look(self, under_way: UnderWay = NOTHING) -> Situation:
        """``under_way`` is from before: what was done since is seen here, what goes on is left alone.

        Raises ``StoreUnavailable`` or ``ClusterUnavailable``; silent nodes are part of the situation."""
        held = self._context.cluster.holds()
        known = self._context.cluster.nodes()
        stored = self._stored = self._ask(known)
        runs = stored.runs
        # After the runs: who resumes two nodes and then an experiment must not see it placed on one of them.
        orders = self._context.store.node_orders()
        if note_devices(self._context, known, stored.device_events):
            self.forget()  # what was noted is seen in the next pass at the latest
            stored = self._stored = self._ask(known)
        nodes = [as_known(self._context, as_ordered(node, orders), stored.device_events) for node in known]
        open_runs = [run for run in runs if run.attempt and run.state in HOLDS_DEVICES]
        involved = {*_nodes_of(open_runs), *(node for one in stored.damaged for node in one.nodes)}
        self._fences = _fences(open_runs)
        reports = self._reports(sorted({*involved, *(node.name for node in nodes)}))
        damaged = [replace(one, nodes=_still_held(one, reports)) for one in stored.damaged]
        self._seen = attempts = self._attempts(open_runs, reports)
        unseen = {run.id for run in open_runs if run.attempt and run.attempt.id not in attempts}
        living = {run.attempt.id for run in open_runs if run.attempt} | {one.attempt_id for one in damaged if one.nodes}
        strays = self._strays(reports, {*living, *(one.attempt_id for one in damaged), *under_way.launches})
        others = {*stored.idle_experiments, *(one.attempt_id for one in damaged), *(one.attempt.id for one in strays)}
        resting = {*filter(self._troubles.rests, others), *(run.id for run in runs if self._rests(run))}
        heard = [_as_heard(node, reports[node.name]) for node in nodes]
        return Situation(
            runs,
            heard,
            attempts,
            stored.idle_experiments,
            launching=list(under_way.launches.values()),
            left_alone={*under_way.lanes, *unseen, *resting},
            hopeless={run.id: failure for run in runs if (failure := hopeless(run, self._troubles.of(run.id)))},
            over=set(held) - living - set(under_way.launches),
            damaged=damaged,
            strays=strays,
            uses=all_uses(stored.uses, open_runs, self._context.clock.now()),
            durations=stored.durations,
            at=self._context.clock.now(),
            slow=frozenset(after.name for before, after in zip(nodes, heard, strict=True) if after is not before),
        )

    def _strays(self, reports: Mapping[str, Mapping[str, AttemptStatus] | Word], known: Collection[str]) -> list[Stray]:
        """Beside those that are ``known``. What is no attempt of this database is left to whoever's it is."""
        asked: dict[str, Callable[[], list[Stray]]] = {}
        for node, report in reports.items():
            heard = [
                one for one in ({} if isinstance(report, Word) else report).values() if one.attempt_id not in known
            ]
            if heard and not self._troubles.rests(f"strays {node}"):
                asked[node] = partial(self._strays_of, node, heard)
        return [stray for found in self._each("strays", asked).values() for stray in found]

    def _strays_of(self, node: str, heard: Sequence[AttemptStatus]) -> list[Stray]:
        try:
            over = self._context.store.attempts_over([one.attempt_id for one in heard])
        except Exception as error:
            note(self._troubles, f"strays {node}", "what it still carries out cannot be told", error)
            return []
        now = self._context.clock.now()
        return [
            Stray(over[one.attempt_id], node, not one.ended, None if one.ended_ago_s is None else now - one.ended_ago_s)
            for one in heard
            if one.attempt_id in over
        ]

    def _rests(self, run: Run) -> bool:
        """Who wants it cancelled does not wait for a pause to end."""
        return self._troubles.rests(run.id) and not run.cancel_requested

    def _ask(self, known: Sequence[Node]) -> Stored:
        """Of the queue no more than could be placed on what nobody holds, beside those that rest: a run takes one
        device at least."""
        devices = sum(len(node.devices) for node in known)
        before, store, now = self._stored, self._context.store, self._context.clock.monotonic()
        changes = self._changes
        is_true = before is not None and (before.devices, before.changes) == (devices, changes)
        if before is not None and is_true and now - before.at < self.ASK_AGAIN_S:
            return before
        # The idle ones first: what is added after this look belongs to no experiment that it has seen.
        idle = store.idle_experiments()
        found = store.open_runs(self.MOST_CANCELLED)
        heads = store.queue_heads(max(_free(known, found.runs), 1) + len(self._troubles.all()))
        runs = {run.id: run for run in (*found.runs, *heads)}
        uses, events = store.uses(self._context.clock.now()), open_events(self._context)
        durations = self._look_back(list(runs.values()))
        return Stored(list(runs.values()), found.damaged, idle, events, uses, durations, devices, now, changes)

    def _look_back(self, runs: Sequence[Run]) -> Mapping[str, Sequence[float]]:
        """How long earlier runs took: of whose cell that cannot be told is treated as one that has none."""
        asked = {cell: partial(self._earlier, cell) for cell in self._durations.unknown(runs)}
        found = self._each("cell", asked)
        self._durations.known |= {cell: durations for cell, durations in found.items() if durations is not None}
        return dict(self._durations.known)

    def _earlier(self, cell: str) -> Sequence[float] | None:
        try:
            return durations_of(self._context, cell)
        except Exception as error:
            log.info("cell %s: how long its earlier runs took cannot be read: %s", cell, error)
            return None

    def _reports(self, nodes: Sequence[str]) -> Mapping[str, Mapping[str, AttemptStatus] | Word]:
        """Node -> the agent's report by attempt, or the word on a node that gives none in time."""
        reports = self._each("node", {node: partial(self._status, node) for node in nodes})
        return {node: reports[node] if node in reports else self._silence(node) for node in nodes}

    def _status(self, node: str) -> Mapping[str, AttemptStatus] | Word:
        try:
            report = self._context.cluster.status(node)
        except (NodeUnreachable, NotFound) as error:  # unknown: it has not come back since this service was started
            if node not in self._silent_since:
                log.warning("%s", error)
            return self._silence(node)
        self._silent_since.pop(node, None)
        return {status.attempt_id: status for status in report}

    def _silence(self, node: str) -> Word:
        """An agent that hears from this server in whatever way does not end its processes, however long it has not said
        how they are."""
        now = self._context.clock.monotonic()
        since = self._silent_since.setdefault(node, now)
        silent_s = min(now - since, self._context.cluster.silent_s(node))
        # That of an agent is fixed when it is made: a service that has a shorter one since then waits as long.
        fence_s = max(self._fence_s, self._fences.get(node, 0.0))
        return Word.DEAD if silent_s > fence_s + self.FENCE_MARGIN_S else Word.SILENT

    def _attempts(
        self, runs: Sequence[Run], reports: Mapping[str, Mapping[str, AttemptStatus] | Word]
    ) -> dict[str, OpenAttempt]:
        """Attempt -> how it stands. One of which nobody can tell is left out; that of a hopeless run stands there by
        what the nodes say."""
        found: dict[str, OpenAttempt] = {}
        asked: dict[str, Callable[[], OpenAttempt | None]] = {}
        for run in runs:
            attempt = run.attempt
            assert attempt is not None
            words = {node: _word(attempt.id, reports[node]) for node in attempt.placement.nodes}
            before = self._seen.get(attempt.id)
            if before is not None and before.stored == frozenset(attempt.placement.nodes):
                found[attempt.id] = replace(before, words=words)
            elif set(words.values()) == {Word.RUNNING} or hopeless(run, self._troubles.of(run.id)):
                # Where all say that it goes on no log has come to its end: it is not looked up in each pass.
                found[attempt.id] = OpenAttempt(words, frozenset())
            elif not self._rests(run):
                asked[attempt.id] = partial(self._see, run, words)
        return found | {name: seen for name, seen in self._each("attempt", asked).items() if seen is not None}

    def _see(self, run: Run, words: Mapping[str, Word]) -> OpenAttempt | None:
        assert run.attempt is not None
        try:
            closed = self._context.store.entries(run.attempt.id, kinds=["log_closed"])
            stored = frozenset(str(entry["node"]) for entry in closed)
            return OpenAttempt(words, stored, any(entry["data"].get("failure") for entry in closed))
        except Exception as error:
            note(self._troubles, run.id, "its log cannot be read", error)
            return None

    def _each(self, kind: str, ask: Mapping[str, Callable[[], Answer]]) -> dict[str, Answer]:
        """The answers of those that answer in time, each asked in a lane of its own. Who is still being asked from an
        earlier pass is not asked again."""
        answers: dict[str, Answer] = {}
        busy = self._lanes.under_way()
        lanes = {name: f"{kind} {name}" for name in ask if f"{kind} {name}" not in busy}

        def answer(name: str) -> None:
            answers[name] = ask[name]()

        for name, lane in lanes.items():
            self._lanes.put(lane, partial(answer, name))
        self._lanes.settle(list(lanes.values()))
        return dict(answers)


def note(troubles: Troubles[str], who: str, what: str, error: BaseException) -> None:
    """Note that ``what`` failed for the run or experiment ``who``; with the trace where nobody foresaw it."""
    trouble = troubles.failed(who, error)
    message = "%s: %s (%d): %s"
    if trouble.ours:
        log.error(message, who, what, trouble.count, trouble.reason, exc_info=error)
    elif not isinstance(error, NotFound | DamagedRow) or trouble.count == 1:
        log.info(message, who, what, trouble.count, trouble.reason)


def hopeless(run: Run, trouble: Trouble | None) -> Failure | None:
    """What ends a run whose every try has failed: of its own data, or because a node cannot begin it or cannot give its
    log. A training that runs is not ended because its node answers nothing else."""
    if trouble is None:
        return None
    if trouble.ours and trouble.count >= OWN_TRIES:
        message = f"the service cannot work on this run ({trouble.reason}); its logs are kept. See the server's log"
        return Failure(FailureKind.INTERNAL_ERROR, message)
    if trouble.node and trouble.count >= NODE_TRIES and run.state in (RunState.PLACING, RunState.COLLECTING):
        return Failure(FailureKind.NODE_LOST, trouble.reason)
    return None


def _still_held(hold: DamagedHold, reports: Mapping[str, Mapping[str, AttemptStatus] | Word]) -> tuple[str, ...]:
    """The nodes of a damaged attempt on which its processes run, or may run."""
    may_live = (Word.RUNNING, Word.SILENT)
    return tuple(node for node in hold.nodes if _word(hold.attempt_id, reports[node]) in may_live)


def _as_heard(node: Node, report: Mapping[str, AttemptStatus] | Word) -> Node:
    """Nothing new is placed where nobody answers now: the pass would wait for that, too."""
    if node.state is not NodeState.AVAILABLE or not isinstance(report, Word):
        return node
    return replace(node, state=NodeState.SUSPECT, reason="its agent does not answer")


def all_uses(over: Mapping[str, float], open_runs: Sequence[Run], now: float) -> dict[str, float]:
    """Owner -> device-seconds: what attempts have had that are ``over``, and what those have had that are not."""
    found = dict(over)
    for run in open_runs:
        if run.attempt:
            devices = sum(len(share.devices) for share in run.attempt.placement.shares)
            found[run.owner] = found.get(run.owner, 0.0) + devices * max(0.0, now - run.attempt.created_at)
    return found


def _free(nodes: Sequence[Node], runs: Sequence[Run]) -> int:
    """How many devices none of ``runs`` holds."""
    placements = [run.attempt.placement for run in runs if run.attempt and run.state in HOLDS_DEVICES]
    taken = {(share.node, device.id) for one in placements for share in one.shares for device in share.devices}
    return sum((node.name, device.id) not in taken for node in nodes for device in node.devices)


def _word(attempt_id: str, report: Mapping[str, AttemptStatus] | Word) -> Word:
    if isinstance(report, Word):
        return report
    status = report.get(attempt_id)
    if status is None:
        return Word.UNKNOWN
    return Word.ENDED if status.ended else Word.RUNNING


def _fences(runs: Sequence[Run]) -> dict[str, float]:
    """Node -> the longest fence that is on record for the attempts of ``runs`` there."""
    found: dict[str, float] = {}
    for run in runs:
        if run.attempt and run.attempt.fence_s is not None:
            for node in run.attempt.placement.nodes:
                found[node] = max(found.get(node, 0.0), run.attempt.fence_s)
    return found


def _nodes_of(runs: Sequence[Run]) -> set[str]:
    return {node for run in runs if run.attempt for node in run.attempt.placement.nodes}
