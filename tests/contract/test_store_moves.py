"""The moves of the store, in any order, against a small model of what they mean (Hypothesis).

After each move all that the service asks of the store is compared with what the model says: experiments, runs whole,
the heads of the queue, what holds devices, what is idle, and the changes that were told.
"""

import itertools
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from orchestrator.db.store import SqlStore
from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.runs.run import (
    HOLDS_DEVICES,
    MOVES,
    PAUSED,
    TERMINAL,
    Experiment,
    ExperimentState,
    Run,
    RunState,
)
from orchestrator.domain.words.errors import Conflict, NotFound
from tests.contract import store_scenes as scene
from tests.contract.postgresql_server import PostgresqlServer
from tests.unit import builders as make

pytest_plugins = ["tests.contract.store_servers"]

KINDS = ("n0", "n1")  # runs of a kind ask for this node
SHARED = "n2"  # and get this one beside it
STEPS = [(here, there) for here, exits in MOVES.items() for there in exits if there is not RunState.PLACING]
ENDS = [state for state in ExperimentState if state is not ExperimentState.ACTIVE]
ORDERS = [None, None, NodeState.DRAINING, NodeState.QUARANTINED]
FAILURES = st.sampled_from([None, scene.CRASH, scene.LOST])
WHICH = st.integers(0, 23)  # one of those that are there, or nobody
NOBODY = "nobody"
# What moves runs comes often, what ends much of what there is to move seldom.
WHAT = ["advance"] * 12 + ["pause", "order", "cancel a run", "wait", "stop", "come too late", "add a run"] * 2
WHAT += ["submit", "cancel", "cancel", "end", "end", "end", "remove"]
FOLLOWED = 2  # so few runs are moved on at a time, or none would come to its second attempt
MOST = 2  # of each kind of queued runs, and of those that are to be cancelled


class Model:
    """What is stored, as the port's words have it."""

    def __init__(self) -> None:
        self.experiments: dict[str, Experiment] = {}
        self.runs: dict[str, Run] = {}
        self.orders: dict[str, NodeState] = {}
        self.waiting: dict[str, str] = {}
        self.told: Counter[tuple[str, str | None, str]] = Counter()  # experiment, run, state

    def of(self, experiment_id: str) -> list[Run]:
        return [run for run in self.runs.values() if run.experiment_id == experiment_id]

    def unfinished(self, experiment_id: str) -> list[Run]:
        return [run for run in self.of(experiment_id) if run.state not in TERMINAL]

    def change(self, run: Run, **values: Any) -> None:
        self.runs[run.id] = replace(run, **values)

    def tell(self, experiment_id: str, run: Run | None, state: str) -> None:
        self.told[experiment_id, run.id if run else None, state] += 1

    def seen(self, run: Run) -> Run:
        """With why it waits."""
        if run.state is not RunState.QUEUED:
            return run
        return replace(run, waiting=PAUSED if run.paused else self.waiting.get(run.plan.needs.key))

    def queue(self) -> list[Run]:
        queued = [one for one in self.runs.values() if one.state is RunState.QUEUED]
        return sorted(queued, key=lambda run: (-run.priority, run.created_at, run.id))

    def heads(self) -> list[Run]:
        free = [run for run in self.queue() if not run.cancel_requested and not run.paused]
        taken: Counter[tuple[str, str]] = Counter()
        kinds = [(run.plan.needs.key, run.owner) for run in free]
        return [run for run, kind in zip(free, kinds, strict=True) if (taken.update([kind]) or taken[kind]) <= MOST]


def _nodes_of(run: Run | None) -> tuple[str, str]:
    return (run.plan.node_names[0] if run else KINDS[0]), SHARED


def bare(run: Run) -> Run:
    """As a pass sees it: without what it came to."""
    return replace(run, analysis=None, fingerprint=None)


