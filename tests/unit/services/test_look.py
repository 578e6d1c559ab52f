"""What a pass looks at: as much of a queue as can be placed, and the store only when something may have changed."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.domain.asked.placement import Node, NodeState, place
from orchestrator.domain.runs.log import LogSlice
from orchestrator.domain.runs.run import Attempt, Run, RunState
from orchestrator.domain.runs.stored import DamagedHold, EarlierRun, OpenRuns
from orchestrator.domain.value.failure import FailureKind
from orchestrator.domain.words.errors import NodeFailed, NodeUnreachable, NotFound
from orchestrator.services.pulse import Pulse
from orchestrator.services.reconcile import decisions
from orchestrator.services.reconcile.application import Hands
from orchestrator.services.reconcile.decisions import End, Launch, Stop, Wait, decide
from orchestrator.services.reconcile.expectations import MOST_CELLS
from orchestrator.services.reconcile.lanes import Lanes
from orchestrator.services.reconcile.reconciler import Bell, Reconciler
from orchestrator.services.reconcile.situation import Lookout, Word
from orchestrator.services.reconcile.trouble import Troubles
from tests.unit import builders as make


class Queue:
    """A store in which runs are queued, and one may be running; it counts what it is asked."""

    def __init__(self, runs: Sequence[Run], running: Sequence[Run] = (), damaged: Sequence[DamagedHold] = ()) -> None:
        self.runs = runs
        self.running = running
        self.damaged = damaged
        self.over: dict[str, Attempt] = {}
        self.asked: Counter[str] = Counter()
        self.read = 0
        self.looked_up: list[str] = []

    def queue_heads(self, most: int) -> Sequence[Run]:
        self.asked["queue_heads"] += 1
        taken: Counter[str] = Counter()
        heads = []
        for run in self.runs:
            taken[run.plan.needs.key] += 1
            if taken[run.plan.needs.key] <= most:
                heads.append(run)
        self.read += len(heads)
        return heads

    def open_runs(self, most_cancelled: int) -> OpenRuns:
        return OpenRuns(self.running, self.damaged)

    def idle_experiments(self) -> list[str]:
        return []

    def earlier_runs(self, cell_keys: Sequence[str], most: int) -> dict[str, list[EarlierRun]]:
        self.looked_up += cell_keys
        return {cell: [EarlierRun(2.0, None), EarlierRun(None, None)] for cell in cell_keys}

    def node_orders(self) -> dict[str, Any]:
        return {}

    def open_device_events(self, crashes_after: float) -> list[Any]:
        return []

    def entries(self, attempt_id: str, kinds: Sequence[str]) -> list[Any]:
        return []

    def uses(self, at: float) -> dict[str, float]:
        return {}

    def attempts_over(self, ids: Sequence[str]) -> dict[str, Any]:
        return {one: self.over[one] for one in ids if one in self.over}

    def last_seqs(self, attempt_id: str) -> dict[str, int]:
        return {"n0": 3}

    def set_waiting(self, needs: str, reason: str) -> None:
        self.asked["set_waiting"] += 1


class Standing:
    """A cluster on which attempts go on and on."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes

    def nodes(self) -> Sequence[Node]:
        return self._nodes

    def status(self, node: str) -> list[Any]:
        return [SimpleNamespace(attempt_id="att_running_1", ended=False)]

    def fetch(self, node: str, attempt_id: str, after: int, limit: int) -> LogSlice:
        return LogSlice([], after, ended=False)

    def holds(self) -> list[str]:
        return []

    def silent_s(self, node: str) -> float:
        return math.inf


class Clock:
    time = 0.0

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time


def context_of(queue: Queue, nodes: Sequence[Node]) -> Any:
    return SimpleNamespace(store=queue, cluster=Standing(nodes), clock=Clock(), pulse=Pulse(), catalog=make.catalog())


def looking(context: Any) -> Lookout:
    return Lookout(context, 60.0, Lanes(lambda: None), Troubles(context.clock))


def lookout_over(queue: Queue, nodes: Sequence[Node]) -> Lookout:
    return looking(context_of(queue, nodes))


def elsewhere(number: int) -> list[Run]:
    """Queued runs for a node that is not there."""
    return [make.run(f"far_{index}", plan=make.plan(node_names=("elsewhere",))) for index in range(number)]


def near(number: int) -> list[Run]:
    return [make.run(f"near_{index}") for index in range(number)]


def test_runs_that_fit_no_node_hold_up_nobody_behind_them() -> None:
    situation = lookout_over(Queue([*elsewhere(7), *near(1)]), [make.node()]).look()
    assert [action.run.id for action in decide(situation) if isinstance(action, Launch)] == ["near_0"]


