"""Schedulers over a real store with a clock that is set by hand, and a cluster that only says what it consists of."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.domain.around.access import LOCAL, Actor, Scope
from orchestrator.domain.around.schedule import Fire, Schedule
from orchestrator.domain.asked.placement import Node, NodeState
from orchestrator.domain.runs.filters import FireFilter
from orchestrator.domain.runs.run import ExperimentState, RunState
from orchestrator.services.context import Context
from orchestrator.services.reconcile.reconciler import Bell
from orchestrator.services.schedule import schedules
from orchestrator.services.schedule.scheduler import POLL_S, Scheduler
from tests.unit import builders

# Tests of what knows the store by its port alone; the store itself is held on both databases.
MOSTLY_SQLITE = pytest.mark.parametrize(
    "url", ["sqlite", pytest.param("postgresql", marks=pytest.mark.after_change)], indirect=True
)
WHO = Actor(LOCAL, Scope.ADMIN)
SPEC: dict[str, Any] = {
    "name": "night",
    "model": "net",
    "framework": "pytorch",
    "per_device_batch_size": 4,
    "repeats": 1,
}


def at(text: str) -> float:
    """Seconds since the epoch of ``2026-11-22 02:00``, UTC."""
    return datetime.fromisoformat(f"{text}+00:00").timestamp()


class HandClock:
    """``domain.ports.Clock``, set by hand."""

    def __init__(self, now: float) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time


class Nodes:
    """A cluster of nodes that stand still: one in ``state``, with ``devices``, and ``others``."""

    def __init__(self) -> None:
        self.state = NodeState.AVAILABLE
        self.devices = 1
        self.others: Sequence[Node] = ()

    def nodes(self) -> Sequence[Node]:
        return [builders.node("n0", self.devices, state=self.state), *self.others]


class Server:
    """One server of the database at ``url``; ``look`` is a pass of its scheduler."""

    def __init__(self, url: str, now: str | float, poll_s: float = POLL_S) -> None:
        self.store = SqlStore(url)
        self.clock = HandClock(at(now) if isinstance(now, str) else now)
        self.cluster = Nodes()
        self.catalog = builders.catalog()
        self.context = Context(self.store, self.cluster, self.catalog, self.clock, lambda: None)  # type: ignore[arg-type]
        self.scheduler = Scheduler(self.context, Bell(), poll_s)

    def add(self, cron: str = "0 2 * * *", by: Actor = WHO, **fields: Any) -> Schedule:
        body = {"name": "nightly", "cron": cron, "spec": SPEC} | fields
        return schedules.add(self.context, body, by)[0]

    def look(self, now: str | float | None = None) -> float:
        """Have it look at the time ``now``; how long it would pause then."""
        if now is not None:
            self.clock.time = at(now) if isinstance(now, str) else now
        return self.scheduler.look()

    def fires(self, schedule: Schedule) -> list[Fire]:
        """All, the earliest time first."""
        return list(self.store.fires(FireFilter(schedule.id), limit=10_000).items)[::-1]

    def became(self, schedule: Schedule) -> list[tuple[str, str]]:
        """(time, what it became) of all."""
        return [(f"{datetime.fromtimestamp(one.at, UTC):%m-%d %H:%M}", one.state.value) for one in self.fires(schedule)]

    def end(self, experiment_id: str | None) -> None:
        """Have an experiment be over."""
        assert experiment_id is not None
        for run in self.store.runs_of(experiment_id):
            assert self.store.move_run(run.id, RunState.QUEUED, RunState.CANCELLED, at=self.clock.time)
        assert self.store.end_experiment(experiment_id, ExperimentState.COMPLETED, self.clock.time)

    def close(self) -> None:
        self.store.close()
