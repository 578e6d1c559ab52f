"""The contract of the store: series and their points. On SQLite and on PostgreSQL."""

from typing import Any

import pytest
from sqlalchemy import select, update

from orchestrator.db.store import SqlStore
from orchestrator.db.tables.history import point
from orchestrator.db.tables.schema import result
from orchestrator.domain.runs.filters import SeriesFilter
from orchestrator.domain.runs.row import UNKNOWN
from orchestrator.domain.runs.run import Experiment, RunState
from orchestrator.domain.words.errors import InvalidRequest
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]


def told(key: str, *devices: str) -> dict[str, Any]:
    return {"workload": {"model": "net", "device_models": list(devices)}, "workload_key": key}


def measured(store: SqlStore, key: str, at: float = 1000.0, runs: int = 1, **fields: Any) -> Experiment:
    """An experiment of one cell, all of whose runs are of the workload ``key``."""
    experiment, queued = scene.submitted(store, runs, at=at, **fields)
    for run in queued:
        ended(store, run.id, told(key, "a cpu"), run)
    return experiment


def ended(store: SqlStore, run_id: str, fingerprint: dict[str, Any], run: Any, at: float = 3000.0) -> None:
    scene.brought_to(store, run, RunState.COLLECTING)
    assert store.conclude(run_id, RunState.COMPLETED, at=at, analysis=scene.analysis(), fingerprint=fingerprint)


def test_series_are_listed_in_pages_that_of_the_newest_experiment_first(store: SqlStore) -> None:
    for number, key in enumerate(("a1", "a2", "b1", "a1")):
        measured(store, key, at=1000.0 + number, name=f"n{number}", owner="bob" if key == "b1" else "ada")
    listed = store.series(limit=2)
    assert [(one.key, one.n_points) for one in listed.items] == [("a1", 2), ("b1", 1)]
    assert (listed.items[0].first_at, listed.items[0].last_at) == (1000.0, 1003.0)
    assert listed.items[0].workload["device_models"] == ["a cpu"]
    rest = store.series(limit=2, cursor=listed.next_cursor)
    assert ([one.key for one in rest.items], rest.next_cursor) == (["a2"], None)
    with pytest.raises(InvalidRequest):
        store.series(cursor="nonsense")


@pytest.mark.parametrize(
    ("wanted", "keys"),
    [
        (SeriesFilter(key="a"), ["a1"]),
        (SeriesFilter(key="%"), []),
        (SeriesFilter(owner="bob"), ["b1"]),
        (SeriesFilter(model="net"), ["b1", "a1"]),
        (SeriesFilter(framework="tensorflow"), []),
        (SeriesFilter(label=("team", "vision")), ["b1"]),
        (SeriesFilter(gpu_model="h100"), []),
    ],
)
@pytest.mark.after_change
def test_series_are_found_by_what_their_cells_have(store: SqlStore, wanted: SeriesFilter, keys: list[str]) -> None:
    measured(store, "a1")
    measured(store, "b1", at=1001.0, owner="bob", labels={"team": "vision"})
    assert [one.key for one in store.series(wanted).items] == keys


def test_what_was_made_again_by_a_confirmation_is_no_series_but_of_its_own_experiment(store: SqlStore) -> None:
    measured(store, "a1")
    experiment, (run,) = scene.submitted(store, at=1001.0, name="gate")
    again = told("a1-again", "a cpu")
    ended(store, run.id, again | {"workload": {**again["workload"], "confirms": True}}, run)
    assert [one.key for one in store.series().items] == ["a1"]
    for wanted in (SeriesFilter(key="a1-again"), SeriesFilter(experiment_id=experiment.id)):
        assert [one.key for one in store.series(wanted).items] == ["a1-again"]


def test_a_cell_that_never_told_its_devices_is_a_point_of_the_series_of_its_plan(store: SqlStore) -> None:
    measured(store, "a1")
    _, (run,) = scene.submitted(store, at=1001.0, name="failed")
    scene.submitted(store, at=1002.0, name="queued")  # nothing of it has ended: no point yet
    ended(store, run.id, told("zz"), run)
    found = store.points("a1", 10)
    assert [one.experiment_name for one in found] == ["test", "failed"]
    assert found[1].workload_key == UNKNOWN
    assert found[1].numbers is not None
    assert found[1].numbers.run_ids == (run.id,)
    assert [one.key for one in store.series().items] == ["a1"]


def test_a_cell_on_devices_of_two_kinds_is_a_point_of_two_series(store: SqlStore) -> None:
    _, (first, second) = scene.submitted(store, 2)
    ended(store, first.id, told("a1", "a cpu"), first)
    assert [one.numbers for one in store.points("a1", 10)] == [None]  # a run is left
    ended(store, second.id, told("a2", "another cpu"), second)
    assert sorted(one.key for one in store.series().items) == ["a1", "a2"]
    for key, run in (("a1", first), ("a2", second)):
        (one,) = store.points(key, 10)
        assert one.numbers is not None
        assert one.numbers.run_ids == (run.id,)
    (cell,) = store.cells().items
    assert cell.row is not None
    assert cell.row.run_ids == (first.id, second.id)


def test_the_newest_points_are_had_oldest_first(store: SqlStore) -> None:
    for number in range(4):
        measured(store, "a1", at=1000.0 + number, name=f"n{number}")
    assert [one.experiment_name for one in store.points("a1", 2)] == ["n2", "n3"]
    assert store.points("nothing", 2) == []


def test_what_hangs_on_a_removed_experiment_goes_with_it(store: SqlStore) -> None:
    experiment = measured(store, "a1")
    store.remove_experiment(experiment.id)
    assert store.points("a1", 10) == []
    assert store.series().items == []
    assert store.database.read(lambda connection: connection.execute(select(point)).all()) == []


def test_a_series_whose_fingerprint_cannot_be_read_is_told_and_hides_no_other(store: SqlStore) -> None:
    measured(store, "a1")
    torn = measured(store, "a2", at=1001.0)
    bad = update(result).where(result.c.workload_key == "a2").values(fingerprint="[]")
    store.database.write(lambda connection: connection.execute(bad))
    page = store.series()
    assert [one.key for one in page.items] == ["a1"]
    assert [one.experiment_id for one in page.damaged] == [torn.id]
