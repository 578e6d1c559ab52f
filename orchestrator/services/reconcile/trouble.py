"""What goes wrong with a node, a run or an experiment: noted there, and tried again after growing pauses.

``Troubles`` counts. ``WatchedCluster`` is the cluster with each call to a node counted: a node that goes on failing is
suspect, and is well again when what failed succeeds.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from orchestrator.domain.asked.placement import Node, NodeState, Placement
from orchestrator.domain.ports import Clock, Cluster
from orchestrator.domain.runs.log import AttemptStatus, LogSlice
from orchestrator.domain.words.errors import Conflict, DamagedRow, InvalidRequest, NodeFailed, NodeUnreachable, TbdError
from orchestrator.services.reconcile.stored_nodes import StoredNodes

Answer = TypeVar("Answer")
Key = TypeVar("Key")

# Seconds until the next try after the first failure, the second, …: judgements. The last one is repeated.
PAUSES_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 120.0, 300.0)
# After that many tries, each after its pause, a node is suspect.
SUSPECT_AFTER = 3
# A call that an agent has not answered for so long makes its node suspect, too: it ought to have given up after 5 s.
UNANSWERED_S = 10.0
# A suspect node is tried with a new run when so long after a pause nothing that is on it has tried what failed.
PROBED_AFTER_S = 10.0
# Troubles that nobody has added to for so long are forgotten: what they were about is gone.
FORGOTTEN_AFTER_S = 3600.0


@dataclass(frozen=True)
class Trouble:
    """``count`` tries have failed since ``since`` (real time), the last that counts at ``at`` (monotonic seconds).
    ``node``: whose failure it is; ``ours``: nobody foresaw the error, or the database will not have what is stored."""

    count: int
    since: float
    at: float
    reason: str
    node: str | None = None
    ours: bool = False

    @property
    def rests_until(self) -> float:
        """No further try before (monotonic seconds)."""
        return self.at + PAUSES_S[min(self.count, len(PAUSES_S)) - 1]


class Troubles(Generic[Key]):
    """By who has them: a run, an experiment, a method of a node. Safe to use from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[Key, Trouble] = {}

    def failed(self, who: Key, error: BaseException) -> Trouble:
        """Note a failure. One that comes before its pause is over is not counted as another try."""
        now = self._clock.monotonic()
        node, ours = getattr(error, "node", None), not isinstance(error, TbdError) or _is_refusal(error)
        reason = str(error) if isinstance(error, TbdError) else f"{type(error).__name__}: {error}"
        with self._lock:
            before = self._known.get(who)
            if before is None:
                self._prune(now)
                trouble = Trouble(1, self._clock.now(), now, reason, node, ours)
            elif now < before.rests_until:
                trouble = replace(before, reason=reason, node=node, ours=ours)
            else:
                trouble = Trouble(before.count + 1, before.since, now, reason, node, ours)
            self._known[who] = trouble
        return trouble

    def well(self, who: Key) -> None:
        with self._lock:
            self._known.pop(who, None)

    def of(self, who: Key) -> Trouble | None:
        return self._known.get(who)

    def rests(self, who: Key) -> bool:
        """Whether the next try has to wait."""
        trouble = self._known.get(who)
        return trouble is not None and self._clock.monotonic() < trouble.rests_until

    def all(self) -> Mapping[Key, Trouble]:
        with self._lock:
            return dict(self._known)

    def _prune(self, now: float) -> None:
        for who in [who for who, trouble in self._known.items() if now - trouble.at > FORGOTTEN_AFTER_S]:
            del self._known[who]


def _is_refusal(error: BaseException) -> bool:
    """The database will never take this: two entries of one name, a text that it cannot hold."""
    return isinstance(error, Conflict | InvalidRequest) and not isinstance(error, DamagedRow)


