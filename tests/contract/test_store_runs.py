"""The contract of the store: runs, attempts, moves, changes, orders. On SQLite and on PostgreSQL."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from orchestrator.db.connection.among import among
from orchestrator.db.run import runs as run_rows
from orchestrator.db.store import SqlStore
from orchestrator.db.tables.schema import attempt as attempts
from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.runs.filters import RunFilter
from orchestrator.domain.runs.run import MOVES, IllegalMove, RunState
from orchestrator.domain.words.errors import Conflict
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]

ILLEGAL = [(a, b) for a, b in itertools.product(RunState, RunState) if b not in MOVES[a]]


def test_a_run_comes_back_as_it_was_stored(store: SqlStore) -> None:
    experiment, (queued,) = scene.submitted(store)

    assert store.run(queued.id) == queued
    assert store.runs_of(experiment.id) == [queued]


def test_runs_are_found_by_experiment_owner_state_model_framework_and_label(store: SqlStore) -> None:
    new = scene.experiment(owner="bob", labels={"team": "speech"})
    other = scene.runs_for(new, model="net-2", framework="tensorflow")[0]
    store.add_experiment(new, [other])
    experiment, (first, second) = scene.submitted(store, runs=2, labels={"team": "vision"})
    scene.brought_to(store, second, RunState.RUNNING)

    def found(**filters: object) -> list[str]:
        return [one.id for one in store.runs(RunFilter(**filters)).items]  # type: ignore[arg-type]

    assert found() == [second.id, first.id, other.id]
    assert found(experiment_id=experiment.id) == found(owner="ada") == found(model="net") == [second.id, first.id]
    assert found(label=("team", "vision"), framework="pytorch") == [second.id, first.id]
    assert found(state=RunState.RUNNING) == [second.id]
    assert found(owner="bob", model="net-2", framework="tensorflow", label=("team", "speech")) == [other.id]
    assert found(model="net", framework="tensorflow") == []


def test_pages_of_runs_have_attempts_and_analysis(store: SqlStore) -> None:
    experiment, runs = scene.submitted(store, runs=5)
    attempt = scene.brought_to(store, runs[4], RunState.COLLECTING)
    store.conclude(runs[4].id, RunState.COMPLETED, at=3000.0, analysis=scene.analysis())

    page = store.runs(RunFilter(experiment_id=experiment.id), limit=3)
    rest = store.runs(RunFilter(experiment_id=experiment.id), limit=3, cursor=page.next_cursor)

    assert [run.id for run in [*page.items, *rest.items]] == [run.id for run in reversed(runs)]
    assert rest.next_cursor is None
    assert page.items[0].analysis == scene.analysis()
    assert attempt is not None
    assert [one.id for one in page.items[0].attempts] == [attempt.id]


def test_the_queue_comes_by_priority_and_then_age(store: SqlStore) -> None:
    _late, (late_run,) = scene.submitted(store, at=2000.0, priority=5)
    _, (early_run, ended) = scene.submitted(store, runs=2, at=1000.0, priority=5)
    _, (urgent_run,) = scene.submitted(store, at=3000.0, priority=10)
    scene.brought_to(store, ended, RunState.FAILED)

    assert [run.id for run in store.queue_heads(9)] == [urgent_run.id, early_run.id, late_run.id]
    assert [run.id for run in store.queue_heads(2)] == [urgent_run.id, early_run.id]


def test_of_the_queue_the_first_runs_of_each_kind_are_had(store: SqlStore) -> None:
    near, far = scene.experiment(at=1000.0), scene.experiment(at=2000.0)
    near_runs, far_runs = scene.runs_for(near, 3), scene.runs_for(far, 3, node_names=("elsewhere",))
    store.add_experiment(near, near_runs)
    store.add_experiment(far, far_runs)

    assert [run.id for run in store.queue_heads(2)] == [run.id for run in (*near_runs[:2], *far_runs[:2])]
    scene.brought_to(store, near_runs[0], RunState.RUNNING)
    store.cancel_run(far_runs[0].id, 3000.0)
    assert [run.id for run in store.queue_heads(1)] == [near_runs[1].id, far_runs[1].id]


def test_open_runs_are_those_that_hold_devices_and_some_that_are_to_be_cancelled(store: SqlStore) -> None:
    _, runs = scene.submitted(store, runs=5, at=1000.0)
    attempt = scene.brought_to(store, runs[0], RunState.PLACING)
    scene.brought_to(store, runs[1], RunState.FAILED)
    store.cancel_run(runs[2].id, 1001.0)
    store.cancel_run(runs[3].id, 1001.0)

    assert [run.id for run in store.open_runs(9).runs] == [runs[0].id, runs[2].id, runs[3].id]
    assert [run.id for run in store.open_runs(1).runs] == [runs[0].id, runs[2].id]
    assert store.open_runs(1).runs[0].attempts == (attempt,)


def test_queued_runs_that_ask_for_the_same_wait_for_one_reason(store: SqlStore) -> None:
    _, runs = scene.submitted(store, runs=3)
    needs = runs[0].plan.needs.key
    store.set_waiting(needs, "waits for n0")
    store.set_waiting(needs, "waits for n1")
    scene.brought_to(store, runs[2], RunState.RUNNING)
    _, (other,) = scene.submitted(store, at=3000.0)
    new = scene.experiment(at=4000.0)
    store.add_experiment(new, [elsewhere := scene.runs_for(new, node_names=("elsewhere",))[0]])

    told = {run.id: run.waiting for run in store.runs().items}
    assert told == {runs[0].id: "waits for n1", runs[1].id: "waits for n1", other.id: "waits for n1"} | {
        runs[2].id: None,
        elsewhere.id: None,
    }
    assert [run.waiting for run in store.queue_heads(1)] == ["waits for n1", None]


def test_beginning_an_attempt_moves_the_run_and_stores_the_attempt_together(store: SqlStore) -> None:
    _, (run,) = scene.submitted(store)
    store.set_waiting(run.plan.needs.key, "waits for n1")
    assert store.run(run.id).waiting == "waits for n1"
    attempt = scene.attempt_of(run, nodes=("n0", "n1"), created_at=2000.0)

    assert store.begin_attempt(run.id, attempt)
    assert not store.begin_attempt(run.id, scene.attempt_of(run, 2))

    after = store.run(run.id)
    assert (after.state, after.attempts, after.waiting) == (RunState.PLACING, (attempt,), None)


def test_no_attempt_begins_on_a_node_that_is_ordered_to_take_none_whatever_was_seen_before(store: SqlStore) -> None:
    _, (run,) = scene.submitted(store)
    store.order_node("n1", NodeState.DRAINING)

    assert not store.begin_attempt(run.id, scene.attempt_of(run, nodes=("n0", "n1")))
    assert (store.run(run.id).state, store.run(run.id).attempts) == (RunState.QUEUED, ())

    store.order_node("n1", None)
    store.order_node("n2", NodeState.QUARANTINED)
    assert store.begin_attempt(run.id, scene.attempt_of(run, nodes=("n0", "n1")))


def test_one_of_many_threads_begins_the_attempt(store: SqlStore) -> None:
    _, (run,) = scene.submitted(store)

    with ThreadPoolExecutor(8) as threads:
        begun = list(threads.map(lambda number: store.begin_attempt(run.id, scene.attempt_of(run, number)), range(8)))

    assert sum(begun) == 1
    assert len(store.run(run.id).attempts) == 1


def test_an_attempt_number_is_given_once(store: SqlStore) -> None:
    _, (run,) = scene.submitted(store)
    scene.brought_to(store, run, RunState.QUEUED)
    store.begin_attempt(run.id, scene.attempt_of(run, 1))
    store.move_run(run.id, RunState.PLACING, RunState.COLLECTING, at=2000.0)
    store.conclude(run.id, RunState.QUEUED, at=2001.0, failure=scene.LOST)

    with pytest.raises(Conflict):
        store.begin_attempt(run.id, scene.attempt_of(run, 1))
    assert store.run(run.id).state is RunState.QUEUED  # the move was undone with it


def test_moves_date_the_attempt_and_the_run(store: SqlStore) -> None:
    _, (run,) = scene.submitted(store)
    store.begin_attempt(run.id, scene.attempt_of(run))

    assert store.move_run(run.id, RunState.PLACING, RunState.RUNNING, at=2001.0)
    assert not store.move_run(run.id, RunState.PLACING, RunState.RUNNING, at=2002.0)
    assert store.move_run(run.id, RunState.RUNNING, RunState.COLLECTING, at=2003.0)
    assert store.move_run(run.id, RunState.COLLECTING, RunState.FAILED, at=2004.0, failure=scene.CRASH)

    after = store.run(run.id)
    assert (after.state, after.started_at, after.ended_at, after.failure) == (
        RunState.FAILED,
        2001.0,
        2004.0,
        scene.CRASH,
    )
    assert after.attempt is not None
    assert (after.attempt.started_at, after.attempt.ended_at, after.attempt.failure) == (2001.0, 2004.0, scene.CRASH)


@pytest.mark.parametrize(("state", "to"), ILLEGAL, ids=[f"{a}-{b}" for a, b in ILLEGAL])
def test_every_move_that_the_table_lacks_is_refused(sqlite_url: str, state: RunState, to: RunState) -> None:
    store = SqlStore(sqlite_url)
    try:
        _, (run,) = scene.submitted(store)
        scene.brought_to(store, run, state)
        with pytest.raises(IllegalMove):
            store.move_run(run.id, state, to, at=3000.0)
        assert store.run(run.id).state is state
    finally:
        store.close()


def test_a_run_is_cancelled_once_and_not_after_its_end(store: SqlStore) -> None:
    experiment, (queued, ended) = scene.submitted(store, runs=2)
    scene.brought_to(store, ended, RunState.COMPLETED)

    for _ in range(2):
        store.cancel_run(queued.id, 3000.0)
        store.cancel_run(ended.id, 3000.0)

    assert store.run(queued.id).cancel_requested
    assert not store.run(ended.id).cancel_requested
    assert len([one for one in store.changes(experiment.id) if one.data.get("cancel_requested")]) == 1


def test_the_first_reason_to_stop_stays(store: SqlStore) -> None:
    _, (run,) = scene.submitted(store)
    attempt = scene.brought_to(store, run, RunState.RUNNING)
    assert attempt is not None

    store.request_stop(attempt.id, "timed_out")
    store.request_stop(attempt.id, "cancelled")

    assert store.run(run.id).attempts[0].stop_requested == "timed_out"


def test_changes_tell_the_story_of_an_experiment_in_order(store: SqlStore) -> None:
    experiment, (run, _other) = scene.submitted(store, runs=2)
    scene.submitted(store)
    scene.brought_to(store, run, RunState.COMPLETED)
    store.add_runs(scene.runs_for(experiment, first=3))

    told = store.changes(experiment.id)
    of_run = store.changes(experiment.id, run_id=run.id)

    assert [one.number for one in told] == sorted({one.number for one in told})
    assert [one.state for one in of_run] == ["queued", "placing", "running", "collecting", "completed"]
    assert [one.state for one in told if one.run_id is None] == ["active"]
    assert len(told) == 1 + 5 + 1 + 1
    assert store.changes(experiment.id, after=told[2].number, limit=2) == told[3:5]
    assert store.changes(experiment.id, after=2**70) == []


def test_changes_of_many_threads_are_seen_in_the_order_of_their_numbers(store: SqlStore) -> None:
    experiment, runs = scene.submitted(store, runs=24)
    seen: list[int] = []

    with ThreadPoolExecutor(8) as threads:
        work = [threads.submit(store.cancel_run, run.id, 3000.0) for run in runs]
        while not all(one.done() for one in work):
            seen += [one.number for one in store.changes(experiment.id, after=seen[-1] if seen else 0)]
    seen += [one.number for one in store.changes(experiment.id, after=seen[-1])]

    assert seen == [one.number for one in store.changes(experiment.id)]  # a reader that goes on misses none
    assert len(seen) == 1 + 24 + 24


def test_orders_to_nodes_are_kept_replaced_and_taken_back(store: SqlStore) -> None:
    store.order_node("n0", NodeState.DRAINING)
    store.order_node("n1", NodeState.DRAINING)
    store.order_node("n0", NodeState.QUARANTINED)
    store.order_node("n1", None)
    store.order_node("n2", None)

    assert store.node_orders() == {"n0": NodeState.QUARANTINED}
    with pytest.raises(ValueError, match="ordered"):
        store.order_node("n0", NodeState.UNREACHABLE)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_of_a_labels_runs_come_together_newest_first_also_where_experiments_overlap(
    store: SqlStore, limit: int
) -> None:
    labels = {"team": "vision"}
    overlapping = [scene.submitted(store, runs=3, at=at, labels=labels)[0] for at in (1000.0, 1000.0, 2000.0, 3000.0)]
    scene.submitted(store, runs=2, at=2500.0, labels={"team": "speech"})
    scene.submitted(store, runs=2, at=2500.0, owner="bob", labels=labels)
    store.add_experiment(scene.experiment(at=4000.0, labels=labels), [])
    for repetition, at in ((4, 2000.0), (5, 3500.0)):
        assert store.add_runs([replace(scene.runs_for(overlapping[0], 1, first=repetition)[0], created_at=at)]) == 1

    every = [one for new in overlapping for one in store.runs_of(new.id)]
    wanted = [one.id for one in sorted(every, key=lambda one: (one.created_at, one.id), reverse=True)]
    found: list[str] = []
    cursor = None
    while True:
        page = store.runs(RunFilter(owner="ada", label=("team", "vision")), limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        found += [one.id for one in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == wanted
    assert len(wanted) == 14


def test_a_statement_takes_more_ids_than_a_database_takes_parameters(store: SqlStore) -> None:
    """PostgreSQL's protocol ends at 65,535; SQLite here may be built for more than the usual 32,766."""
    _, (run,) = scene.submitted(store)
    attempt = scene.brought_to(store, run, RunState.PLACING)
    many = [*map(str, range(70_000)), run.id]
    found = store.database.read(lambda connection: run_rows._attempts(connection, among(attempts.c.run_id, many)))
    assert [row.id for row in found[run.id]] == [attempt.id]
    assert store.fingerprints(many) == {}
    store.note_use(many, 1.0)
