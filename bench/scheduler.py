"""A pass of the scheduler over a large cluster and a long queue / over small ones, and beside silent nodes.

The store is a real one (SQLite); of the nodes nothing is real but what their agents would say. On each node but one a
run goes on that has it to itself; ``QUEUED`` wait for every node, of twelve kinds and twenty owners. A pass looks at
all that anew, as it does after every change, and decides to begin one run.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.ratio import Ratio, in_turn, ratio
from orchestrator.db.store import SqlStore
from orchestrator.domain.asked.placement import Node, NodeShare, Placement
from orchestrator.domain.runs.log import AttemptStatus
from orchestrator.domain.runs.run import RunState
from orchestrator.domain.words.errors import NodeUnreachable
from orchestrator.services.clock import SystemClock
from orchestrator.services.reconcile.decisions import Launch, decide
from orchestrator.services.reconcile.lanes import Lanes
from orchestrator.services.reconcile.situation import Lookout
from orchestrator.services.reconcile.trouble import Troubles
from tests.contract import store_scenes as scene
from tests.unit import builders as make

DEVICES, QUEUED, KINDS, OWNERS = 8, 100, 12, 20
LARGE, SMALL = 1000, 100  # nodes
SILENT = 0.01
PART = 2000  # runs of an experiment


class Standing:
    """A cluster whose agents say that what was begun there goes on; a share of them says nothing."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self.attempts: dict[str, list[AttemptStatus]] = {node.name: [] for node in nodes}
        self.silent: set[str] = set()

    def nodes(self) -> Sequence[Node]:
        return self._nodes

    def holds(self) -> Sequence[str]:
        return ()

    def status(self, node: str) -> Sequence[AttemptStatus]:
        if node in self.silent:
            raise NodeUnreachable(node, "no answer")
        return self.attempts[node]

    def silent_s(self, node: str) -> float:
        return 1.0


class Pass:
    """All that a pass needs, over ``nodes`` nodes."""

    def __init__(self, folder: Path, nodes: int) -> None:
        self.store = SqlStore(f"sqlite:///{folder / f'{nodes}.sqlite3'}")
        self.cluster = Standing([make.node(f"n{number:04}", DEVICES) for number in range(nodes)])
        self._fill()
        clock = SystemClock()
        context: Any = SimpleNamespace(store=self.store, cluster=self.cluster, clock=clock, catalog=make.catalog())
        self._lookout = Lookout(context, 60.0, Lanes(lambda: None, patience_s=600.0), Troubles(clock))

    def _fill(self) -> None:
        nodes = self.cluster.nodes()
        (going,) = self._queue(1, len(nodes) - 1)
        for run, node in zip(going, nodes, strict=False):
            attempt = scene.attempt_of(run, placement=Placement((NodeShare(node.name, node.devices),)))
            self.store.begin_attempt(run.id, attempt)
            self.store.move_run(run.id, RunState.PLACING, RunState.RUNNING, at=1.0)
            self.cluster.attempts[node.name].append(AttemptStatus(attempt.id, "", False, 1))
        for _ in self._queue(OWNERS * KINDS, QUEUED * len(nodes)):
            pass

    def _queue(self, parts: int, runs: int) -> Iterator[Any]:
        """Runs in experiments, of which each owner has one of each kind."""
        for part in range(parts):
            of = scene.experiment(owner=f"o{part % OWNERS}", at=float(part))
            count = runs // parts + (part < runs % parts)
            queued = scene.runs_for(of, count, interpreter=f"k{part // OWNERS}")
            self.store.add_experiment(of, queued)
            yield queued

    def taken_s(self) -> float:
        """Seconds of a pass after a change."""
        self._lookout.forget()
        begun = time.perf_counter()
        actions = decide(self._lookout.look())
        taken_s = time.perf_counter() - begun
        assert sum(isinstance(action, Launch) for action in actions) == 1
        return taken_s


@contextmanager
def rig() -> Iterator[Sequence[Pass]]:
    with tempfile.TemporaryDirectory(prefix="tbd-bench-") as folder:
        passes = [Pass(Path(folder), nodes) for nodes in (LARGE, SMALL)]
        yield passes
        for one in passes:
            one.store.close()


def measure(passes: Sequence[Pass], pairs: int) -> list[Ratio]:
    large, small = passes
    much, little = in_turn(pairs, large.taken_s, small.taken_s)
    name = f"a pass: {LARGE} nodes, {QUEUED * LARGE} queued / {SMALL} nodes, {QUEUED * SMALL} queued"
    names = [node.name for node in large.cluster.nodes()]

    def beside_silent_s() -> float:
        large.cluster.silent = set(names[:: round(1 / SILENT)])
        try:
            return large.taken_s()
        finally:
            large.cluster.silent = set()

    silent, none = in_turn(pairs, beside_silent_s, large.taken_s)
    return [
        ratio(name, "<= 3", much, little),
        ratio(f"a pass with {SILENT:.0%} of {LARGE} nodes silent / with none", "<= 1.5", silent, none),
    ]
