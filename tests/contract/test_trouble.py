"""Trouble stays where it is: whatever a call of a port raises, or if it never returns, a run elsewhere completes."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.domain.around.access import LOCAL, Actor, Scope
from orchestrator.domain.asked.placement import Node, NodeState, Placement
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.domain.runs.log import AttemptStatus, LogSlice
from orchestrator.domain.runs.run import ExperimentState, Run, RunState
from orchestrator.domain.value.failure import FailureKind
from orchestrator.domain.words.errors import (
    ClusterUnavailable,
    Conflict,
    NodeFailed,
    NodeUnreachable,
    NotFound,
    StoreUnavailable,
)
from orchestrator.services.context import Context
from orchestrator.services.experiment.submit import submit
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.pulse import LONGEST_S
from orchestrator.services.reconcile import conclude, review
from orchestrator.services.reconcile.reconciler import Bell, Reconciler
from orchestrator.services.reconcile.trouble import WatchedCluster
from tests.support.schedule_rig import HandClock
from tests.unit import builders

pytest_plugins = ["tests.contract.store_servers"]

CATALOG = load_catalog()
LOG = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "replays" / "logs" / "good_sleep.jsonl").read_text().splitlines()
]
SICK, WELL = "sick", "well"
# What the passes ask of the ports; `test_these_are_the_calls_of_passes` holds that it is all.
OF_STORE = [
    *(
        "idle_experiments",
        "open_runs",
        "queue_heads",
        "earlier_runs",
        "node_orders",
        "entries",
        "last_seqs",
        "append_entries",
    ),
    *("begin_attempt", "move_run", "conclude", "calibrated", "completed_of_cell", "experiment", "runs_of_cell"),
    *("verdicts_of", "end_experiment", "set_waiting", "add_runs", "open_device_events", "uses"),
]
OF_STRAYS = ["attempts_over", "note_alive"]
OF_CLUSTER = ["nodes", "hold", "holds", "let_go", "start", "status", "fence_s", "fetch", "acknowledge"]
FAULTS = ("exception", "answer", "hang")


class Playing:
    """Two nodes whose agents play the log of a good run for whatever they are told to start."""

    def __init__(self) -> None:
        self.started: dict[str, set[str]] = {SICK: set(), WELL: set()}
        self.held: set[str] = set()
        self.silent = 0.0
        self.cut = ""  # the node that hears nothing and is not heard
        self.living: set[str] = set()  # attempts that go on until they are stopped
        self.goes_on = False  # so does what is begun
        self.ended_ago_s: float | None = None  # of what has ended, where agents tell

    def nodes(self) -> Sequence[Node]:
        return [builders.node(SICK), builders.node(WELL)]

    def hold(self, attempt_id: str, placement: Placement) -> Placement:
        self.held.add(attempt_id)
        return placement

    def holds(self) -> Collection[str]:
        return set(self.held)

    def let_go(self, over: Collection[str]) -> None:
        self.held -= set(over)

    def start(self, node: str, job: Mapping[str, Any]) -> None:
        self.started[node].add(job["attempt_id"])
        if self.goes_on:
            self.living.add(job["attempt_id"])

    def stop(self, node: str, attempt_id: str, reason: str) -> None:
        self._reach(node)
        self.living.discard(attempt_id)

    def _reach(self, node: str) -> None:
        if node == self.cut:
            raise NodeUnreachable(node, "the network is cut")

    def status(self, node: str) -> Sequence[AttemptStatus]:
        self._reach(node)
        last, ago_s = LOG[-1]["seq"], self.ended_ago_s
        return [AttemptStatus(one, "", one not in self.living, last, ago_s) for one in self.started[node]]

    def silent_s(self, node: str) -> float:
        return 1000.0 if node == self.cut else self.silent

    def fence_s(self, node: str) -> float:
        return 60.0

    def fetch(self, node: str, attempt_id: str, after: int, limit: int = 1000) -> LogSlice:
        self._reach(node)
        if attempt_id not in self.started[node]:
            raise NotFound("attempt", attempt_id)
        ended = attempt_id not in self.living
        return LogSlice([one for one in LOG if one["seq"] > after and ended], LOG[-1]["seq"] if ended else 0, ended)

    def acknowledge(self, node: str, attempt_id: str, seq: int) -> None:
        if seq == LOG[-1]["seq"]:
            self.started[node].discard(attempt_id)

    def lost(self) -> None: ...


class Planted:
    """A port of which ``method`` fails as ``fault`` says, ``times`` often, where its arguments tell of the sick node;
    where they cannot tell, the first time."""

    def __init__(self, port: Any, fault: str = "", method: str = "", times: float = float("inf")) -> None:
        self.port, self.fault, self.method, self.times = port, fault, method, times
        self.sick, self.well = {SICK}, {WELL, "exp_", "run_", "att_"}
        self.calls: Counter[str] = Counter()
        self.hit = 0
        self.released = threading.Event()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.port, name)
        return self._wrapped(name, real) if callable(real) else real

    def _wrapped(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.calls[name] += 1
            if name == self.method and self.hit < self.times and self._concerns(arguments, named):
                self.hit += 1
                self._fail(real)
            return real(*arguments, **named)

        return call

    def _concerns(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> bool:
        told = [repr(one) for one in (*arguments, *named.values()) if not _is_log(one)]
        if any(one in text for one in self.sick for text in told):
            self.sick.update(one for one in arguments if isinstance(one, str) and one.startswith("att_"))
            return True
        return self.hit == 0 and not any(mark in text for mark in self.well for text in told)

    def _fail(self, real: Any) -> None:
        if self.fault == "hang":
            self.released.wait()
        if self.fault == "answer":
            raise NodeFailed(SICK, "EISDIR") if isinstance(self.port, Playing) else StoreUnavailable("the disk is busy")
        raise RuntimeError("planted")


def _is_log(one: Any) -> bool:
    """Entries tell of the run that they were recorded of."""
    return isinstance(one, list) and any(isinstance(entry, dict) for entry in one)


class Scene:
    """A service without its door, whose clock is moved by hand, with a run for each node."""

    def __init__(self, store: SqlStore, of_store: tuple[Any, ...] = (), of_cluster: tuple[Any, ...] = ()) -> None:
        self.playing = Playing()
        self.store, self.cluster = Planted(store, *of_store), Planted(self.playing, *of_cluster)
        self.clock = HandClock(1_800_000_000.0)
        cluster: Any = WatchedCluster(self.cluster, self.clock)  # type: ignore[arg-type]
        self.context = Context(self.store, cluster, CATALOG, self.clock, lambda: None)  # type: ignore[arg-type]
        quiet = Context(store, self.playing, CATALOG, self.clock, lambda: None)  # type: ignore[arg-type]
        self._quiet = quiet
        self.of: dict[str, str] = {}
        self.submit(SICK, SICK, repeats=2)  # the second one waits for the first
        self.submit(WELL, WELL)
        for run in store.runs_of(self.of[SICK]):
            self.store.sick |= {self.of[SICK], run.id, run.plan.cell_key}
        self.store.well |= {run.plan.cell_key for run in store.runs_of(self.of[WELL])}
        self.cluster.sick = self.store.sick
        self.real = store
        # So short that a hang costs the test little, and long enough for what is done on a busy machine.
        self.bell = Bell()
        self.reconciler = Reconciler(self.context, self.bell, fence_s=60.0, patience_s=0.2, look_s=2.0)

    def submit(self, node: str, name: str, repeats: int = 1, or_on: Sequence[str] = ()) -> None:
        spec = {
            "name": name,
            "model": "sleep",
            "framework": "sleep",
            "per_device_batch_size": 4,
            "repeats": repeats,
            "max_repeats": 2,
            "nodes": {"names": [node, *or_on]},
            "seed": 1 if node == SICK else 2,  # another cell
        }
        self.of[name] = submit(self._quiet, spec, by=Actor(LOCAL, Scope.ADMIN))[0].id

    def run(self, node: str) -> Run:
        return self.real.runs_of(self.of[node])[0]

    def over(self, node: str) -> bool:
        return self.real.experiment(self.of[node]).state is not ExperimentState.ACTIVE

    def go_on(self, until: Callable[[], bool]) -> None:
        """Passes, a second of the clock apart, until something is so."""
        self.bell.ring()
        deadline = time.monotonic() + 30.0
        while not until():
            assert time.monotonic() < deadline, self.real.runs_of(self.of[WELL])
            with suppress(StoreUnavailable, ClusterUnavailable, RuntimeError):  # its thread logs it and goes on
                self.reconciler.reconcile()
            self.clock.time += 1.0

    def end(self) -> None:
        self.store.released.set()
        self.cluster.released.set()
        self.reconciler.close()


@pytest.fixture
def scene_of(store: SqlStore) -> Iterator[Callable[..., Scene]]:
    scenes: list[Scene] = []

    def make(**planted: Any) -> Scene:
        scenes.append(Scene(store, **planted))
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.end()


ON_SQLITE = pytest.mark.parametrize("url", ["sqlite"], indirect=True)


@ON_SQLITE
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("method", OF_CLUSTER)
def test_a_run_elsewhere_completes_whatever_a_call_of_the_cluster_does(
    scene_of: Callable[..., Scene], method: str, fault: str
) -> None:
    scene = scene_of(of_cluster=(fault, method))
    scene.go_on(lambda: scene.run(WELL).state is RunState.COMPLETED and scene.over(WELL))


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("sqlite", "exception"),
        *(pytest.param("sqlite", fault, marks=pytest.mark.after_change) for fault in FAULTS[1:]),
        pytest.param("postgresql", "exception", marks=pytest.mark.after_change),
    ],
    indirect=["url"],
)
@pytest.mark.parametrize("method", OF_STORE)
def test_a_run_elsewhere_completes_whatever_a_call_of_the_store_does(
    scene_of: Callable[..., Scene], method: str, fault: str
) -> None:
    scene = scene_of(of_store=(fault, method))
    scene.go_on(lambda: scene.run(WELL).state is RunState.COMPLETED and scene.over(WELL))


def test_these_are_the_calls_of_passes(scene_of: Callable[..., Scene]) -> None:
    scene = scene_of()
    scene.go_on(lambda: scene.over(WELL) and scene.over(SICK))
    assert {*scene.store.calls} == {*OF_STORE}
    assert {*scene.cluster.calls} == {*OF_CLUSTER}


@ON_SQLITE
@pytest.mark.parametrize("fault", ["exception", "hang", "refused"])
def test_a_run_whose_log_cannot_be_analysed_ends_with_an_internal_error_and_keeps_its_log(
    scene_of: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    scene = scene_of()
    real = conclude.analyse

    def analyse(logs: Mapping[str, Any], kinds: Any) -> Any:
        if SICK not in logs:
            return real(logs, kinds)
        if fault == "hang":
            scene.store.released.wait()
        raise Conflict("a strange log") if fault == "refused" else ValueError("a strange log")

    monkeypatch.setattr(conclude, "analyse", analyse)
    scene.go_on(lambda: scene.over(WELL))
    assert scene.run(WELL).state is RunState.COMPLETED
    if fault != "hang":
        scene.go_on(lambda: scene.over(SICK))
        run = scene.run(SICK)
        assert run.failure is not None
        assert run.attempt is not None
        assert (run.state, run.failure.kind) == (RunState.FAILED, FailureKind.INTERNAL_ERROR)
        assert "a strange log" in run.failure.message
        assert len(scene.real.entries(run.attempt.id)) == len(LOG)


@ON_SQLITE
@pytest.mark.parametrize("fault", ["exception", "hang"])
def test_an_experiment_that_cannot_be_expanded_ends_and_keeps_no_other_waiting(
    scene_of: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    scene = scene_of()
    real = review.expand

    def expand(spec: Any, *rest: Any) -> Any:
        if spec.name != SICK:
            return real(spec, *rest)
        if fault == "hang":
            scene.store.released.wait()
        raise ValueError("a strange spec")

    monkeypatch.setattr(review, "expand", expand)
    scene.go_on(lambda: scene.over(WELL))
    if fault == "exception":
        scene.go_on(lambda: scene.over(SICK))
        assert scene.real.experiment(scene.of[SICK]).state is ExperimentState.FAILED


@ON_SQLITE
def test_a_node_that_cannot_delete_a_log_is_suspect_until_it_can(scene_of: Callable[..., Scene]) -> None:
    """What was seen to stop a whole cluster: one file of an attempt that the agent could not write."""
    scene = scene_of(of_cluster=("answer", "acknowledge"))

    def sick() -> Node:
        return next(node for node in scene.context.cluster.nodes() if node.name == SICK)

    scene.go_on(lambda: scene.over(SICK) and scene.over(WELL))
    assert scene.run(SICK).state is RunState.COMPLETED  # its log is stored
    for name in map(str, range(10)):
        if sick().state is NodeState.SUSPECT:
            break
        scene.submit(SICK, name)
        scene.go_on(lambda name=name: scene.over(name))  # type: ignore[misc]
    assert "'acknowledge' has failed there since" in str(sick().reason)
    scene.submit(SICK, "waits")
    scene.go_on(lambda: scene.run("waits").waiting == "waits for nodes: sick is suspect")
    scene.cluster.fault = scene.cluster.method = ""
    scene.go_on(lambda: scene.over("waits"))  # after a pause it is tried with a run
    assert sick().state is NodeState.AVAILABLE


@pytest.mark.parametrize("failing", OF_STRAYS)
def test_what_was_taken_for_dead_and_lived_is_ended_its_log_kept_and_its_run_out_of_statistics(
    scene_of: Callable[..., Scene], failing: str
) -> None:
    scene = scene_of(of_store=("exception", failing, 2))
    playing = scene.playing

    def rows_of(name: str) -> list[Any]:
        return [one.row for one in scene.real.cells(CellFilter(experiment_id=scene.of[name])).items if one.row]

    scene.go_on(lambda: scene.over(SICK) and scene.over(WELL))
    playing.goes_on = True
    scene.submit(SICK, "either", or_on=[WELL])
    scene.go_on(lambda: scene.run("either").state is RunState.RUNNING)
    (first,) = scene.run("either").attempts
    playing.cut, playing.goes_on = first.placement.nodes[0], False
    scene.go_on(lambda: scene.over("either"))
    assert scene.run("either").usable
    assert rows_of("either")
    scene.store.sick.add(first.id)
    cut, playing.cut = playing.cut, ""
    scene.go_on(lambda: not playing.started[cut])
    run = scene.run("either")
    assert (run.state, run.may_have_run_twice, run.usable) == (RunState.COMPLETED, True, False)
    assert not playing.living
    assert scene.store.hit == 2
    assert len(scene.real.entries(first.id)) == len(LOG)
    assert not rows_of("either")  # they are made anew by whoever looks
    assert scene.real.changes(scene.of["either"])[-1].data == {"may_have_run_twice": True}


@ON_SQLITE
@pytest.mark.parametrize(
    ("lived_s", "ended_ago_s", "twice"),
    [(1.0, None, False), (10_000.0, None, True), (1.0, 0.0, True), (1.0, 10_000.0, False)],
)
def test_a_clock_that_was_put_back_or_ahead_hides_no_second_life(
    scene_of: Callable[..., Scene],
    monkeypatch: pytest.MonkeyPatch,
    lived_s: float,
    ended_ago_s: float | None,
    twice: bool,
) -> None:
    """By the node's clock, in the recorded log, all was over long before the next attempt began."""
    scene = scene_of()
    playing = scene.playing
    scene.go_on(lambda: scene.over(SICK) and scene.over(WELL))
    playing.goes_on = True
    scene.submit(SICK, "either", or_on=[WELL])
    scene.go_on(lambda: scene.run("either").state is RunState.RUNNING)
    playing.cut, playing.goes_on = scene.run("either").attempts[0].placement.nodes[0], False
    scene.go_on(lambda: scene.over("either"))
    monkeypatch.setitem(LOG[-1], "t", LOG[0]["t"] + lived_s)
    cut, playing.cut = playing.cut, ""
    playing.ended_ago_s = ended_ago_s
    playing.living.clear()
    scene.go_on(lambda: not playing.started[cut])
    assert scene.run("either").may_have_run_twice is twice


