"""The servers of a simulated world: what the product puts together, with calls that take time and fail.

Nothing of it runs in threads: a keeper does what its thread would when the world says so, lanes do their work at once.
"""

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from orchestrator.cluster import agents
from orchestrator.db.store import SqlStore
from orchestrator.domain.asked.placement import Placement
from orchestrator.domain.words.errors import StoreUnavailable
from orchestrator.services.context import Context
from orchestrator.services.reconcile.lanes import Work
from orchestrator.services.reconcile.reconciler import TROUBLE_S, Bell, Reconciler
from orchestrator.services.reconcile.trouble import WatchedCluster
from orchestrator.services.schedule.deadlines import Deadlines
from tests.simulation.agent import EPOCH, Json, Node

if TYPE_CHECKING:
    from tests.simulation.world import World

FENCE_S = 5.0
NODES = ("n0", "n1", "n2")
WRITES = {
    *("add_experiment", "add_runs", "end_experiment", "begin_attempt", "move_run", "conclude", "append_entries"),
    *("set_waiting", "request_stop", "note_alive", "cancel_experiment", "cancel_run"),
}


class Killed(BaseException):
    """The process of a server is no more."""


class Inline:
    """``Lanes`` of one thread: work is done when it is put there."""

    def __init__(self, came_late: Callable[[], None], patience_s: float = 0.0) -> None: ...

    def put(self, lane: str, work: Work) -> None:
        work()

    def under_way(self) -> frozenset[str]:
        return frozenset()

    def settle(self, lanes: Collection[str]) -> None: ...


class NoThread:
    def __init__(self, **named: Any) -> None: ...

    def start(self) -> None: ...

    def join(self, timeout: float) -> None: ...


class Way:
    """A way of ``server`` to the agent of ``node``, and what the network makes of it."""

    def __init__(self, server: "Server", node: Node) -> None:
        self._server, self._node, self._world = server, node, server.world

    def call(self, method: str, patience_s: float, /, **arguments: Any) -> Any:
        server, node, world = self._server, self._node, self._world
        told = f"{server.name} {method} {node.name} {arguments.get('attempt_id') or ''}"
        server.tick(told)
        deliver = partial(self._deliver, method, arguments)
        if node.name in world.cut_to or world.happens("dropped"):
            if world.happens("delayed"):
                world.note(f"{told}: comes late")
                world.at(world.between(patience_s, 30.0), lambda: self._quietly(deliver))
            self._fails(f"{told}: lost", patience_s)
        server.wait(world.between(0.001, 0.05))
        if node.hung:
            node.waiting.append(lambda: self._quietly(deliver))
            self._fails(f"{told}: hangs", patience_s)
        try:
            answer = deliver()
            if world.happens("twice"):
                world.note(f"{told}: comes twice")
                self._quietly(deliver)
        except ValueError as error:
            raise agents.AgentError(str(error)) from error
        if node.name in world.cut_from or world.happens("unanswered"):
            self._fails(f"{told}: the answer is lost", patience_s)
        if world.server is server:
            world.contacts[node.name].append(world.time)
        server.tick(told)
        return answer

    def _deliver(self, method: str, arguments: Json) -> Any:
        if self._node.agent is None:
            raise agents.AgentUnreachable("connection refused")
        answer = getattr(self._node.agent, method)(**arguments)
        if method not in ("status", "heartbeat", "inventory"):
            shown = answer if method != "fetch" else {"last_seq": answer["last_seq"], "ended": answer["ended"]}
            self._world.note(f"{self._server.name} {method} {self._node.name} {arguments.get('attempt_id')}: {shown}")
        return answer

    @staticmethod
    def _quietly(deliver: Callable[[], Any]) -> None:
        try:
            deliver()
        except (ValueError, agents.AgentUnreachable):
            return

    def _fails(self, why: str, patience_s: float) -> None:
        self._world.note(why)
        self._server.wait(patience_s)
        raise agents.AgentUnreachable(f"no answer within {patience_s:g} s")

    def later(self, method: str, patience_s: float, /, **arguments: Any) -> "Future[Any]":
        raise NotImplementedError("nobody listens in a simulation: passes look again by themselves")