def test_what_is_resumed_after_its_nodes_is_not_seen_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person resumes n0 and n1, and then the experiment, while a pass is looking."""
    queue = Queue([])
    orders = {"n0": NodeState.DRAINING, "n1": NodeState.DRAINING}
    monkeypatch.setattr(queue, "node_orders", lambda: dict(orders))

    def heads(most: int) -> Sequence[Run]:
        orders.clear()
        return [make.run("wide", plan=make.plan(topology="2x1", fabric="ethernet")), *near(2)]

    monkeypatch.setattr(queue, "queue_heads", heads)
    situation = lookout_over(queue, [make.node("n0"), make.node("n1")]).look()
    assert [action.run.id for action in decide(situation) if isinstance(action, Launch)] == ["wide"]


def test_of_each_kind_no_more_is_looked_at_than_there_are_devices() -> None:
    queue = Queue([*elsewhere(1000), *near(1000)])
    situation = lookout_over(queue, [make.node("n0", 2), make.node("n1", 1)]).look()
    assert (queue.read, len(situation.runs)) == (6, 6)


def test_each_kind_is_placed_once_in_a_pass_however_many_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes over the queue are counted where they are made."""
    calls: list[Any] = []
    monkeypatch.setattr(decisions, "place", lambda needs, *rest: calls.append(needs) or place(needs, *rest))
    situation = lookout_over(
        Queue([*near(1000), *elsewhere(1000)]), [make.node(str(number)) for number in range(5)]
    ).look()
    actions = decide(situation)
    assert [type(action) for action in actions] == [Launch] * 5 + [Wait]
    assert len(calls) == 6


def test_the_store_is_asked_again_only_when_something_may_have_changed() -> None:
    queue = Queue(near(3))
    lookout = lookout_over(queue, [make.node()])
    for _ in range(5):
        lookout.look()
    assert queue.asked["queue_heads"] == 1
    lookout.forget()
    lookout.look()
    assert queue.asked["queue_heads"] == 2
    lookout._context.clock.time += Lookout.ASK_AGAIN_S
    lookout.look()
    assert queue.asked["queue_heads"] == 3


def test_how_long_a_cells_runs_took_is_looked_up_once_and_again_when_one_of_them_is_over() -> None:
    cells = [make.plan(seed=seed) for seed in range(MOST_CELLS + 2)]
    running = make.run("running", RunState.RUNNING, plan=cells[0], attempts=(make.attempt("running"),))
    queue = Queue([make.run(f"{at}", plan=plan) for at, plan in enumerate(cells[1:])], [running])
    lookout = lookout_over(queue, [make.node(devices=len(cells))])
    for _ in range(3):
        found = lookout.look().durations
        lookout.forget()
    assert sorted(queue.looked_up) == sorted(plan.cell_key for plan in cells)
    assert found == {plan.cell_key: [2.0] for plan in cells}
    queue.runs = [*queue.runs, make.run("again", plan=replace(cells[0], repetition=2))]
    queue.running = []
    lookout.look()
    assert queue.looked_up[len(cells) :] == [cells[0].cell_key]


def test_a_node_that_comes_is_reason_to_ask_again() -> None:
    queue = Queue(near(3))
    nodes = [make.node("n0")]
    lookout = lookout_over(queue, nodes)
    assert len(lookout.look().runs) == 1
    nodes.append(make.node("n1"))
    assert len(lookout.look().runs) == 2


def test_while_a_run_goes_on_passes_ask_nothing_of_the_queue() -> None:
    """The one that says why the others wait comes first, and changes what is stored; then there is nothing to say."""
    running = make.run("running", RunState.RUNNING, attempts=(make.attempt("running"),))
    queue = Queue([make.run("run_2", waiting="waits for 1 of 1 nodes to become free")], [running])
    bell = Bell()
    reconciler = Reconciler(context_of(queue, [make.node()]), bell, fence_s=60.0)
    for _ in range(10):
        bell.stir()
        reconciler.reconcile()
    assert queue.asked == {"queue_heads": 1}
    bell.ring()
    reconciler.reconcile()
    assert queue.asked == {"queue_heads": 2}


def test_a_node_that_a_new_service_has_not_met_yet_is_silent_and_holds_up_nobody() -> None:
    run = make.run("run_far", RunState.RUNNING, attempts=(make.attempt("run_far", nodes=("gone",)),))
    context = context_of(Queue(elsewhere(1), [run]), [make.node("n0")])

    def status(node: str) -> list[Any]:
        if node == "gone":
            raise NotFound("node", node)
        return []

    context.cluster.status = status
    lookout = looking(context)
    (attempt,) = lookout.look().attempts.values()
    assert attempt.words == {"gone": Word.SILENT}
    context.clock.time = 60.0 + Lookout.FENCE_MARGIN_S + 1
    (attempt,) = lookout.look().attempts.values()
    assert attempt.words == {"gone": Word.DEAD}


