"""Little scenes on a store for its tests: an experiment with runs, a run brought to a state."""

import itertools
from typing import Any

from orchestrator.domain.ports import Store
from orchestrator.domain.runs.run import Attempt, Experiment, ExperimentState, Run, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import Analysis, Measurement, Validity
from orchestrator.services.clock import new_id
from tests.unit import builders as make

CRASH = Failure(FailureKind.CRASHED, "rank 1 died", ranks=(1,), signal="SIGSEGV", stderr_tail="a\x00b")
LOST = Failure(FailureKind.NODE_LOST, "n0 fell silent")


def experiment(at: float = 1000.0, owner: str = "ada", **fields: Any) -> Experiment:
    """A new experiment, not stored; ``fields`` are of its spec."""
    spec = make.spec(**fields)
    return Experiment(new_id("exp"), owner, spec, {"device": "cpu", "pool": [1, 1]}, ExperimentState.ACTIVE, at)


def runs_for(of: Experiment, count: int = 1, first: int = 1, **plan: Any) -> list[Run]:
    """New queued runs, not stored: repetitions ``first``, ``first`` + 1 …"""
    return [
        make.run(
            new_id("run"),
            experiment_id=of.id,
            plan=make.plan(repetition=repetition, **plan),
            created_at=of.created_at + repetition * 1e-6,
            priority=of.spec.priority,
            owner=of.owner,
        )
        for repetition in range(first, first + count)
    ]


def submitted(store: Store, runs: int = 1, **fields: Any) -> tuple[Experiment, list[Run]]:
    """A stored experiment with runs."""
    new = experiment(**fields)
    queued = runs_for(new, runs)
    store.add_experiment(new, queued)
    return new, queued


def attempt_of(run: Run, number: int = 1, **fields: Any) -> Attempt:
    """A new attempt, not stored."""
    return make.attempt(run.id, number, id=new_id("att"), **fields)


def brought_to(store: Store, run: Run, state: RunState, at: float = 2000.0) -> Attempt | None:
    """Bring a queued run to ``state`` by legal moves; its attempt, if it has one."""
    if state is RunState.QUEUED:
        return None
    attempt = attempt_of(run, created_at=at)
    assert store.begin_attempt(run.id, attempt)
    road = [RunState.PLACING, RunState.RUNNING, RunState.COLLECTING]
    road = [*road, state] if state not in road else road[: road.index(state) + 1]
    for step, (here, there) in enumerate(itertools.pairwise(road), start=1):
        assert store.move_run(run.id, here, there, at=at + step)
    return attempt


def analysis(value: float = 12.5) -> Analysis:
    """What a run came to, disturbed by a load; ``value``: its throughput."""
    throughput = Measurement("throughput", value, "images/s", "mean", "96 x 96", 12.0, 13.0, 0.95, 60.0, "this run")
    per_core = Measurement("power_w", None, "W", "counter", reason="no sensor", subject="device:0")
    return Analysis(
        Validity((make.LOADED,), ("a note",)),
        measurements=(throughput, per_core),
        circumstances={"versions": {"framework": "pytorch"}},
        summary={"steps": 60},
        code_version="1.0",
    )


def entry(seq: int, kind: str = "loss", **fields: Any) -> dict[str, Any]:
    """An entry of an event log."""
    whole = {"seq": seq, "kind": kind, "t": 1.5, "wall": 1000.5, "rank": 0, "source": "worker-0", "data": {"step": seq}}
    return whole | fields
