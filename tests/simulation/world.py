"""A world by a seed: servers of the product over a real store, nodes, a network between, clients, and their bad luck.

One thread does everything, one call of a port after the other. What happens meanwhile happens within that call, while
its time passes: so the same seed does the same again.
"""

import heapq
import itertools
import logging
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from sqlalchemy import select

from orchestrator.cluster import agents
from orchestrator.db.store import SqlStore
from orchestrator.db.tables.schema import result
from orchestrator.domain.around.access import Actor, Scope
from orchestrator.domain.asked.catalog import Catalog
from orchestrator.domain.runs.run import TERMINAL, Experiment, ExperimentState, RunState
from orchestrator.domain.words.errors import NotFound, StoreUnavailable
from orchestrator.services.experiment import cancel
from orchestrator.services.experiment import submit as submitting
from orchestrator.services.reconcile import application, reconciler
from orchestrator.services.reconcile.situation import Lookout
from tests.simulation.agent import EPOCH, Json, Node
from tests.simulation.servers import FENCE_S, NODES, Inline, Killed, NoThread, Server
from tests.support.promises import Evidence, Span, Training

# When everything is well again, and until when all has to be over then.
HEALED_S, SETTLED_S = 70.0, 600.0
# Within so many seconds of its deadline a run is over where all is well: a look at the deadlines, a pass of many calls,
# processes that take their time. Where a node is silent its fence and the margin come before.
SLACK_S = 30.0


class Told(logging.Handler):
    """What the product's log says stands in the history."""

    def __init__(self, world: "World") -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._world.note(f"log: {record.getMessage()}" + (f" {error!r}" if error else ""))


