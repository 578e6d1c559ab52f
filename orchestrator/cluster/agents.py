"""``domain.ports.Cluster`` over node agents, however they are reached.

Owns what both clusters have in common: one keeper thread per node that finds the node's agent (or makes one), keeps in
contact with it and notices when it does not answer; the translation between the domain and the agent's JSON; waiting
for news of several nodes at once. A subclass says which nodes there are and how to reach an agent.
"""

import contextlib
import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import wait as wait_for_any
from dataclasses import replace
from typing import Any, Protocol

from orchestrator.domain.asked.placement import Device, Node, NodeState, Placement
from orchestrator.domain.runs.log import AttemptStatus, LogSlice
from orchestrator.domain.words.errors import JobRefused, NodeFailed, NodeUnreachable, NotFound

# Judgements. A call that an agent does not answer for that long has failed; the answers themselves take milliseconds.
CALL_TIMEOUT_S = 5.0
INTERPRETERS_TIMEOUT_S = 10.0
CHECKS_TIMEOUT_S = 20.0
# How long the keeper leaves its agent alone: first where nothing is asked of it, then while it has a question to
# answer. That is when attempts run and must not be disturbed, and the question ends with the agent: its death shows.
BEAT_S = (1.0, 5.0)
# The same between two readings of the inventory, which tells of new interpreters and of free space.
INVENTORY_S = (5.0, 60.0)
# An agent has to hear from the server several times within its fence.
BEATS_PER_FENCE = 4
# How long an agent keeps a question for news to itself while there are none.
QUESTION_S = 10.0

_LEAST_PAUSE_S = 0.05

_log = logging.getLogger(__name__)


class AgentUnreachable(Exception):  # noqa: N818 - reads as what happened
    """The agent did not answer; says nothing about the processes of its node."""


class AgentError(Exception):
    """The agent answered that the call failed in it."""


class Handle(Protocol):
    """A way to one agent. Safe to use from several threads."""

    def call(self, method: str, patience_s: float, /, **arguments: Any) -> Any:
        """Call a method of ``workers.node.agent.Agent``.

        Raises:
            AgentUnreachable: no answer within ``patience_s`` seconds.
            AgentError: the agent answered with an error.
        """

    def later(self, method: str, patience_s: float, /, **arguments: Any) -> "Future[Any]":
        """The same, without waiting."""


