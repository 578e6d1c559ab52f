"""Looking: what the store and the cluster have to say, as one ``Situation``."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from orchestrator.domain.errors import NodeUnreachable, NotFound
from orchestrator.domain.log import AttemptStatus
from orchestrator.domain.placement import Node, NodeState
from orchestrator.domain.run import HOLDS_DEVICES, Attempt, Run
from orchestrator.services.context import Context

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
        known = self._context.cluster.nodes()
        stored = self._stored = self._ask(sum(len(node.devices) for node in known))
        runs = stored.runs
        # After the runs: who resumes two nodes and then an experiment must not see it placed on one of them.
        orders = self._context.store.node_orders()
        nodes = [_ordered(node, orders) for node in known]
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
        except (NodeUnreachable, NotFound) as error:  # unknown: it has not come back since this service was started
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