class World:
    """What happens by ``seed``; ``run`` it, then ask for the ``evidence``. ``risks``: what happens how often, for those
    who want no chance in it."""

    def __init__(self, seed: int, store: SqlStore, catalog: Catalog, risks: Mapping[str, float] | None = None) -> None:
        self.seed, self.store, self.catalog = seed, store, catalog
        self.random = Random(seed)
        self.time = 0.0
        self.history: list[str] = []
        self.counts: Counter[str] = Counter()
        self.risks = self._risks() if risks is None else dict(risks)
        self.offset_s = 0.0  # of the server's clock that tells the time
        self.cut_to: set[str] = set()
        self.cut_from: set[str] = set()
        self.contacts: dict[str, list[float]] = defaultdict(list)
        self.server: Server | None = None
        self.nodes = {name: Node(self, name, _inventory(name), FENCE_S, self._train_s) for name in NODES}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._ids = itertools.count(1)
        self._servers = itertools.count(1)
        self._living: dict[tuple[str, str], float] = {}
        self._trainings: list[Training] = []
        self._spans: dict[str, Span] = {}
        self._over: dict[str, float] = {}
        self._removed: dict[tuple[str, str], int] = {}
        self._told: dict[str, set[RunState]] = defaultdict(set)
        self._clients = 0
        self.acknowledged: dict[str, list[str]] = {}

    # chance

    def _risks(self) -> dict[str, float]:
        """Each kind of bad luck is there in about half of all worlds, and more or less of it."""
        most = {
            "kill": 0.01,  # at a call of a port, and half of it after the call
            "hang": 0.003,
            "dropped": 0.02,
            "delayed": 1.0,  # of those that were dropped
            "twice": 0.05,
            "unanswered": 0.02,
            "store_away": 0.01,
            "commit_unanswered": 0.01,
        }
        return {name: self.random.choice((0.0, self.random.random())) * value for name, value in most.items()}

    def happens(self, what: str) -> bool:
        happens = self.time < HEALED_S and self.random.random() < self.risks.get(what, 0.0)
        self.counts[what] += happens
        return happens

    def between(self, least: float, most: float) -> float:
        return self.random.uniform(least, most)

    def _train_s(self) -> float:
        return self.random.choice((self.between(0.1, 3.0), self.between(3.0, 25.0), self.between(25.0, 60.0)))

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}_{self.seed}x{next(self._ids):05}"

    # time

    def note(self, text: str) -> None:
        self.history.append(f"{self.time:8.2f} {text}")

    def at(self, delay_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.time + delay_s, next(self._order), call))

    def go(self, until: float, awake: Callable[[], bool] = lambda: False) -> None:
        """Let what is due happen until then, or until somebody is ``awake``."""
        while self._events and self._events[0][0] <= until and not awake():
            due, _, call = heapq.heappop(self._events)
            self.time = max(self.time, due)
            call()
        if not awake():
            self.time = max(self.time, until)

    # what notes itself

    def began(self, node: str, attempt_id: str) -> None:
        self.note(f"{node}: {attempt_id} trains")
        self._living[attempt_id, node] = self.time

    def ended(self, node: str, attempt_id: str) -> None:
        self.note(f"{node}: {attempt_id} trains no longer")
        self._trainings.append(Training(attempt_id, node, self._living.pop((attempt_id, node)), self.time))

    def removed(self, node: str, attempt_id: str, entries: int) -> None:
        self._removed[attempt_id, node] = entries

    def wrote(self, server: str, method: str, arguments: tuple[Any, ...], answer: Any) -> None:
        """The store has committed."""
        shown = [one.id if hasattr(one, "id") else one for one in arguments if not isinstance(one, list)]
        self.note(f"{server} {method} {' '.join(map(str, shown))}: {answer if isinstance(answer, bool | int) else ''}")
        if method == "begin_attempt" and answer:
            self._spans[arguments[1].id] = Span(self.time, math.inf)
        if method in ("conclude", "move_run") and answer:
            run = self.store.run(arguments[0])
            if run.state in TERMINAL:
                self._over[run.id] = self.time
            if method == "conclude" and run.attempt:
                self._spans[run.attempt.id] = Span(self._spans[run.attempt.id].begun, self.time)

    # bad luck

    def _plan_bad_luck(self) -> None:
        kinds: list[Callable[[], None]] = [self._cut, self._kill_agent, self._hang_agent, self._reboot, self._jump]
        for kind in self.random.sample(kinds, self.random.randint(0, len(kinds))):
            for _ in range(self.random.randint(1, 2)):
                self.at(self.between(1.0, HEALED_S - 10.0), kind)
        self.at(HEALED_S, self._heal)

    def _any_node(self) -> Node:
        return self.nodes[self.random.choice(NODES)]

    def _cut(self) -> None:
        node, how = self._any_node().name, self.random.choice(("to", "from", "both"))
        ways = [way for name, way in (("to", self.cut_to), ("from", self.cut_from)) if how in (name, "both")]
        self.note(f"the network to {node} is cut ({how})")
        for way in ways:
            way.add(node)
            self.at(self.between(1.0, 40.0), partial(way.discard, node))

    def _kill_agent(self) -> None:
        node = self._any_node()
        self.note(f"{node.name}: its agent is killed")
        node.kill_agent()

    def _hang_agent(self) -> None:
        node = self._any_node()
        self.note(f"{node.name}: its agent hangs")
        node.hang()
        self.at(self.between(1.0, 40.0), node.go_on)

    def _reboot(self) -> None:
        node = self._any_node()
        self.note(f"{node.name} is off")
        node.power_off()
        self.at(self.between(1.0, 40.0), node.power_on)

    def _jump(self) -> None:
        """A clock jumps that tells the time: a node's, or the server's, which goes one way: one that was put ahead for
        the beginning of an attempt, and back, hides that another one lived."""
        by = self.random.choice((-1, 1)) * self.between(1.0, 100.0)
        node = self.random.choice((None, self._any_node()))
        by = by if node else math.copysign(by, self.offset_s or by)
        self.note(f"the clock of {node.name if node else 'the server'} jumps by {by:.1f} s")
        if node:
            node.offset_s += by
        else:
            self.offset_s += by

    def hang(self, server: Server, what: str) -> None:
        """The whole process stands still at a call; there may be a successor before it goes on."""
        duration_s = self.between(1.0, 40.0)
        replaced = self.random.random() < 0.5
        self.note(f"{server.name} hangs at {what} for {duration_s:.1f} s" + (" and is replaced" if replaced else ""))
        server.hangs = True
        until = self.time + duration_s
        if replaced:
            server.superseded = True
            self._start_server()
            self.drive(until)
        else:
            self.go(until)
        server.hangs = False
        self.note(f"{server.name} goes on")
        if server.dead:
            raise Killed

    def _heal(self) -> None:
        self.note("all is well again")
        self.cut_to.clear()
        self.cut_from.clear()
        for node in self.nodes.values():
            node.go_on()
            if node.down:
                node.power_on()

    # clients

    def _plan_clients(self) -> None:
        self._clients = self.random.randint(1, 4)
        for number in range(self._clients):
            self.at(self.between(0.0, 30.0), partial(self._submit, number, self._spec(number)))
        for _ in range(self.random.randint(0, 2)):
            self.at(self.between(1.0, HEALED_S), self._cancel)
        for _ in range(5):
            self.at(self.between(1.0, HEALED_S), self._ask)
        self.at(HEALED_S, self._cancel_what_waits)

    def _spec(self, number: int) -> Json:
        kind = self.random.choice(("one", "one", "several", "gang", "nowhere"))
        spec = {
            "name": f"{self.seed}-{number}",
            "model": "sleep",
            "framework": "sleep",
            "per_device_batch_size": 1,
            "repeats": 3 if kind == "several" else 1,
            "max_repeats": 3 if kind == "several" else 1,
            "seed": (self.seed * 10 + number) % 2**31,  # a cell of its own
            "deadline_s": self.random.choice((None, round(self.between(5.0, 100.0), 1))),
        }
        gang = {"strategy": "gang", "topology": "2x1", "fabric": "ethernet"}
        more = {"gang": gang, "nowhere": {"nodes": {"names": ["nowhere"]}}}
        return spec | more.get(kind, {})

    def _is_served(self) -> bool:
        return self.server is not None and not self.server.hangs and not self.server.over

    def _submit(self, number: int, spec: Json) -> None:
        """Until it is acknowledged, with one key."""
        if not self._is_served():
            self.at(1.0, partial(self._submit, number, spec))
            return
        assert self.server is not None
        by = Actor(f"client{self.seed}-{number}", Scope.SUBMIT)
        try:
            stored, _ = submitting.submit(self.server.context, spec, by=by, idempotency_key=str(spec["name"]))
        except (Killed, StoreUnavailable) as error:
            self.at(1.0, partial(self._submit, number, spec))
            if isinstance(error, Killed):
                raise
            return
        self.note(f"client{number}: {stored.id} is acknowledged")
        self.acknowledged[stored.id] = []
        with suppress(NotFound):
            self.acknowledged[stored.id] = [run.id for run in self.store.runs_of(stored.id)]

    def _cancel(self) -> None:
        """A run, or an experiment; who is not answered tries again."""
        if not self._is_served() or not self.acknowledged:
            return
        assert self.server is not None
        experiment = self.random.choice(list(self.acknowledged))
        by = Actor("admin", Scope.ADMIN)
        try:
            if self.random.random() < 0.5 or not self.acknowledged[experiment]:
                cancel.cancel_experiment(self.server.context, experiment, by)
            else:
                run = self.random.choice(self.acknowledged[experiment])
                cancel.cancel_run(self.server.context, run, by)
        except StoreUnavailable:
            self.at(1.0, self._cancel)
        except NotFound:  # it was lost: the checker tells
            return

    def _ask(self) -> None:
        """How all stands."""
        for experiment in self._stored():
            for run in self.store.runs_of(experiment.id):
                if run.state in TERMINAL:
                    self._told[run.id].add(run.state)

    def _cancel_what_waits(self) -> None:
        """Nobody else would end what waits for nodes that are not there and has no deadline."""
        for one in self._stored():
            if one.deadline_at is None and one.spec.nodes.names == ["nowhere"]:
                self.store.cancel_experiment(one.id, EPOCH + self.time)
        if self.server:
            self.server.bell.ring()
        if len(self.acknowledged) < self._clients:
            self.at(1.0, self._cancel_what_waits)

    # the walk

    def _start_server(self) -> None:
        server = Server(self, next(self._servers))
        self.note(f"{server.name} starts")

    def run(self) -> None:
        """Until all is over, and nothing is left on any node."""
        with self._simulated():
            self._plan_clients()
            self._plan_bad_luck()
            self.drive(SETTLED_S)
            self._ask()

    @contextmanager
    def _simulated(self) -> Iterator[None]:
        """Without threads and clocks, and with ids that are the same again."""
        threads = SimpleNamespace(**vars(agents.threading) | {"Thread": NoThread})
        with ExitStack() as stack:
            for of, name, ours in [
                (agents, "time", SimpleNamespace(monotonic=lambda: self.time)),
                (agents, "threading", threads),
                (reconciler, "Lanes", Inline),
                (application, "new_id", self._new_id),
                (application, "new_token", partial(self._new_id, "token")),
                (submitting, "new_id", self._new_id),
            ]:
                stack.enter_context(patch.object(of, name, ours))
            root, told = logging.getLogger(), Told(self)
            root.addHandler(told)
            stack.callback(root.removeHandler, told)
            yield

    def drive(self, until: float) -> None:
        """Whatever server there is, until then, or until all is over."""
        looked_at = 0.0
        while self.time < until:
            server = self.server
            try:
                if server is None:
                    self.go(self.time + self.between(0.1, 15.0))
                    self._start_server()
                elif server.over:
                    self.server = None
                else:
                    server.step()
            except Killed:
                self.counts["kills"] += 1
            if self.time > looked_at + 5.0:
                looked_at = self.time
                if self._is_over():
                    return

    def _is_over(self) -> bool:
        left = any(folder.over is None for node in self.nodes.values() for folder in node.disk.values())
        if left or self._living or len(self.acknowledged) < self._clients:
            return False
        found = self._stored()
        return all(one.state is not ExperimentState.ACTIVE for one in found)

    def _stored(self) -> list[Experiment]:
        """Those of the acknowledged experiments that are there."""
        found = []
        for experiment in self.acknowledged:
            with suppress(NotFound):
                found.append(self.store.experiment(experiment))
        return found

    def evidence(self) -> Evidence:
        stored = self._stored()
        runs = {one.id: self.store.runs_of(one.id) for one in stored}
        due = {}
        for experiment in stored:
            at = SETTLED_S if experiment.deadline_at is None else experiment.deadline_at - EPOCH - self.offset_s
            bound = max(at, HEALED_S) + FENCE_S + Lookout.FENCE_MARGIN_S + SLACK_S
            due.update({run.id: bound for run in runs[experiment.id]})
        ids = [run.id for found in runs.values() for run in found]
        query = select(result.c.run_id, result.c.attempt_id).where(result.c.run_id.in_(ids))
        results = self.store.database.read(lambda connection: connection.execute(query).all())
        lasts = {attempt: self.store.last_seqs(attempt) for attempt, _ in self._removed}
        living = [Training(*one, begun, math.inf) for one, begun in self._living.items()]
        return Evidence(
            acknowledged=self.acknowledged,
            runs=runs,
            changes=[one for experiment in runs for one in self.store.changes(experiment)],
            trainings=[*self._trainings, *living],
            spans=self._spans,
            fence_s=FENCE_S,
            results={run: [attempt] for run, attempt in results if attempt},
            told=self._told,
            due=due,
            over=self._over,
            contacts=self.contacts,
            removed=self._removed,
            kept={(attempt, node): lasts[attempt].get(node, 0) for attempt, node in self._removed},
        )


def _inventory(name: str) -> Json:
    device = {"id": "cpu:0", "kind": "cpu", "name": "a cpu", "cores": [0], "memory_bytes": None}
    ethernet = {"interface": "eth0", "address": name, "speed_bits_per_s": None, "source": "kernel"}
    return {"node": name, "hostname": name, "devices": [device], "fabrics": {"ethernet": ethernet}}