class Keeper:
    """A node and the thread that keeps its agent.

    Args:
        name: the node's name.
        connect: finds the living agent of the node or makes one; raises ``AgentUnreachable``.
        fence_s: seconds without contact after which the agent ends its attempts.
        address: under which other nodes reach this one.
    """

    def __init__(self, name: str, connect: Callable[[], Handle], fence_s: float, address: str = "127.0.0.1") -> None:
        self.name = name
        self._connect = connect
        self.fence_s = fence_s
        self._longest_silence_s = fence_s / BEATS_PER_FENCE
        self._address = address
        self._lock = threading.Lock()
        self._heard_at = -math.inf
        self._read_at = -math.inf
        self._question: tuple[frozenset[tuple[str, int]], Future[Any]] | None = None
        self._handle: Handle | None = None
        self._why = "its agent has not been reached yet"
        self._node = Node(name, (), NodeState.UNREACHABLE, address, reason=self._why)
        self._woken = threading.Event()
        self._closed = threading.Event()
        self._settled = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"tbd-node-{name}", daemon=True)
        self._thread.start()

    @property
    def node(self) -> Node:
        """What is known of the node now."""
        return self._node

    @property
    def handle(self) -> Handle:
        """The way to the agent.

        Raises:
            NodeUnreachable: there is none at present.
        """
        handle = self._handle
        if handle is None:
            raise NodeUnreachable(self.name, self._why)
        return handle

    @property
    def asked(self) -> bool:
        """Whether the agent has a question for news that it has not answered yet."""
        question = self._question
        return question is not None and not question[1].done()

    @property
    def silent_s(self) -> float:
        """Seconds since the agent was heard of."""
        return time.monotonic() - self._heard_at

    def heard(self) -> None:
        """Note that the agent has answered: the keeper need not speak to it for now."""
        self._heard_at = time.monotonic()

    def ask(self, after: Mapping[str, int]) -> "Future[Any]":
        """Ask the agent for news beyond ``after``, or go on with the question that it has not answered yet.

        Raises:
            NodeUnreachable: there is no way to it at present.
        """
        wanted = frozenset(after.items())
        with self._lock:
            if self._question is not None and self._question[0] == wanted and not self._question[1].done():
                return self._question[1]
            handle = self.handle
            patience_s = QUESTION_S + CALL_TIMEOUT_S
            future = handle.later("wait", patience_s, after_by_attempt=dict(after), timeout_s=QUESTION_S)
            self._question = wanted, future
        future.add_done_callback(lambda done: self._answered(handle, done))
        return future

    def _answered(self, handle: Handle, done: "Future[Any]") -> None:
        error = done.exception()
        if isinstance(error, AgentUnreachable):
            self.lose_contact(handle, str(error))
        else:
            self.heard()

    def settle(self, timeout_s: float) -> None:
        """Wait until the agent was reached, or could not be, for the first time."""
        self._settled.wait(timeout_s)

    def lose_contact(self, handle: Handle, why: str) -> None:
        """Have the keeper look after the agent now: a call by ``handle`` has failed."""
        if handle is self._handle:
            self._lose(why)
            self._woken.set()

    def close(self) -> None:
        """End the keeper; the agent stays."""
        self._closed.set()
        self._woken.set()
        self._thread.join(2 * CALL_TIMEOUT_S)
        self._lose("this server has let go of it")

    def _keep(self) -> None:
        while not self._closed.is_set():
            try:
                self._beat()
            except (AgentUnreachable, AgentError) as error:
                self._lose(str(error))
            except Exception:
                _log.exception("node %s: keeping its agent failed", self.name)
                self._lose("see the server's log")
            self._settled.set()
            self._woken.wait(self._pause_s())
            self._woken.clear()

    def _pause_s(self) -> float:
        """Until the keeper has to speak next, unless the agent is heard from meanwhile."""
        if self._handle is None:
            return BEAT_S[0]
        return max(_LEAST_PAUSE_S, self._heard_at + self._beat_s() - time.monotonic())

    def _beat_s(self) -> float:
        return min(BEAT_S[self.asked], max(BEAT_S[0], self._longest_silence_s))

    def _beat(self) -> None:
        handle, now = self._handle, time.monotonic()
        if handle is not None and now < self._read_at + INVENTORY_S[self.asked]:
            if now >= self._heard_at + self._beat_s():
                handle.call("heartbeat", CALL_TIMEOUT_S)
                self.heard()
            return
        handle = handle or self._connect()
        inventory = handle.call("inventory", CALL_TIMEOUT_S)
        self._read_at = now
        self.heard()
        devices = tuple(Device.from_json(device) for device in inventory["devices"])
        with self._lock:
            self._node = Node(self.name, devices, NodeState.AVAILABLE, self._address, inventory)
            self._handle = handle

    def has_room(self, free_bytes: int | None) -> None:
        """Note how much is free on the disk of the node's attempts, as its agent has just said: a run that met a full
        disk must not be placed there again because the inventory is older than that."""
        with self._lock:
            if free_bytes is not None and self._node.inventory.get("disk_free_bytes") is not None:
                inventory = {**self._node.inventory, "disk_free_bytes": free_bytes}
                self._node = replace(self._node, inventory=inventory)

    def _lose(self, why: str) -> None:
        with self._lock:
            if self._handle is not None and not self._closed.is_set():
                _log.warning("node %s: %s", self.name, why)
            self._why = why
            self._handle = None
            self._node = replace(self._node, state=NodeState.UNREACHABLE, reason=why)


