"""The contract of the store: experiments that are extended. On SQLite and on PostgreSQL."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.domain.runs.run import Experiment, ExperimentState, RunState
from orchestrator.domain.words.errors import Conflict, NotFound
from tests.contract import store_scenes as scene
from tests.unit import builders as make

pytest_plugins = ["tests.contract.store_servers"]


def longer(experiment: Experiment, **fields: Any) -> Experiment:
    return replace(experiment, spec=make.spec(**fields))


def test_an_extended_experiment_has_the_new_spec_and_each_plan_once(store: SqlStore) -> None:
    experiment, (run,) = scene.submitted(store)
    scene.brought_to(store, run, RunState.COMPLETED)
    store.end_experiment(experiment.id, ExperimentState.COMPLETED, 3000.0)
    old = store.experiment(experiment.id)
    new = longer(old, repeats=4)
    wanted = [*scene.runs_for(experiment, 2), *scene.runs_for(experiment, per_device_batch_size=8)]

    assert store.extend_experiment(old, new, wanted, 4000.0) == 2
    after = store.experiment(experiment.id)
    assert (after.spec, after.state, after.ended_at) == (new.spec, ExperimentState.ACTIVE, None)
    assert after.run_counts == {RunState.COMPLETED: 1, RunState.QUEUED: 2}
    assert store.extend_experiment(after, new, scene.runs_for(experiment, 2), 5000.0) == 0
    assert {cell.runs[0].plan.per_device_batch_size for cell in store.cells().items} == {4, 8}
    assert [change.data["runs"] for change in store.changes(experiment.id) if "extended" in change.data] == [2]


def test_what_was_cancelled_before_it_began_is_queued_anew_with_the_extension(store: SqlStore) -> None:
    experiment, (begun, waiting) = scene.submitted(store, runs=2)
    scene.brought_to(store, begun, RunState.COLLECTING)
    store.cancel_experiment(experiment.id, 3000.0)
    store.conclude(begun.id, RunState.CANCELLED, at=3500.0)
    store.move_run(waiting.id, RunState.QUEUED, RunState.CANCELLED, at=3600.0)
    store.end_experiment(experiment.id, ExperimentState.CANCELLED, 4000.0)
    old = store.experiment(experiment.id)

    assert store.extend_experiment(old, longer(old, repeats=5), scene.runs_for(experiment, 3), 5000.0) == 2
    after = store.experiment(experiment.id)
    assert not after.cancel_requested
    assert after.run_counts == {RunState.CANCELLED: 1, RunState.QUEUED: 2}
    with pytest.raises(NotFound):
        store.run(waiting.id)
    assert store.run(begun.id).attempts


def test_an_extension_of_what_has_changed_meanwhile_is_refused(store: SqlStore) -> None:
    experiment, _ = scene.submitted(store)
    old = store.experiment(experiment.id)
    store.extend_experiment(old, longer(old, repeats=4), [], 2000.0)
    with pytest.raises(Conflict, match="changed meanwhile"):
        store.extend_experiment(old, longer(old, repeats=5), [], 3000.0)
    store.cancel_experiment(experiment.id, 3000.0)
    with pytest.raises(Conflict):
        store.extend_experiment(longer(old, repeats=4), longer(old, repeats=5), [], 4000.0)
    with pytest.raises(NotFound):
        store.extend_experiment(replace(old, id="nobody"), old, [], 1.0)