class SimulatedCluster(agents.AgentCluster):
    """The product's cluster; its keepers do what their threads would when the world says so."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        self._kept = {name: agents.Keeper(name, partial(self._connect, name), FENCE_S) for name in NODES}
        for keeper in self._kept.values():
            self._keep(keeper)

    def _keepers(self) -> Mapping[str, agents.Keeper]:
        return self._kept

    def _connect(self, name: str) -> Way:
        """As the local cluster does: a dead agent is started anew, where its host can be reached."""
        world, node = self._server.world, self._server.world.nodes[name]
        if node.down or name in world.cut_to:
            raise agents.AgentUnreachable("no route to host")
        if node.agent is None:
            world.note(f"{name}: its agent starts")
            node.start_agent()
        return Way(self._server, node)

    def _keep(self, keeper: agents.Keeper) -> None:
        server = self._server
        if server.over:
            return
        server.is_keeping = True
        try:
            keeper._beat()
        except (agents.AgentUnreachable, agents.AgentError) as error:
            keeper._lose(str(error))
        finally:
            server.is_keeping = False
        server.world.at(max(keeper._pause_s(), 0.2), partial(self._keep, keeper))

    def hold(self, attempt_id: str, placement: Placement) -> Placement:
        return placement

    def holds(self) -> Collection[str]:
        return ()

    def let_go(self, over: Collection[str]) -> None: ...

    def close(self) -> None: ...

    def _end(self) -> None: ...


class Asked:
    """The store as ``server`` has it: each call takes time, may fail before or after it took effect, and may be the
    server's last. One that has a successor writes no more."""

    def __init__(self, store: SqlStore, server: "Server") -> None:
        self._store, self._server = store, server

    def __getattr__(self, name: str) -> Callable[..., Any]:
        real, server, world = getattr(self._store, name), self._server, self._server.world

        def call(*arguments: Any, **named: Any) -> Any:
            server.tick(name)
            server.wait(world.between(0.0, 0.02))
            if name in WRITES and server.superseded:
                raise StoreUnavailable("another server decides")
            if world.happens("store_away"):
                world.note(f"{server.name} {name}: the database is away")
                raise StoreUnavailable("the database is away")
            answer = real(*arguments, **named)
            if name == "open_runs":  # in no order that is promised
                answer = replace(answer, runs=sorted(answer.runs, key=lambda run: run.id))
            if name in WRITES:
                world.wrote(server.name, name, arguments, answer)
                if world.happens("commit_unanswered"):
                    world.note(f"{server.name} {name}: committed, and the connection is cut")
                    raise StoreUnavailable("the connection was cut")
            server.tick(name)
            return answer

        return call


class Server:
    """A server of the world: what ``orchestrator.app.running_service`` puts together, without threads."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.name = world, f"server{number}"
        self.dead = self.superseded = self.hangs = self.is_keeping = False
        self.bell = Bell()
        world.server = self
        cluster = WatchedCluster(SimulatedCluster(self), self)
        store: Any = Asked(world.store, self)
        self.context = Context(store, cluster, world.catalog, self, self.bell.ring)
        self._reconciler = Reconciler(self.context, self.bell, FENCE_S)
        self._deadlines = Deadlines(self.context, Bell())
        self._next_deadlines = 0.0

    @property
    def over(self) -> bool:
        return self.dead or self.superseded

    def now(self) -> float:
        return EPOCH + self.world.time + self.world.offset_s

    def monotonic(self) -> float:
        return self.world.time

    def tick(self, what: str) -> None:
        """It is about to make a call, or has made it."""
        if self.dead:
            raise Killed
        if self.world.happens("kill"):
            self.die(what)
        elif not self.superseded and not self.is_keeping and self.world.happens("hang"):
            self.world.hang(self, what)

    def die(self, what: str) -> None:
        self.world.note(f"{self.name} is killed at {what}")
        self.dead = True
        raise Killed

    def wait(self, duration_s: float) -> None:
        """Let time pass, but for its keepers: each has a thread of its own."""
        if not self.is_keeping:
            self.world.go(self.world.time + duration_s)
            if self.dead:
                raise Killed

    def step(self) -> None:
        """As ``Reconciler._run`` and ``Lookout._run`` do: passes, then a pause."""
        pause_s = TROUBLE_S
        try:
            if self.world.time >= self._next_deadlines:
                self._next_deadlines = self.world.time + min(self._deadlines.look(), 5.0)
            self._reconciler.reconcile()
            pause_s = self._reconciler._pause_s()
        except StoreUnavailable:
            self.bell.wait(0)
        until = min(self.world.time + pause_s, max(self._next_deadlines, self.world.time + 0.5))
        self.world.go(until, self.bell._awake.is_set)
        self.bell.wait(0)
        if self.dead:
            raise Killed
