"""The contract of the store: how an attempt is concluded, and what it came to. On SQLite and on PostgreSQL."""

import pytest
from sqlalchemy import select

from orchestrator.db.store import SqlStore
from orchestrator.db.tables.schema import result
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.domain.runs.run import TERMINAL, IllegalMove, RunState
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]


@pytest.mark.parametrize("to", [RunState.PLACING, RunState.RUNNING, RunState.COLLECTING])
def test_an_attempt_concludes_in_an_end_or_in_the_queue(store: SqlStore, to: RunState) -> None:
    _, (run,) = scene.submitted(store)
    scene.brought_to(store, run, RunState.COLLECTING)

    with pytest.raises(IllegalMove):
        store.conclude(run.id, to, at=3000.0)


@pytest.mark.parametrize("to", sorted(TERMINAL))
def test_concluding_stores_the_result_and_ends_run_and_attempt(store: SqlStore, to: RunState) -> None:
    experiment, (run,) = scene.submitted(store)
    scene.brought_to(store, run, RunState.COLLECTING)
    failure = None if to is RunState.COMPLETED else scene.CRASH
    fingerprint = {"workload": {"model": "net"}, "workload_key": "w", "subject_key": "s", "rig_key": "r"}

    assert store.conclude(run.id, to, at=3000.0, failure=failure, analysis=scene.analysis(), fingerprint=fingerprint)
    assert not store.conclude(run.id, to, at=4000.0)

    after = store.run(run.id)
    assert (after.state, after.ended_at, after.failure) == (to, 3000.0, failure)
    assert (after.analysis, after.fingerprint) == (scene.analysis(), fingerprint)
    assert after.attempt is not None
    assert (after.attempt.ended_at, after.attempt.failure) == (3000.0, failure)
    last = store.changes(experiment.id)[-1]
    assert (last.state, last.run_id, last.data["validity"]["grade"]) == (to, run.id, "disturbed")
    assert last.data.get("failure", {}).get("kind") == (failure.kind if failure else None)


def test_what_questions_across_runs_need_stands_beside_the_analysis(store: SqlStore) -> None:
    _, (run,) = scene.submitted(store)
    scene.brought_to(store, run, RunState.COLLECTING)
    store.conclude(run.id, RunState.COMPLETED, at=3000.0, analysis=scene.analysis(), fingerprint={"workload_key": "w"})

    columns = select(result.c.workload_key, result.c.throughput)
    assert store.database.read(lambda connection: connection.execute(columns).all()) == [("w", 12.5)]


def test_numbers_that_are_not_finite_come_back(store: SqlStore) -> None:
    _, (run,) = scene.submitted(store)
    scene.brought_to(store, run, RunState.COLLECTING)

    store.conclude(run.id, RunState.COMPLETED, at=3000.0, analysis=scene.analysis(float("inf")))

    stored = store.run(run.id).analysis
    assert stored is not None
    assert stored.measurements[0].value == float("inf")


def test_what_an_owner_has_used_counts_half_a_day_later(store: SqlStore) -> None:
    at, (_, runs) = 2000.0, scene.submitted(store, runs=2, owner="ada")
    for run in runs:
        attempt = scene.brought_to(store, run, RunState.COLLECTING, at)
        assert attempt is not None
        store.conclude(run.id, RunState.COMPLETED, at=attempt.created_at + 100.0)
    devices = sum(len(share.devices) for share in attempt.placement.shares)
    assert store.uses(attempt.created_at + 100.0) == {"ada": pytest.approx(200.0 * devices)}
    assert store.uses(attempt.created_at + 100.0 + 86400.0) == {"ada": pytest.approx(100.0 * devices)}
    assert store.uses(0.0) == {"ada": pytest.approx(200.0 * devices)}  # by a clock that was set back


def test_a_run_that_goes_back_to_the_queue_keeps_the_failure_at_its_attempt(store: SqlStore) -> None:
    _, (run,) = scene.submitted(store)
    scene.brought_to(store, run, RunState.COLLECTING)
    assert store.conclude(run.id, RunState.QUEUED, at=3000.0, failure=scene.LOST, analysis=scene.analysis(1.0))

    waiting = store.run(run.id)
    assert (waiting.state, waiting.failure, waiting.ended_at) == (RunState.QUEUED, None, None)
    assert store.begin_attempt(run.id, scene.attempt_of(run, 2))
    assert store.move_run(run.id, RunState.PLACING, RunState.RUNNING, at=3100.0)
    assert store.move_run(run.id, RunState.RUNNING, RunState.COLLECTING, at=3200.0)
    assert store.conclude(run.id, RunState.COMPLETED, at=3300.0, analysis=scene.analysis(2.0))

    after = store.run(run.id)
    assert [(one.number, one.failure, one.ended_at) for one in after.attempts] == [
        (1, scene.LOST, 3000.0),
        (2, None, 3300.0),
    ]
    assert after.started_at == 2001.0  # the run began with its first attempt
    assert after.analysis == scene.analysis(2.0)


def test_cells_are_found_by_their_series_and_by_when_they_were_submitted(store: SqlStore) -> None:
    old = scene.experiment(at=1000.0)
    new = scene.experiment(at=2000.25)
    for one, key in ((old, "w"), (new, "other")):
        (run,) = scene.runs_for(one)
        store.add_experiment(one, [run])
        scene.brought_to(store, run, RunState.COLLECTING)
        fingerprint = {"workload": {}, "workload_key": key}
        store.conclude(run.id, RunState.COMPLETED, at=3000.0, analysis=scene.analysis(), fingerprint=fingerprint)

    def found(wanted: CellFilter) -> list[str]:
        return [cell.experiment.id for cell in store.cells(wanted).items]

    assert found(CellFilter(series="w")) == [old.id]
    assert found(CellFilter(series="none")) == []
    assert found(CellFilter(since=1000.0)) == [new.id, old.id]
    assert found(CellFilter(since=2000.2500003)) == [new.id], "times are shown to the microsecond"
    assert found(CellFilter(until=2000.25)) == [old.id]
    assert found(CellFilter(since=1500.0, series="w")) == []