@ON_SQLITE
def test_an_attempt_that_a_node_does_not_begin_goes_elsewhere(scene_of: Callable[..., Scene]) -> None:
    scene = scene_of(of_cluster=("answer", "start"))
    scene.go_on(lambda: scene.over(SICK))
    run = scene.run(SICK)
    assert run.failure is not None
    assert (run.state, run.failure.kind, run.attempts[0].number) == (RunState.FAILED, FailureKind.NODE_LOST, 1)


@ON_SQLITE
def test_passes_that_end_for_nothing_make_the_service_unready(scene_of: Callable[..., Scene]) -> None:
    scene = scene_of(of_store=("answer", "open_runs"))
    scene.store.sick = {""}  # every call
    pulse = scene.context.pulse
    pulse.beat(scene.clock.monotonic())
    for _ in range(int(LONGEST_S)):
        with pytest.raises(StoreUnavailable):
            scene.reconciler.reconcile()
        scene.clock.time += 1.0
    assert pulse.missed(scene.clock.monotonic()) is None
    assert "no pass over the runs was completed for 31 s" in str(pulse.missed(scene.clock.monotonic() + 1.0))
    scene.store.fault = scene.store.method = ""
    scene.reconciler.reconcile()
    assert pulse.missed(scene.clock.monotonic()) is None
