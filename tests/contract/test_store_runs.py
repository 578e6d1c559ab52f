"""The contract of the store: runs, attempts, moves, changes, orders. On SQLite and on PostgreSQL."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from orchestrator.db.connection.among import among
from orchestrator.db.run import runs as run_rows
from orchestrator.db.store import SqlStore
from orchestrator.db.tables.schema import attempt as attempts
from orchestrator.domain.runs.filters import RunFilter
from orchestrator.domain.runs.run import MOVES, IllegalMove, RunState
from orchestrator.domain.words.errors import Conflict, NotFound
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]

ILLEGAL = [(a, b) for a, b in itertools.product(RunState, RunState) if b not in MOVES[a]]


def test_a_run_comes_back_as_it_was_stored(store: SqlStore) -> None:
    experiment, (queued,) = scene.submitted(store)

    assert store.run(queued.id) == queued
    assert store.runs_of(experiment.id) == [queued]


def test_runs_and_experiments_come_by_their_ids_in_the_order_of_these(store: SqlStore) -> None:
    made = [scene.submitted(store, at=at) for at in (1000.0, 2000.0, 3000.0)]
    ids = [made[2][0].id, made[0][0].id]
    assert list(store.experiments_named(ids)) == [store.experiment(one) for one in ids]
    assert list(store.runs_named([made[1][1][0].id, made[0][1][0].id])) == [made[1][1][0], made[0][1][0]]
    for ask in (store.runs_named, store.experiments_named):
        assert list(ask([])) == []
        with pytest.raises(NotFound, match="gone"):
            ask(["gone"])


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


def test_changes_tell_the_story_of_an_experiment_in_order(store: SqlStore) -> None:
    experiment, (run, _other) = scene.submitted(store, runs=2)
    scene.submitted(store)
    scene.brought_to(store, run, RunState.COMPLETED)
    store.add_runs(scene.runs_for(experiment, first=3))

    told = store.changes(experiment.id)
    assert store.last_changes([experiment.id, "exp_none"]) == {experiment.id: told[-1].number}
    assert store.newest_change() == told[-1].number
    assert [one.number for one in told] == sorted({one.number for one in told})
    assert [one.state for one in told if one.run_id == run.id] == [
        "queued",
        "placing",
        "running",
        "collecting",
        "completed",
    ]
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
