"""decide: the product of all that can be seen of a run, and the few rules that hold in all of it."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.domain.asked.placement import Node, NodeState
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.durations import LEAST
from orchestrator.domain.runs.run import HOLDS_DEVICES, MOVES, Run, RunState
from orchestrator.domain.runs.stored import DamagedHold
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.services.reconcile.conclude import outcome
from orchestrator.services.reconcile.decisions import (
    Action,
    Conclude,
    End,
    Fetch,
    Launch,
    Move,
    Review,
    Stop,
    TakeOver,
    Tell,
    Wait,
    all_kept,
    decide,
)
from orchestrator.services.reconcile.reconciler import IDLE_S, PACE_S, pace_s, pause_s
from orchestrator.services.reconcile.situation import OpenAttempt, Situation, Stray, Word
from tests.unit import builders as make

NODES = ("n0", "n1")


def seen(run: Run, words: tuple[Word, ...], stored: tuple[str, ...] = ()) -> Situation:
    attempt = run.attempt
    assert attempt is not None
    situation = OpenAttempt(dict(zip(attempt.placement.nodes, words, strict=True)), frozenset(stored))
    return Situation([run], [make.node("n0"), make.node("n1")], {attempt.id: situation})


def an_open_run(state: RunState, nodes: tuple[str, ...] = ("n0",), run_id: str = "run_1", **changes: object) -> Run:
    stop = changes.pop("stop_requested", None)
    return make.run(run_id, state=state, attempts=(make.attempt(nodes=nodes, stop_requested=stop),), **changes)


def kinds(actions: list[Action]) -> list[type]:
    return [type(action) for action in actions]


def test_a_queued_run_is_launched_on_a_free_node() -> None:
    (action,) = decide(Situation([make.run()], [make.node()]))
    assert isinstance(action, Launch)
    assert action.placement.nodes == ("n0",)


def test_a_full_disk_gives_a_run_another_attempt_but_not_for_ever() -> None:
    full = Failure(FailureKind.NO_SPACE, "no space left on a disk of node n0")
    assert [outcome(full, made, False) for made in (1, 2, 3)] == [RunState.QUEUED, RunState.QUEUED, RunState.FAILED]
    assert outcome(full, 1, True) is RunState.CANCELLED


def test_a_node_of_a_gang_that_ended_with_a_failure_ends_the_others() -> None:
    run = an_open_run(RunState.RUNNING, NODES)
    assert run.attempt is not None
    situation = OpenAttempt({"n0": Word.ENDED, "n1": Word.RUNNING}, frozenset(("n0",)), failed=True)
    actions = decide(Situation([run], [make.node("n0"), make.node("n1")], {run.attempt.id: situation}))
    assert actions[0] == Stop(run, ("n1",), FailureKind.NODE_LOST)
    well = decide(
        Situation(
            [run], [make.node("n0"), make.node("n1")], {run.attempt.id: OpenAttempt(situation.words, situation.stored)}
        )
    )
    assert Stop not in kinds(well)  # it may only have been the first to be done


def test_the_second_run_of_a_node_waits_and_says_why() -> None:
    actions = decide(Situation([make.run("run_1"), make.run("run_2")], [make.node()]))
    assert kinds(actions) == [Launch, Wait]
    told = make.run("run_2", waiting=actions[1].reason)
    assert decide(Situation([make.run("run_1"), told], [make.node()])) == actions[:1]


def test_runs_that_ask_for_the_same_are_told_together() -> None:
    runs = [make.run(f"run_{index}", plan=make.plan(topology="1x8")) for index in range(3)]
    (action,) = decide(Situation(runs, [make.node()]))
    assert isinstance(action, Wait)
    assert action.needs == runs[0].plan.needs


def test_a_run_that_is_collecting_still_holds_its_devices() -> None:
    for state in HOLDS_DEVICES:
        situation = seen(an_open_run(state), (Word.RUNNING,))
        situation = Situation([*situation.runs, make.run("run_2")], [make.node("n0")], situation.attempts)
        assert not any(isinstance(action, Launch) for action in decide(situation))


def test_a_queued_run_that_is_cancelled_never_starts() -> None:
    assert decide(Situation([make.run(cancel_requested=True)], [make.node()])) == [
        Move(make.run(cancel_requested=True), RunState.CANCELLED)
    ]


def test_an_agent_that_was_not_told_is_told_again_after_a_restart() -> None:
    run = an_open_run(RunState.PLACING, NODES)
    assert decide(seen(run, (Word.RUNNING, Word.UNKNOWN))) == [Fetch(run, "n0"), Tell(run, ("n1",))]


def test_a_run_is_running_when_all_its_agents_know_it() -> None:
    run = an_open_run(RunState.PLACING)
    assert decide(seen(run, (Word.ENDED,)))[-1] == Move(run, RunState.RUNNING)


def test_cancelling_a_running_run_stops_every_living_node() -> None:
    run = an_open_run(RunState.RUNNING, NODES, cancel_requested=True)
    actions = decide(seen(run, (Word.RUNNING, Word.ENDED)))
    assert Stop(run, ("n0",), FailureKind.CANCELLED) in actions
    assert not any(isinstance(action, Move) for action in actions)


def test_a_lost_node_ends_the_rest_of_the_gang() -> None:
    run = an_open_run(RunState.RUNNING, NODES)
    assert Stop(run, ("n0",), FailureKind.NODE_LOST) in decide(seen(run, (Word.RUNNING, Word.DEAD)))


def test_a_silent_node_is_waited_for() -> None:
    for state in HOLDS_DEVICES:
        run = an_open_run(state)
        assert decide(seen(run, (Word.SILENT,))) == []


def test_a_run_is_concluded_when_all_logs_are_stored_or_lost() -> None:
    run = an_open_run(RunState.COLLECTING, NODES)
    assert decide(seen(run, (Word.ENDED, Word.UNKNOWN), stored=("n0",)))[-1] == Conclude(run, ("n1",))
    assert decide(seen(run, (Word.UNKNOWN, Word.UNKNOWN), stored=NODES)) == [Conclude(run, ())]
    assert kinds(decide(seen(run, (Word.ENDED, Word.ENDED), stored=("n0",)))) == [Fetch]


def test_a_log_that_was_stored_and_deleted_is_not_a_lost_node() -> None:
    run = an_open_run(RunState.RUNNING)
    assert decide(seen(run, (Word.UNKNOWN,), stored=("n0",))) == [Move(run, RunState.COLLECTING)]


def waiting(*plans: Plan, **changes: object) -> list[Run]:
    """Queued runs, the first of which wants more than there is."""
    return [make.run(f"run_{index}", plan=plan, **(changes if index == 0 else {})) for index, plan in enumerate(plans)]


def beside_a_run_on_n0(runs: list[Run], *nodes: Node, damaged: Sequence[DamagedHold] = ()) -> list[Action]:
    busy = seen(an_open_run(RunState.RUNNING, run_id="busy"), (Word.RUNNING,))
    actions = decide(Situation([*busy.runs, *runs], nodes, busy.attempts, damaged=damaged))
    return [action for action in actions if not isinstance(action, Fetch)]


def launched(actions: list[Action]) -> dict[str, tuple[str, ...]]:
    return {action.run.id: action.placement.nodes for action in actions if isinstance(action, Launch)}


N0, N1, N2 = (make.node(f"n{k}") for k in range(3))
GPUS = replace(make.node("n1"), devices=(*make.node("n1").devices, *make.node("n1", 2, "cuda").devices))
ONE, SHARED, GANG = make.plan(), make.plan(exclusive="device"), make.plan(topology="2x1", fabric="ethernet")
CUDA = make.plan(device="cuda", topology="2x1", fabric="ethernet", gpu_model="another")


@pytest.mark.parametrize(
    ("first", "nodes", "others"),
    [
        (GANG, [N0, N1], {}),
        (GANG, [N0, N1, N2], {"run_0": ("n1", "n2")}),  # it joined
        (GANG, [N0, N1, replace(N2, state=NodeState.DRAINING)], {}),
        (make.plan(topology="3x1", fabric="ethernet"), [N0, N1], {"run_1": ("n1",)}),
        (make.plan(topology="2x1", fabric="infiniband"), [N0, N1], {"run_1": ("n1",)}),
        (make.plan(topology="2x1", fabric="ethernet", node_names=("n0", "n9")), [N0, N1], {"run_1": ("n1",)}),
        (GANG, [N0, N1, make.node("n2", 0)], {}),
        (GANG, [replace(N0, state=NodeState.UNREACHABLE), N1], {"run_1": ("n1",)}),
        (GANG, [replace(N0, state=NodeState.QUARANTINED), N1], {"run_1": ("n1",)}),
        (GANG, [make.node("n0", disk_free_bytes=0), N1], {"run_1": ("n1",)}),
        (make.plan(node_names=("n0",)), [N0, N1], {"run_1": ("n1",)}),
        (CUDA, [N0, GPUS], {"run_1": ("n1",)}),
    ],
)
def test_what_the_first_waits_for_is_kept_for_it_and_nothing_that_it_cannot_have(
    first: Plan, nodes: list[Node], others: dict[str, tuple[str, ...]]
) -> None:
    assert launched(beside_a_run_on_n0(waiting(first, ONE), *nodes)) == others


def test_what_was_kept_is_free_when_the_first_is_cancelled_or_what_it_waits_for_has_ended() -> None:
    assert launched(beside_a_run_on_n0(waiting(GANG, ONE, cancel_requested=True), N0, N1)) == {"run_1": ("n1",)}
    assert launched(decide(Situation(waiting(GANG, ONE), [N0, N1]))) == {"run_0": ("n0", "n1")}


def test_a_need_that_is_never_met_stops_no_sharing() -> None:
    larger = make.plan(topology="3x1", fabric="ethernet")
    actions = decide(Situation(waiting(larger, SHARED, SHARED), [make.node("n0", 2)]))
    assert launched(actions) == {"run_1": ("n0",), "run_2": ("n0",)}
    assert Wait(larger.needs, f"{NEEDS_3}; there is 1; the cluster has n0: 2 (ethernet)") in actions


NEEDS_3 = "needs 3 node(s) with 1 cpu device(s) connected by ethernet"


def test_who_waits_behind_the_first_is_told_for_whom_a_free_node_is_kept() -> None:
    told = beside_a_run_on_n0(waiting(GANG, ONE), N0, N1)
    waits = "waits for 1 of 2 nodes to become free"
    kept = "what is free on 1 of them is kept for run_0, which came first"
    assert told == [Wait(GANG.needs, waits), Wait(ONE.needs, f"{waits}; {kept}")]


def test_a_node_that_was_slow_to_answer_gets_nothing_and_what_waits_for_it_goes_on_doing_so() -> None:
    nodes, queue = [N0, replace(N1, state=NodeState.SUSPECT)], waiting(GANG, ONE)
    waits, slow = "waits for 1 of 2 nodes to become free", "n1 did not answer in time"
    kept = "what is free on 2 of them is kept for run_0, which came first"
    told = [Wait(GANG.needs, f"{waits}; {slow}"), Wait(ONE.needs, f"{waits}; {kept}; {slow}")]
    assert decide(Situation(queue, nodes, slow=["n1"])) == told
    assert launched(decide(Situation(queue, nodes))) == {"run_1": ("n0",)}


def going(began: float, name: str, plan: Plan, lent_by: str | None = None) -> Run:
    attempt = make.attempt(f"run_{name}", nodes=(name,), created_at=began, lent_by=lent_by)
    return make.run(f"run_{name}", RunState.RUNNING, plan=plan, attempts=(attempt,))


LONG, SHORT = make.plan(seed=2), make.plan(seed=3)
AGES = {LONG.cell_key: [50.0 + k for k in range(LEAST)], SHORT.cell_key: [1.0 + k for k in range(LEAST)]}


@pytest.mark.parametrize(
    ("at", "known", "others"),
    [
        (41.0, AGES, {"run_1": ("n1",)}),  # the guest takes 9 s at most, who is waited for has 9 s left at least
        (41.5, AGES, {}),
        (51.0, AGES, {}),  # too few have lasted so long to say what is left
        (0.0, {SHORT.cell_key: AGES[SHORT.cell_key]}, {}),
        (0.0, {LONG.cell_key: AGES[LONG.cell_key]}, {}),  # a guest of which nothing is known may take its time limit
        (0.0, {LONG.cell_key: [5000.0] * LEAST}, {"run_1": ("n1",)}),
        (0.0, {**AGES, SHORT.cell_key: AGES[SHORT.cell_key][1:]}, {}),
    ],
)
def test_what_is_kept_for_the_first_is_lent_to_who_ends_before_it_could_begin(
    at: float, known: dict[str, list[float]], others: dict[str, tuple[str, ...]]
) -> None:
    run = going(0.0, "n0", LONG)
    words = {"att_run_n0_1": OpenAttempt({"n0": Word.RUNNING}, frozenset())}
    queue = [*waiting(GANG, SHORT), make.run("run_2", plan=LONG)]
    actions = decide(Situation([run, *queue], [N0, N1], words, durations=known, at=at - 0.5))
    assert launched(actions) == others
    assert all(action.lent_by == "run_0" for action in actions if isinstance(action, Launch))


def test_a_guest_changes_nothing_of_what_is_kept() -> None:
    """Else its node would be the last to be waited for, the third be kept instead, and the guest's be anybody's."""
    runs = [going(0.0, "n0", LONG), going(9.0, "n1", SHORT, lent_by="run_0"), going(1.0, "n2", LONG)]
    words = {f"att_run_{name}_1": OpenAttempt({name: Word.RUNNING}, frozenset()) for name in (*NODES, "n2")}
    kept = all_kept(Situation([*runs, *waiting(GANG)], [N0, N1, N2], words))
    assert [share.node for share in kept["run_0"].shares] == ["n1", "n0"]
    assert kept["run_0"].awaited == ("run_n0",)


def test_of_two_nodes_that_are_shared_the_one_is_kept_that_was_joined_longer_ago() -> None:
    nodes, runs = [make.node("n0", 2), make.node("n1", 2)], [going(5.0, "n0", SHARED), going(3.0, "n1", SHARED)]
    words = {f"att_run_{name}_1": OpenAttempt({name: Word.RUNNING}, frozenset()) for name in NODES}
    assert launched(decide(Situation([*runs, *waiting(ONE, SHARED)], nodes, words))) == {"run_1": ("n0",)}


def test_the_nodes_of_a_damaged_attempt_are_held_and_waited_for_by_nobody() -> None:
    hold = DamagedHold("att_bad", ("n2",), cancel_requested=False)
    three = make.plan(topology="3x1", fabric="ethernet")
    actions = beside_a_run_on_n0(waiting(three, ONE, SHARED), N0, N1, make.node("n2", 2), damaged=[hold])
    assert launched(actions) == {"run_1": ("n1",)}
    assert End not in kinds(actions)
    asked = beside_a_run_on_n0([], N2, damaged=[replace(hold, cancel_requested=True)])
    assert asked == [End("att_bad", ("n2",))]


@settings(deadline=None)
@given(st.lists(st.sampled_from(["ada", "bob", "eve"]), min_size=1), st.lists(st.floats(1.0, 9.0), min_size=30))
@pytest.mark.after_change
def test_owners_who_all_wait_have_equal_device_seconds_whoever_submits_most_and_first(
    owners: list[str], lengths: list[float]
) -> None:
    """One device after the other, for as long as each run takes."""
    queue = [make.run(f"{of}_{at}", owner=of, created_at=float(at)) for at, of in enumerate(sorted([*{*owners}] * 40))]
    uses = dict.fromkeys(owners, 0.0)
    for length in lengths[:40]:
        begun = next(iter(launched(decide(Situation(queue, [N0], uses=uses)))))
        (run,) = (one for one in queue if one.id == begun)
        queue.remove(run)
        uses[run.owner] += length
    assert max(uses.values()) - min(uses.values()) <= max(lengths)


def test_in_one_pass_the_devices_are_shared_out_and_the_least_priority_is_behind_everybodys() -> None:
    of = [("ada", -1000)] + [("ada", 5)] * 4 + [("bob", -7)] * 2
    queue = [make.run(f"{at}", owner=owner, priority=priority) for at, (owner, priority) in enumerate(of)]
    nodes = [make.node(f"n{number}") for number in range(5)]
    actions = decide(Situation(queue, nodes, uses={"ada": 30.0}))
    assert [*launched(actions)] == ["5", "1", "6", "2", "3"]


def test_a_stray_is_taken_over_and_as_long_as_it_lives_its_node_is_held() -> None:
    strays = [Stray(make.attempt(f"run_{node.name}", nodes=(node.name,)), node.name, node is N1) for node in (N1, N2)]
    actions = decide(Situation(waiting(ONE, ONE), [N1, N2], strays=strays))
    assert launched(actions) == {"run_0": ("n2",)}
    assert [action.stray for action in actions if isinstance(action, TakeOver)] == strays


def test_idle_experiments_are_reviewed() -> None:
    assert decide(Situation([], [], idle_experiments=["exp_1"])) == [Review("exp_1")]


PRODUCT = list(
    itertools.product(
        sorted(HOLDS_DEVICES),
        itertools.product(Word, Word),
        [(), ("n0",), NODES],
        [False, True],
        [None, *FailureKind],
    )
)


@pytest.mark.parametrize("state", sorted(HOLDS_DEVICES))
def test_in_every_view_of_an_open_run_the_rules_hold(state: RunState) -> None:
    for state_, words, stored, cancel, stop in PRODUCT:
        if state_ is not state:
            continue
        run = an_open_run(state, NODES, cancel_requested=cancel, stop_requested=stop)
        situation = seen(run, words, stored)
        actions = decide(situation)
        assert actions == decide(situation)
        moves = [action for action in actions if isinstance(action, Move)]
        assert all(move.to in MOVES[state] for move in moves)
        assert len(moves) <= 1
        for action in actions:
            if isinstance(action, Conclude):
                assert state is RunState.COLLECTING
                assert set(action.lost) == set(NODES) - set(stored)
                assert not {Word.RUNNING, Word.SILENT} & {words[NODES.index(node)] for node in action.lost}
            if isinstance(action, Stop):
                assert action.reason is not None
                assert not set(action.nodes) & set(stored)
        alive = {word for node, word in zip(NODES, words, strict=True) if node not in stored} & {
            Word.RUNNING,
            Word.SILENT,
        }
        if alive:
            # A device is free only when its process is dead: no move towards an end while one may live.
            assert all(move.to is RunState.RUNNING for move in moves)
            assert not any(isinstance(action, Conclude) for action in actions)


def test_every_view_leads_on_once_the_agents_answer() -> None:
    """From any open state, with agents that answer and do as told, decide always has something to do."""
    for state, stored, cancel in itertools.product(sorted(HOLDS_DEVICES), [(), ("n0",), NODES], [False, True]):
        run = an_open_run(state, NODES, cancel_requested=cancel)
        assert decide(seen(run, (Word.ENDED, Word.ENDED), stored)), (state, stored, cancel)


@pytest.mark.parametrize(
    ("failure", "attempts", "cancel", "state"),
    [
        (None, 1, False, RunState.COMPLETED),
        (None, 1, True, RunState.COMPLETED),
        (FailureKind.CANCELLED, 1, True, RunState.CANCELLED),
        (FailureKind.NODE_LOST, 1, False, RunState.QUEUED),
        (FailureKind.NODE_LOST, 3, False, RunState.FAILED),
        (FailureKind.NODE_LOST, 1, True, RunState.CANCELLED),
        (FailureKind.CRASHED, 1, False, RunState.FAILED),
    ],
)
def test_the_outcome_of_an_attempt(failure: FailureKind | None, attempts: int, cancel: bool, state: RunState) -> None:
    made = Failure(failure, "") if failure else None
    assert outcome(made, attempts, cancel) is state


def test_old_runs_are_looked_at_less_often_than_young_ones() -> None:
    assert [pace_s(age, is_followed=False) for age in (0.0, 1.0, 10.0, 1000.0)] == [0.05, 1.0, 10.0, 10.0]
    assert [pace_s(age, is_followed=True) for age in (0.0, 1.0, 10.0, 1000.0)] == [0.05, 0.05, 0.5, 3.0]


LONG_AFTER_S = 1e12


def pause(situation: Situation, is_followed: bool = False) -> float:
    return pause_s(situation, LONG_AFTER_S, lambda _: is_followed)


def test_beside_attempts_that_run_nothing_stirs_for_a_while_unless_somebody_follows_them() -> None:
    situation = seen(an_open_run(RunState.RUNNING), (Word.RUNNING,))
    assert pause(situation) == PACE_S[1]
    assert pause(situation, is_followed=True) < PACE_S[1]


def test_what_is_not_as_it_should_be_is_looked_at_as_often_as_ever() -> None:
    two = ("n0", "n1")
    assert pause(Situation((), ())) == IDLE_S
    assert pause(seen(an_open_run(RunState.PLACING), (Word.RUNNING,))) == IDLE_S
    assert pause(seen(an_open_run(RunState.COLLECTING), (Word.ENDED,))) == IDLE_S
    assert pause(seen(an_open_run(RunState.RUNNING, two), (Word.RUNNING, Word.SILENT))) == IDLE_S
    assert pause(seen(an_open_run(RunState.RUNNING, cancel_requested=True), (Word.RUNNING,))) == IDLE_S
