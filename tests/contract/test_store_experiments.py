"""The contract of the store: experiments, idempotency, lists. On SQLite and on PostgreSQL."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.domain.runs.filters import ExperimentFilter
from orchestrator.domain.runs.run import ExperimentState, RunState
from orchestrator.domain.runs.stored import Idempotency
from orchestrator.domain.words.errors import IdempotencyMismatch, InvalidRequest, NotFound
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]


def test_an_experiment_comes_back_as_it_was_stored(store: SqlStore) -> None:
    new = scene.experiment(labels={"team": "vision"}, framework=["pytorch", "tensorflow"])

    stored, created = store.add_experiment(new, scene.runs_for(new, 2))

    assert created
    assert store.experiment(new.id) == stored
    assert (stored.spec, stored.facts, stored.owner) == (new.spec, new.facts, new.owner)
    assert stored.run_counts == {RunState.QUEUED: 2}


def test_an_unknown_id_is_not_found(store: SqlStore) -> None:
    for look in (store.experiment, store.run, store.runs_of, store.changes, store.last_seqs, store.entries):
        with pytest.raises(NotFound, match="nobody"):
            look("nobody")
    for order in (store.cancel_experiment, store.cancel_run, store.request_stop):
        with pytest.raises(NotFound, match="nobody"):
            order("nobody", 1.0)  # type: ignore[operator]
    with pytest.raises(NotFound):
        store.append_entries("nobody", "n0", [scene.entry(1)])
    with pytest.raises(NotFound):
        store.move_run("nobody", RunState.QUEUED, RunState.CANCELLED, at=1.0)


def test_the_same_idempotency_key_stores_one_experiment(store: SqlStore) -> None:
    first, second = scene.experiment(), scene.experiment()
    key = Idempotency("ada", "key", "digest")

    store.add_experiment(first, scene.runs_for(first), key)
    again, created = store.add_experiment(second, scene.runs_for(second), key)

    assert not created
    assert again == store.experiment(first.id)
    with pytest.raises(NotFound):
        store.experiment(second.id)


def test_an_idempotency_key_with_another_body_is_refused_and_nothing_stored(store: SqlStore) -> None:
    first, second = scene.experiment(), scene.experiment()
    store.add_experiment(first, [], Idempotency("ada", "key", "digest"))

    with pytest.raises(IdempotencyMismatch, match="key"):
        store.add_experiment(second, [], Idempotency("ada", "key", "another"))

    assert [one.id for one in store.experiments().items] == [first.id]


def test_a_key_of_a_request_that_stores_nothing_is_known_and_another_request_refused(store: SqlStore) -> None:
    key = Idempotency("ada", "key", "digest")
    assert not store.key_used(key)
    store.use_key(key)
    store.use_key(key)
    assert store.key_used(key)
    with pytest.raises(IdempotencyMismatch, match="another request"):
        store.key_used(Idempotency("ada", "key", "another"))
    with pytest.raises(IdempotencyMismatch):
        store.add_experiment(scene.experiment(), [], Idempotency("ada", "key", "another"))
    assert not store.key_used(Idempotency("bob", "key", "another"))


def test_owners_do_not_share_idempotency_keys(store: SqlStore) -> None:
    for owner in ("ada", "bob"):
        new = scene.experiment(owner=owner)
        assert store.add_experiment(new, [], Idempotency(owner, "key", "digest"))[1]


def test_sixteen_threads_with_one_idempotency_key_store_one_experiment(store: SqlStore) -> None:
    ready = threading.Barrier(16)

    def submit(_: int) -> tuple[str, bool]:
        new = scene.experiment()
        ready.wait()
        stored, created = store.add_experiment(new, scene.runs_for(new, 2), Idempotency("ada", "key", "digest"))
        return stored.id, created

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(submit, range(16)))

    assert len({identifier for identifier, _ in answers}) == 1
    assert sum(created for _, created in answers) == 1
    assert len(store.queue_heads(9)) == 2


def test_equal_plans_of_an_experiment_are_stored_once(store: SqlStore) -> None:
    new = scene.experiment()
    twice = [*scene.runs_for(new), *scene.runs_for(new)]

    store.add_experiment(new, twice)

    assert [run.id for run in store.runs_of(new.id)] == [twice[0].id]
    assert store.add_runs([*scene.runs_for(new), *scene.runs_for(new, first=2)]) == 1
    assert store.experiment(new.id).run_counts == {RunState.QUEUED: 2}


def test_pages_follow_each_other_newest_first_without_gap_or_repetition(store: SqlStore) -> None:
    made = [scene.submitted(store, at=1000.0 + (k // 3))[0].id for k in range(10)]  # some at the same moment

    seen, cursor = [], None
    while True:
        page = store.experiments(limit=3, cursor=cursor)
        seen += [one.id for one in page.items]
        if (cursor := page.next_cursor) is None:
            break
        scene.submitted(store, at=9999.0)  # what is newer than the first page disturbs nobody

    assert sorted(seen) == sorted(made)
    times = [(store.experiment(one).created_at, one) for one in seen]
    assert times == sorted(times, reverse=True)


@pytest.mark.parametrize("cursor", ["", "x", "%%%", "WzFd", "bnVsbA", "WzEsICJhIl0", "WzEuMCwgImFcdTAwMDAiXQ", "é"])
def test_a_cursor_that_is_not_ours_is_refused(store: SqlStore, cursor: str) -> None:
    for listing in (store.experiments, store.runs):
        with pytest.raises(InvalidRequest, match="cursor"):
            listing(cursor=cursor)


def test_experiments_are_found_by_owner_state_name_and_label(store: SqlStore) -> None:
    wanted, _ = scene.submitted(store, name="wanted", labels={"team": "vision", "ünïcode \x00": "\x1b"})
    other, (run,) = scene.submitted(store, runs=1, name="other", owner="bob", labels={"team": "speech"})
    scene.brought_to(store, run, RunState.FAILED)
    store.end_experiment(other.id, ExperimentState.FAILED, 3000.0)

    def found(**filters: object) -> list[str]:
        return [one.id for one in store.experiments(ExperimentFilter(**filters)).items]  # type: ignore[arg-type]

    assert found(owner="ada") == found(name="wanted") == found(state=ExperimentState.ACTIVE) == [wanted.id]
    assert found(label=("team", "vision")) == found(label=("ünïcode \x00", "\x1b")) == [wanted.id]
    assert found(label=("team", "speech"), state=ExperimentState.FAILED, owner="bob") == [other.id]
    assert found(label=("vision", "team")) == found(owner="bob", name="wanted") == []


def test_things_are_found_by_a_name_and_by_the_beginning_of_an_id(store: SqlStore) -> None:
    older, (run,) = scene.submitted(store, name="mine", at=1000.0)
    newer, _ = scene.submitted(store, name="mine", at=2000.0)
    assert [one.id for one in store.find("mine")] == [newer.id, older.id]
    assert [one.id for one in store.find("mine", limit=1)] == [newer.id]
    assert [(one.kind, one.id, one.experiment_id) for one in store.find(run.id[:-1])] == [("run", run.id, older.id)]
    assert [one.id for one in store.find(older.id[4:-1])] == [older.id]
    assert len(store.find("exp_")) == 2
    assert store.find("exp-") == store.find("MINE") == []