class WatchedCluster:
    """``domain.ports.Cluster``; an exception that a call to one node raises and nobody foresaw is ``NodeFailed``.

    A node is suspect while one of its calls goes on failing, or has not been answered for ``UNANSWERED_S``. A server
    that follows has no ``cluster`` before it leads: it knows the nodes as they are ``stored``, and calls none."""

    def __init__(self, cluster: Cluster | None, clock: Clock, stored: StoredNodes | None = None) -> None:
        self._led = cluster
        self._stored = stored
        self._given_up: str | None = None
        self._clock = clock
        self._troubles: Troubles[tuple[str, str]] = Troubles(clock)
        self._calls: dict[int, tuple[str, str, float]] = {}  # node, method, since when (monotonic seconds)

    @property
    def _cluster(self) -> Cluster:
        if self._led is None:
            assert self._stored is not None
            raise self._stored.refusal()
        return self._led

    def lead(self, cluster: Cluster) -> None:
        """From now on this server speaks to the agents."""
        self._led = cluster

    def give_up(self, reason: str) -> None:
        """This server ought to lead and cannot."""
        self._given_up = reason

    def nodes(self) -> Sequence[Node]:
        if self._led is None and self._stored is not None:
            return self._stored.nodes()
        found = self._cluster.nodes()
        why = self._suspects()
        return [_suspected(node, why) for node in found] if why else found

    def _suspects(self) -> Mapping[str, str]:
        """Node -> why it is suspect."""
        now = self._clock.monotonic()
        why = {
            node: f"its agent has not answered {method!r} for {now - since:.0f} s"
            for node, method, since in list(self._calls.values())
            if now - since > UNANSWERED_S
        }
        for who, trouble in self._troubles.all().items():
            if trouble.count >= SUSPECT_AFTER and now < trouble.rests_until + PROBED_AFTER_S:
                since_when = datetime.fromtimestamp(trouble.since, UTC).isoformat(timespec="seconds")
                why[who[0]] = f"{who[1]!r} has failed there since {since_when}, {trouble.count} tries: {trouble.reason}"
        return why

    def _watched(self, node: str, method: str, call: Callable[[], Answer]) -> Answer:
        was_lost = any(one.name == node and one.state is NodeState.UNREACHABLE for one in self._cluster.nodes())
        began = self._clock.monotonic()
        number = id(call)
        self._calls[number] = (node, method, began)
        try:
            answer = call()
        except NodeUnreachable as error:
            if not was_lost:  # else nothing is new
                self._troubles.failed((node, method), error)
            raise
        except TbdError:  # the agent's answer: it knows no such attempt, it refuses the job, …
            self._troubles.well((node, method))
            raise
        except Exception as error:
            failed = NodeFailed(node, f"{type(error).__name__}: {error}")
            self._troubles.failed((node, method), failed)
            raise failed from error
        finally:
            del self._calls[number]
        self._troubles.well((node, method))
        return answer

    def hold(self, attempt_id: str, placement: Placement) -> Placement:
        if len(placement.nodes) > 1:  # nobody knows whose failure it is, but where the error says so
            return self._cluster.hold(attempt_id, placement)
        return self._watched(placement.nodes[0], "hold", lambda: self._cluster.hold(attempt_id, placement))

    def holds(self) -> Collection[str]:
        return self._cluster.holds()

    def let_go(self, over: Collection[str]) -> None:
        self._cluster.let_go(over)

    def reserve(self, node: str, attempt_id: str) -> Mapping[str, int]:
        return self._watched(node, "reserve", lambda: self._cluster.reserve(node, attempt_id))

    def start(self, node: str, job: Mapping[str, Any]) -> None:
        self._watched(node, "start", lambda: self._cluster.start(node, job))

    def stop(self, node: str, attempt_id: str, reason: str) -> None:
        self._watched(node, "stop", lambda: self._cluster.stop(node, attempt_id, reason))

    def status(self, node: str) -> Sequence[AttemptStatus]:
        return self._watched(node, "status", lambda: self._cluster.status(node))

    def silent_s(self, node: str) -> float:
        return self._cluster.silent_s(node)

    def fence_s(self, node: str) -> float:
        return self._cluster.fence_s(node)

    def fetch(self, node: str, attempt_id: str, after: int, limit: int = 1000) -> LogSlice:
        return self._watched(node, "fetch", lambda: self._cluster.fetch(node, attempt_id, after, limit))

    def acknowledge(self, node: str, attempt_id: str, seq: int) -> None:
        self._watched(node, "acknowledge", lambda: self._cluster.acknowledge(node, attempt_id, seq))

    def wait(self, positions: Mapping[str, Mapping[str, int]], timeout_s: float) -> bool:
        return self._cluster.wait(positions, timeout_s)

    def checks(self, node: str) -> Mapping[str, Any]:
        return self._cluster.checks(node)  # for a person, who is told what becomes of it

    def interpreters(self, node: str) -> Sequence[Mapping[str, Any]]:
        if self._led is None and self._stored is not None:
            return self._stored.interpreters(node)
        return self._cluster.interpreters(node)

    def lost(self) -> str | None:
        return self._given_up or (self._led.lost() if self._led is not None else None)

    def close(self) -> None:
        self._cluster.close()

    def shut_down(self, *, end_runs: bool) -> Sequence[str]:
        return self._cluster.shut_down(end_runs=end_runs)


def _suspected(node: Node, why: Mapping[str, str]) -> Node:
    if node.name not in why or node.state is not NodeState.AVAILABLE:
        return node
    return replace(node, state=NodeState.SUSPECT, reason=why[node.name])