class AgentCluster(ABC):
    """``Cluster`` over the keepers of its nodes. ``orchestrator.domain.ports.Cluster`` says what they promise."""

    @abstractmethod
    def _keepers(self) -> Mapping[str, Keeper]:
        """The nodes known now, by name."""

    @abstractmethod
    def hold(self, attempt_id: str, placement: Placement) -> Placement: ...

    @abstractmethod
    def holds(self) -> Collection[str]: ...

    @abstractmethod
    def let_go(self, over: Collection[str]) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def _end(self) -> None:
        """End agents and, with them, what runs."""

    def shut_down(self, *, end_runs: bool) -> Sequence[str]:
        left = [] if end_runs else self._where_attempts_go_on()
        if left:
            self.close()
        else:
            self._end()
        return left

    def _where_attempts_go_on(self) -> Sequence[str]:
        """The nodes whose agents do not say, all asked at once, that every attempt has ended."""
        asked: dict[str, Future[Any]] = {}
        keepers = self._keepers()
        for name, keeper in keepers.items():
            with contextlib.suppress(NodeUnreachable):
                asked[name] = keeper.handle.later("status", CALL_TIMEOUT_S)
        answered, _ = wait_for_any(asked.values(), CALL_TIMEOUT_S)
        return sorted(name for name in keepers if asked.get(name) not in answered or not _is_idle(asked[name]))

    def lost(self) -> str | None:
        return None

    def nodes(self) -> Sequence[Node]:
        return [keeper.node for keeper in self._keepers().values()]

    def reserve(self, node: str, attempt_id: str) -> Mapping[str, int]:
        found: Mapping[str, int] = self._call(node, "reserve", attempt_id=attempt_id)
        return found

    def start(self, node: str, job: Mapping[str, Any]) -> None:
        answer = self._call(node, "start", job=dict(job))
        if answer["state"] == "refused":
            message = f"node {node} refuses attempt {job.get('attempt_id')}: {answer['reason']}"
            raise JobRefused(message, answer.get("failure") or "setup_failed")

    def stop(self, node: str, attempt_id: str, reason: str) -> None:
        self._call(node, "stop", attempt_id=attempt_id, reason=reason)

    def status(self, node: str) -> Sequence[AttemptStatus]:
        answer, keeper = self._call(node, "status"), self._keeper(node)
        keeper.has_room(answer.get("disk_free_bytes"))
        keeper.fence_s = float(answer.get("fence_s") or keeper.fence_s)
        return [
            AttemptStatus(
                item["attempt_id"],
                item["token_sha256"],
                item["state"] == "ended",
                item["last_seq"],
                item.get("ended_ago_s"),  # not of agents of a version before
            )
            for item in answer["attempts"]
        ]

    def silent_s(self, node: str) -> float:
        keeper = self._keepers().get(node)
        return math.inf if keeper is None else keeper.silent_s

    def fence_s(self, node: str) -> float:
        return self._keeper(node).fence_s

    def fetch(self, node: str, attempt_id: str, after: int, limit: int = 1000) -> LogSlice:
        answer = self._call(node, "fetch", attempt_id=attempt_id, after=after, limit=limit)
        if not answer["known"]:
            raise NotFound("attempt", attempt_id)
        return LogSlice(answer["entries"], answer["last_seq"], answer["ended"])

    def acknowledge(self, node: str, attempt_id: str, seq: int) -> None:
        self._call(node, "acknowledge", attempt_id=attempt_id, seq=seq)

    def interpreters(self, node: str) -> Sequence[Mapping[str, Any]]:
        return list(self._call(node, "interpreters", INTERPRETERS_TIMEOUT_S))

    def checks(self, node: str) -> Mapping[str, Any]:
        # Slow answers are no loss of contact: a host may take long to tell, and trains on.
        try:
            found: Mapping[str, Any] = self._keeper(node).handle.later("checks", CHECKS_TIMEOUT_S).result()
        except AgentUnreachable as error:
            raise NodeUnreachable(node, f"no answer to the checks within {CHECKS_TIMEOUT_S:g} s: {error}") from error
        except AgentError as error:
            raise NodeFailed(node, f"its agent answers 'checks' with {error}") from error
        return found

    def wait(self, positions: Mapping[str, Mapping[str, int]], timeout_s: float) -> bool:
        pending = {future for node, after in positions.items() if after for future in self._question(node, after)}
        if pending:
            answered, _ = wait_for_any(pending, timeout_s, FIRST_COMPLETED)
            return any(map(_is_news, answered))
        # Nobody to hear from: do not let the caller spin.
        threading.Event().wait(timeout_s)
        return False

    def _question(self, node: str, after: Mapping[str, int]) -> "Iterator[Future[Any]]":
        """A question for news to the agent of ``node``; none where there is no way to it."""
        with contextlib.suppress(NotFound, NodeUnreachable):
            yield self._keeper(node).ask(after)

    def _is_asking(self) -> bool:
        """Whether an agent has a question to answer: attempts run, and nothing should stir that need not."""
        return any(keeper.asked for keeper in self._keepers().values())

    def _keeper(self, node: str) -> Keeper:
        keeper = self._keepers().get(node)
        if keeper is None:
            raise NotFound("node", node)
        return keeper

    def _call(self, node: str, method: str, timeout_s: float = CALL_TIMEOUT_S, **arguments: Any) -> Any:
        keeper = self._keeper(node)
        handle = keeper.handle
        try:
            answer = handle.call(method, timeout_s, **arguments)
        except AgentUnreachable as error:
            keeper.lose_contact(handle, str(error))
            raise NodeUnreachable(node, str(error)) from error
        except AgentError as error:
            keeper.heard()
            raise NodeFailed(node, f"its agent answers {method!r} with {error}") from error
        keeper.heard()
        return answer


def _is_news(answered: "Future[Any]") -> bool:
    """Also that an agent has fallen silent."""
    return answered.exception() is not None or bool(answered.result()["attempts"])


def _is_idle(answered: "Future[Any]") -> bool:
    return not answered.exception() and all(one["state"] == "ended" for one in answered.result()["attempts"])


def close_all(keepers: Iterable[Keeper]) -> None:
    """End all ``keepers``, side by side."""
    carry_out([keeper.close for keeper in keepers])


def carry_out(calls: Iterable[Callable[[], None]], limit_s: float = math.inf) -> None:
    """Make all ``calls`` side by side; those that are not done within ``limit_s`` are left to themselves."""
    over = time.monotonic() + limit_s
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(None if math.isinf(limit_s) else max(0.0, over - time.monotonic()))