def test_an_agent_that_told_of_a_longer_fence_is_taken_for_dead_no_sooner() -> None:
    """A service that was started anew with a shorter one."""
    run = make.run("far", RunState.RUNNING, attempts=(make.attempt("far", nodes=("gone",), fence_s=600.0),))
    context = context_of(Queue([], [run]), [make.node("n0")])
    context.cluster.status = lambda node: [] if node == "n0" else _raise(NodeUnreachable(node, "no answer"))
    lookout = looking(context)
    words = []
    for context.clock.time in (0.0, 599.0, 601.0 + Lookout.FENCE_MARGIN_S):
        (attempt,) = lookout.look().attempts.values()
        words.append(attempt.words["gone"])
    assert words == [Word.SILENT, Word.SILENT, Word.DEAD]


def _raise(error: Exception) -> Any:
    raise error


def test_nothing_new_is_placed_where_nobody_answers_now() -> None:
    context = context_of(Queue(elsewhere(1)), [make.node("n0"), make.node("n1")])

    def status(node: str) -> list[Any]:
        if node == "n1":
            raise NodeUnreachable(node, "no answer within 5 s")
        return []

    context.cluster.status = status
    situation = looking(context).look()
    states = {node.name: (node.state, node.reason) for node in situation.nodes}
    assert states == {"n0": (NodeState.AVAILABLE, None), "n1": (NodeState.SUSPECT, "its agent does not answer")}
    assert situation.slow == {"n1"}


@pytest.mark.parametrize(
    ("word", "held"), [(Word.RUNNING, ("n0",)), (Word.ENDED, ()), (Word.UNKNOWN, ()), (Word.SILENT, ("n0",))]
)
def test_a_damaged_row_holds_its_node_until_its_processes_are_dead(
    monkeypatch: pytest.MonkeyPatch, word: Word, held: tuple[str, ...]
) -> None:
    context = context_of(
        Queue(near(1), damaged=[DamagedHold("att_bad", ("n0",), cancel_requested=True)]), [make.node()]
    )

    def status(node: str) -> list[Any]:
        if word is Word.SILENT:
            raise NotFound("node", node)
        known = [SimpleNamespace(attempt_id="att_bad", ended=word is Word.ENDED)]
        return [] if word is Word.UNKNOWN else known

    context.cluster.status = status
    situation = looking(context).look()
    assert [one.nodes for one in situation.damaged] == [held]
    assert any(isinstance(action, Launch) for action in decide(situation)) is not bool(held)
    stopped: list[tuple[str, str, str]] = []
    monkeypatch.setattr(context.cluster, "stop", lambda *asked: stopped.append(asked), raising=False)
    hands = Hands(context, Lanes(lambda: None), Troubles(context.clock))
    hands.apply([action for action in decide(situation) if isinstance(action, End)])
    assert stopped == [(node, "att_bad", FailureKind.CANCELLED) for node in held]


def test_of_the_queue_no_more_is_read_than_could_be_placed_on_what_is_free() -> None:
    running = make.run("running", RunState.RUNNING, attempts=(make.attempt("running"),))
    for devices, read in ((1, 1), (2, 1), (4, 3)):
        queue = Queue(near(10), [running])
        lookout_over(queue, [make.node("n0", devices)]).look()
        assert queue.read == read


@pytest.mark.parametrize("error", [NodeUnreachable("n0", "no answer"), NodeFailed("n0", "EIO")])
def test_all_of_a_gang_are_told_its_end_and_silence_gives_it_no_pause(
    error: NodeUnreachable, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make.run("gang", RunState.RUNNING, attempts=(make.attempt("gang", nodes=("n0", "n1"), stop_requested="x"),))
    context = context_of(Queue([]), [make.node("n0"), make.node("n1")])
    told: list[str] = []

    def stop(node: str, attempt_id: str, reason: str) -> None:
        if node == "n0":
            raise error
        told.append(node)

    monkeypatch.setattr(context.cluster, "stop", stop, raising=False)
    troubles: Troubles[str] = Troubles(context.clock)
    Hands(context, Lanes(lambda: None), troubles).apply([Stop(run, ("n0", "n1"), FailureKind.NODE_LOST)])
    assert told == ["n1"]
    assert troubles.rests(run.id) is isinstance(error, NodeFailed)