class Moves(RuleBasedStateMachine):
    """``new_database``: makes one with the schema for each sequence of moves, gives its URL, and removes it."""

    new_database: Callable[[], AbstractContextManager[str]]

    @initialize()
    def open(self) -> None:
        self.opened = ExitStack()
        self.store, self.model = SqlStore(self.opened.enter_context(type(self).new_database())), Model()
        self.opened.callback(self.store.close)
        self.clock = itertools.count(1000)
        for priority in (0, 1):  # there is something to move, whichever rules an example does without
            self._submitted(priority, [*KINDS, KINDS[0]])

    def an_experiment(self, which: int) -> str:
        """Seldom one that is not there."""
        return [*self.model.experiments, NOBODY][which % (len(self.model.experiments) + 1)]

    def a_run(self, which: int) -> str:
        return [*self.model.runs, NOBODY][which % (len(self.model.runs) + 1)]

    def followed(self, which: int) -> str:
        """One of the first that have not ended."""
        going = [run.id for run in self.model.runs.values() if run.state not in TERMINAL][:FOLLOWED]
        return going[which % len(going)] if going else NOBODY

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.opened.close()

    @property
    def at(self) -> float:
        return float(next(self.clock))

    def _submitted(self, priority: int, kinds: list[str]) -> None:
        new = scene.experiment(at=self.at, priority=priority, owner=("ada", "bob")[len(kinds) % 2])
        runs = [scene.runs_for(new, first=n, node_names=(kind,))[0] for n, kind in enumerate(kinds, 1)]
        self.store.add_experiment(new, runs)
        self.model.experiments[new.id] = new
        self.model.tell(new.id, None, "active")
        for run in runs:
            self.model.runs[run.id] = run
            self.model.tell(new.id, run, "queued")

    def _add_a_run(self, of: str, repetition: int, kind: str) -> None:
        """A plan that is there, or an experiment that takes no more, has it passed over."""
        experiment = self.model.experiments.get(of) or scene.experiment(at=self.at)
        (new,) = scene.runs_for(experiment, first=repetition, node_names=(kind,))
        is_open = of in self.model.experiments and experiment.state is ExperimentState.ACTIVE
        is_new = new.plan.key not in {run.plan.key for run in self.model.of(of)}
        is_added = is_open and not experiment.cancel_requested and is_new
        assert self.store.add_runs([new]) == int(is_added)
        if is_added:
            self.model.runs[new.id] = replace(new, paused=experiment.paused)
            self.model.tell(of, new, "queued")

    @rule(what=st.sampled_from(WHAT), which=WHICH, how=WHICH, failure=FAILURES, judged=st.booleans())
    def do(self, what: str, which: int, how: int, failure: Any, judged: bool) -> None:
        """One rule: an example does without some rules, and each of these is to meet the others."""
        of, run_id = self.an_experiment(which), self.a_run(which)
        match what:
            case "advance":
                self._advance(self.followed(which), how, failure, judged)
            case "come too late":
                self._come_too_late(run_id, how, failure)
            case "submit":
                self._submitted(which % 2, [KINDS[which % 2], *KINDS][: how % 4])
            case "add a run":
                self._add_a_run(of, 1 + how % 3, KINDS[how % 2])
            case "pause":
                self._pause(of, paused=bool(how % 3))
            case "order":
                self._order(
                    [*KINDS, SHARED][which % 3], [None, None, NodeState.DRAINING, NodeState.QUARANTINED][how % 4]
                )
            case "cancel a run":
                self._cancel_a_run(run_id)
            case "cancel":
                self._cancel_an_experiment(of)
            case "end":
                self._end(of, ENDS[how % 3])
            case "wait":
                self._wait(run_id, ("full", "none such")[how % 2])
            case "stop":
                self._stop(run_id, ("cancelled", "timed_out")[how % 2])
            case "remove":
                self._remove(of)

    def _cancel_an_experiment(self, of: str) -> None:
        if self._is_gone(lambda: self.store.cancel_experiment(of, self.at), of in self.model.experiments):
            return
        experiment = self.model.experiments[of]
        if experiment.state is ExperimentState.ACTIVE and not experiment.cancel_requested:
            self.model.experiments[of] = replace(experiment, cancel_requested=True)
            self.model.tell(of, None, "active")
            for run in self.model.unfinished(of):
                self._cancelled(run)

    def _cancel_a_run(self, run_id: str) -> None:
        if not self._is_gone(lambda: self.store.cancel_run(run_id, self.at), run_id in self.model.runs):
            self._cancelled(self.model.runs[run_id])

    def _cancelled(self, run: Run) -> None:
        if run.state not in TERMINAL and not run.cancel_requested:
            self.model.change(run, cancel_requested=True)
            self.model.tell(run.experiment_id, run, run.state.value)

    def _pause(self, of: str, paused: bool) -> None:
        if self._is_gone(lambda: self.store.pause_experiment(of, paused, self.at), of in self.model.experiments):
            return
        experiment = self.model.experiments[of]
        if experiment.state is ExperimentState.ACTIVE and not experiment.cancel_requested:
            if experiment.paused is not paused:
                self.model.tell(of, None, "active")
            self.model.experiments[of] = replace(experiment, paused=paused)
            for run in self.model.unfinished(of):
                self.model.change(run, paused=paused)

    def _advance(self, run_id: str, step: int, failure: Any, judged: bool) -> None:
        """A step that is legal from where the run is: mostly the one that the service would take."""
        run = self.model.runs.get(run_id)
        legal = [one for one in STEPS if run and one[0] is run.state]
        if run is None or (run.state is RunState.QUEUED and step % 4):
            self._begin(run_id, run)
        elif run.state is RunState.COLLECTING and step % 4:
            self._conclude(run_id, legal[step % len(legal)][1], failure, judged)
        elif legal:
            self._move(run_id, legal[step % len(legal)], failure)

    def _come_too_late(self, run_id: str, step: int, failure: Any) -> None:
        """Mostly: from where the run was, or will be."""
        if step % 3:
            self._move(run_id, STEPS[step % len(STEPS)], failure)
        else:
            self._conclude(run_id, RunState.COMPLETED, failure, judged=True)

    def _begin(self, run_id: str, run: Run | None) -> None:
        new = scene.attempt_of(run or scene.runs_for(scene.experiment())[0], len(run.attempts) + 1 if run else 1)
        attempt = replace(new, run_id=run_id, created_at=self.at, placement=make.placement(*_nodes_of(run)))
        if self._is_gone(lambda: self.store.begin_attempt(run_id, attempt), run is not None) or run is None:
            return
        may = run.state is RunState.QUEUED and not run.paused and not self.model.orders.keys() & {*_nodes_of(run)}
        assert self.answer is may
        if may:
            self.model.change(run, state=RunState.PLACING, attempts=(*run.attempts, attempt))
            self.model.tell(run.experiment_id, run, "placing")

    def _move(self, run_id: str, step: tuple[RunState, RunState], failure: Any) -> None:
        (here, there), at, run = step, self.at, self.model.runs.get(run_id)
        failure = failure if there in TERMINAL else None
        call = lambda: self.store.move_run(run_id, here, there, at=at, failure=failure)  # noqa: E731
        if not self._is_gone(call, run is not None) and run:
            self._moved(run, here, there, at, failure)

    def _conclude(self, run_id: str, to: RunState, failure: Any, judged: bool) -> None:
        at, found, run = self.at, scene.analysis() if judged else None, self.model.runs.get(run_id)
        call = lambda: self.store.conclude(run_id, to, at=at, failure=failure, analysis=found)  # noqa: E731
        if self._is_gone(call, run is not None) or run is None:
            return
        if self._moved(run, RunState.COLLECTING, to, at, failure) and found:
            self.model.change(self.model.runs[run_id], analysis=found)

    def _moved(self, run: Run, here: RunState, there: RunState, at: float, failure: Any) -> bool:
        """Whether it was where it was expected, which the last call has answered too."""
        assert self.answer is (run.state is here)
        if run.state is not here:
            return False
        values: dict[str, Any] = {"state": there}
        if there is RunState.RUNNING:
            values["started_at"] = run.started_at if run.started_at is not None else at
        if there in TERMINAL:
            values |= {"ended_at": at, "failure": failure}
        if here is not RunState.QUEUED:
            latest: dict[str, Any] = {"failure": failure} if failure else {}
            if there is RunState.RUNNING:
                latest["started_at"] = at
            if here is RunState.COLLECTING:
                latest["ended_at"] = at
            values["attempts"] = (*run.attempts[:-1], replace(run.attempts[-1], **latest))
        self.model.change(run, **values)
        self.model.tell(run.experiment_id, run, there.value)
        return True

    def _end(self, of: str, state: ExperimentState) -> None:
        at = self.at
        with pytest.raises(ValueError, match="active"):
            self.store.end_experiment(of, ExperimentState.ACTIVE, at)
        if self._is_gone(lambda: self.store.end_experiment(of, state, at), of in self.model.experiments):
            return
        experiment = self.model.experiments[of]
        may = experiment.state is ExperimentState.ACTIVE and not self.model.unfinished(of)
        assert self.answer is may
        if may:
            self.model.experiments[of] = replace(experiment, state=state, ended_at=at, paused=False)
            self.model.tell(of, None, state.value)

    def _remove(self, of: str) -> None:
        busy = any(run.state in HOLDS_DEVICES for run in self.model.of(of))
        if busy:
            with pytest.raises(Conflict):
                self.store.remove_experiment(of)
            return
        if not self._is_gone(lambda: self.store.remove_experiment(of), of in self.model.experiments):
            del self.model.experiments[of]
            for run in self.model.of(of):
                del self.model.runs[run.id]
            self.model.told = Counter({key: n for key, n in self.model.told.items() if key[0] != of})

    def _order(self, node: str, state: NodeState | None) -> None:
        with pytest.raises(ValueError, match="ordered"):
            self.store.order_node(node, NodeState.UNREACHABLE)
        self.store.order_node(node, state)
        self.model.orders.pop(node, None)
        if state:
            self.model.orders[node] = state

    def _wait(self, run_id: str, reason: str) -> None:
        if run := self.model.runs.get(run_id):
            self.store.set_waiting(run.plan.needs.key, reason)
            self.model.waiting[run.plan.needs.key] = reason

    def _stop(self, run_id: str, reason: str) -> None:
        run = self.model.runs.get(run_id)
        if run and run.attempt:
            self.store.request_stop(run.attempt.id, reason)
            latest = replace(run.attempt, stop_requested=run.attempt.stop_requested or reason)
            self.model.change(run, attempts=(*run.attempts[:-1], latest))

    def _is_gone(self, call: Any, there: bool) -> bool:
        """Call; whether nothing is there to be changed, which the store has to say."""
        if there:
            self.answer = call()
            return False
        with pytest.raises(NotFound):
            call()
        return True

    @invariant()
    def all_is_as_the_model_says(self) -> None:
        if not hasattr(self, "store"):
            return
        store, model = self.store, self.model
        counted = {of: Counter(run.state for run in model.of(of)) for of in model.experiments}
        whole = {of: replace(one, run_counts=dict(counted[of])) for of, one in model.experiments.items()}
        assert {one.id: one for one in store.experiments(limit=500).items} == whole
        assert {one.id: one for one in store.runs(limit=500).items} == {
            run.id: model.seen(run) for run in model.runs.values()
        }
        assert store.queue_heads(MOST) == [bare(model.seen(run)) for run in model.heads()]
        kinds = {(run.owner, run.plan.needs.key) for run in model.heads()}
        in_short = [(run.id, run.owner, run.priority, run.created_at, run.devices) for run in model.heads()]
        assert [astuple(one) for one in store.queue(MOST * len(kinds))] == in_short
        found = store.open_runs(MOST)
        cancelled = [run for run in model.queue() if run.cancel_requested]
        cancelled = sorted(cancelled, key=lambda run: (run.paused, run.plan.needs.key))[:MOST]
        held = [run for run in model.runs.values() if run.state in HOLDS_DEVICES]
        assert {run.id: run for run in found.runs} == {run.id: bare(model.seen(run)) for run in (*held, *cancelled)}
        idle = [of for of, one in model.experiments.items() if one.state is ExperimentState.ACTIVE]
        assert list(store.idle_experiments()) == [of for of in idle if not model.unfinished(of)]
        assert store.node_orders() == model.orders
        told = [(of, one.run_id, one.state) for of in model.experiments for one in store.changes(of)]
        assert Counter(told) == model.told


