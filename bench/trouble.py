"""Runs of a healthy node per minute beside a node that fails each call, and beside one whose calls hang / alone.

Two real agents on one host. Of the second one every call but its keeper's fails in the cluster's adapter: with an
error, or with none after 5 s, which is how long adapters wait. It has runs to be placed, as the first one has.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.ratio import Ratio, in_turn, ratio
from orchestrator.cluster.agents import CALL_TIMEOUT_S, AgentError, AgentUnreachable, Handle
from orchestrator.cluster.local import LocalCluster
from orchestrator.db.opening import open_to_serve
from orchestrator.domain.around.access import LOCAL, Actor, Scope
from orchestrator.domain.around.server import Server
from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.runs.run import RunState
from orchestrator.services.clock import SystemClock
from orchestrator.services.context import Context
from orchestrator.services.experiment.submit import submit
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.reconcile.reconciler import Bell, Reconciler
from orchestrator.services.reconcile.trouble import WatchedCluster

# Of each node in a slice: so many that a node's first calls to hang, each waited for a second, are a small part of it.
# What is wanted is the rate beside a node that is in trouble, not the moment in which it comes.
RUNS = 200


class Rig:
    """A service without its door over two agents; ``trouble`` is what becomes of calls to the second."""

    def __init__(self, folder: Path) -> None:
        self.store = open_to_serve(
            f"sqlite:///{folder / 'tbd.sqlite3'}", Server("http://127.0.0.1:1", "bench", 1, 0.0), print
        )
        self.cluster = LocalCluster(folder / "local", 600.0, 900.0, nodes=2)
        self.well, sick = (keeper for _, keeper in sorted(self.cluster._known.items()))
        self.sick, self.trouble = sick, ""
        connect = sick._connect

        def spoilt() -> Handle:
            handle = connect()
            handle.call = partial(self._call, handle.call)  # type: ignore[method-assign]
            return handle

        sick._connect = spoilt
        sick.lose_contact(sick.handle, "to be found anew")
        while sick.node.state is not NodeState.AVAILABLE:
            time.sleep(0.1)
        clock, bell = SystemClock(), Bell()
        watched = WatchedCluster(self.cluster, clock)
        self.context = Context(self.store, watched, load_catalog(), clock, bell.ring)
        self.reconciler = Reconciler(self.context, bell, fence_s=600.0)
        self.reconciler.start()

    def _call(self, real: Callable[..., Any], method: str, patience_s: float, /, **arguments: Any) -> Any:
        is_keepers = threading.current_thread().name.startswith("tbd-node")
        if self.trouble == "error" and not is_keepers:
            raise AgentError("EIO: planted")
        if self.trouble == "hang" and not is_keepers:
            time.sleep(CALL_TIMEOUT_S)
            raise AgentUnreachable("no answer within 5 s")
        return real(method, patience_s, **arguments)

    def submit(self, node: str, repeats: int) -> str:
        spec = {
            "name": "bench-trouble",
            "model": "sleep",
            "framework": "sleep",
            "options": {"step_time_s": 0.001},
            "per_device_batch_size": 1,
            "max_steps": 20,
            "repeats": repeats,
            "max_repeats": repeats,
            "nodes": {"names": [node]},
        }
        return submit(self.context, spec, by=Actor(LOCAL, Scope.ADMIN))[0].id

    def per_minute(self, trouble: str) -> float:
        """Runs of the healthy node per minute."""
        self.trouble = trouble
        beside = self.submit(self.sick.name, RUNS) if trouble else None
        began = time.monotonic()
        experiment = self.submit(self.well.name, RUNS)
        while (counts := self.store.experiment(experiment).run_counts).get(RunState.COMPLETED, 0) < RUNS:
            if counts.get(RunState.FAILED):  # devices that another service of this machine takes, for one
                raise RuntimeError("runs of the healthy node fail: see tbd of another directory on this machine")
            time.sleep(0.2)
        rate = 60.0 * RUNS / (time.monotonic() - began)
        self.trouble = ""
        if beside:
            self.store.cancel_experiment(beside, time.time())
            self.context.wake()
            while self.store.experiment(beside).ended_at is None:
                time.sleep(0.2)
        return rate

    def close(self) -> None:
        self.reconciler.close()
        self.cluster.shut_down(end_runs=True)
        self.store.close()


@contextmanager
def rig() -> Iterator[Rig]:
    with tempfile.TemporaryDirectory() as folder:
        made = Rig(Path(folder))
        try:
            yield made
        finally:
            made.close()


def measure(service: Rig, pairs: int) -> list[Ratio]:
    alone = partial(service.per_minute, "")
    alone()
    return [
        ratio(f"runs a minute beside a node that {what} / alone", "0.95 or more", *in_turn(pairs, sick, alone))
        for what, sick in (
            ("fails each call", partial(service.per_minute, "error")),
            ("hangs in each call", partial(service.per_minute, "hang")),
        )
    ]