@contextmanager
def _copy_of(template: Path) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        yield f"sqlite:///{shutil.copy(template, folder)}"


@contextmanager
def _database_of(server: PostgresqlServer) -> Iterator[str]:
    server.execute("CREATE DATABASE moves TEMPLATE template_tbd")
    try:
        yield server.url("moves")
    finally:
        server.execute("DROP DATABASE moves WITH (FORCE)")


@pytest.mark.parametrize(
    ("database", "new", "examples"),
    [
        pytest.param("sqlite_template", _copy_of, 8, id="sqlite"),
        pytest.param("postgresql", _database_of, 2, id="postgresql"),
        pytest.param("sqlite_template", _copy_of, 40, id="sqlite, many", marks=pytest.mark.after_change),
        pytest.param("postgresql", _database_of, 10, id="postgresql, many", marks=pytest.mark.after_change),
    ],
)
def test_moves_in_any_order_are_what_the_model_says(
    request: pytest.FixtureRequest, database: str, new: Callable[[Any], AbstractContextManager[str]], examples: int
) -> None:
    source = request.getfixturevalue(database)
    machine: Any = type("Machine", (Moves,), {"new_database": staticmethod(lambda: new(source))})
    quick = settings(max_examples=examples, stateful_step_count=50, deadline=None, derandomize=True, database=None)
    machine.TestCase.settings = settings(quick, suppress_health_check=list(HealthCheck))
    machine.TestCase("runTest").runTest()
