"""The contract of the store: the row of a cell is stored when its last run ends, and stays while that is all of its
runs. On SQLite and on PostgreSQL."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update

from orchestrator.analysis.cell.row import row_of
from orchestrator.db.store import SqlStore
from orchestrator.db.tables.history import point
from orchestrator.domain.ports import Store
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.domain.runs.row import Row
from orchestrator.domain.runs.run import Experiment, Run, RunState
from tests.contract import store_scenes as scene
from tests.unit import builders as make
from tests.unit.api.api_rig import fingerprint_of

pytest_plugins = ["tests.contract.store_servers"]


def end(store: Store, run: Run, value: float = 12.5, **more: Any) -> None:
    scene.brought_to(store, run, RunState.COLLECTING)
    told = {"analysis": scene.analysis(value), "fingerprint": fingerprint_of()} | more
    assert store.conclude(run.id, RunState.COMPLETED, at=3000.0, **told)


def ended(store: Store, runs: int = 3, **fields: Any) -> tuple[Experiment, list[Run]]:
    """An experiment of one cell whose runs are over."""
    experiment, queued = scene.submitted(store, runs, **fields)
    for number, run in enumerate(queued):
        end(store, run, 10.0 + number)
    return experiment, queued


def row(store: Store, experiment: Experiment) -> Row | None:
    """The row of its first cell as it is stored."""
    (cell, *_) = [one for one in store.cells().items if one.experiment.id == experiment.id]
    return cell.row


def extended(store: Store, experiment: Experiment, runs: list[Run], **fields: Any) -> None:
    old = store.experiment(experiment.id)
    spec = make.spec(**old.spec.to_json() | {"max_repeats": 20} | fields)
    store.extend_experiment(old, replace(old, spec=spec), runs, 5000.0)


def write(store: SqlStore, **values: Any) -> None:
    store.database.write(lambda connection: connection.execute(update(point).values(**values)))


def test_a_row_is_stored_when_the_last_run_ends_and_says_what_is_made_anew(store: SqlStore) -> None:
    experiment, (first, second) = scene.submitted(store, 2)
    end(store, first)
    assert row(store, experiment) is None
    end(store, second, float("inf"))
    (cell,) = store.cells().items
    assert repr(cell.row) == repr(row_of(experiment.spec, cell.runs))  # an end of its interval is no number
    (kept,) = store.points("w", 10)
    assert kept.numbers is not None
    assert repr(kept.numbers.to_json()) == repr(cell.row.to_json())


@pytest.mark.parametrize("devices", [None, "told"])
def test_a_cell_whose_last_run_never_began_has_a_row_too(store: SqlStore, devices: str | None) -> None:
    experiment, (first, second) = scene.submitted(store, 2)
    end(store, first, fingerprint=fingerprint_of() if devices else None)
    assert store.move_run(second.id, RunState.QUEUED, RunState.CANCELLED, at=4000.0)
    found = row(store, experiment)
    assert found is not None
    assert (found.used_ids, found.n_ended) == ((first.id,), 2)


def test_an_attempt_that_goes_back_to_the_queue_makes_no_row(store: SqlStore) -> None:
    experiment, (run,) = scene.submitted(store)
    scene.brought_to(store, run, RunState.COLLECTING)
    store.conclude(run.id, RunState.QUEUED, at=3000.0, failure=scene.LOST)
    assert row(store, experiment) is None
    assert store.database.read(lambda connection: connection.execute(select(point)).all()) == []


def test_a_run_that_is_added_makes_the_row_anew_when_it_ends(store: SqlStore) -> None:
    experiment, _ = ended(store)
    before = row(store, experiment)
    (another,) = scene.runs_for(experiment, first=4)
    assert store.add_runs([another]) == 1
    assert row(store, experiment) is None
    assert [one.numbers for one in store.points("w", 10)] == [None]
    end(store, another)
    after = row(store, experiment)
    assert before is not None
    assert after is not None
    assert (len(before.run_ids), len(after.run_ids)) == (3, 4)


@pytest.mark.parametrize(
    ("fields", "stays"),
    [
        ({"repeats": 4}, False),
        ({"precision_target": 0.1}, False),
        ({"device_time_budget_s": 1e6}, False),
        ({"per_device_batch_size": [4, 8]}, True),
        ({"labels": {"team": "vision"}}, True),
    ],
)
@pytest.mark.after_change
def test_an_extension_that_changes_what_was_planned_makes_rows_anew(
    store: SqlStore, fields: dict[str, Any], stays: bool
) -> None:
    experiment, _ = ended(store)
    extended(store, experiment, [], **fields)
    assert (row(store, experiment) is not None) is stays
    (cell,) = store.cells().items
    made = row_of(cell.experiment.spec, cell.runs)
    assert cell.row in (None, made)


def test_runs_of_another_cell_leave_a_row_as_it_is(store: SqlStore) -> None:
    experiment, _ = ended(store)
    before = row(store, experiment)
    store.add_runs(scene.runs_for(experiment, per_device_batch_size=8))
    assert row(store, experiment) == before is not None


def test_later_experiments_leave_a_row_as_it_is(store: SqlStore) -> None:
    experiment, _ = ended(store)
    before = row(store, experiment)
    removed, _ = ended(store, name="later")
    ended(store, name="later-still")
    store.remove_experiment(removed.id)
    assert row(store, experiment) == before is not None


@pytest.mark.parametrize(
    "values", [{"version": "another"}, *({"found": text} for text in ("[1]", "{}", "nonsense", '{"rates": 3}'))]
)
@pytest.mark.after_change
def test_what_another_version_made_or_nobody_can_read_is_made_anew_and_looking_stores_nothing(
    store: SqlStore, values: dict[str, str]
) -> None:
    experiment, _ = ended(store)
    write(store, **values)
    for _ in range(2):
        assert row(store, experiment) is None
        assert [one.numbers for one in store.points("w", 10)] == [None]


def test_of_runs_that_make_no_row_none_is_stored_and_they_end_all_the_same(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise ValueError("no such metric")

    monkeypatch.setattr("orchestrator.analysis.cell.row.row_of", fails)
    experiment, (run, *_) = ended(store)
    assert row(store, experiment) is None
    assert store.run(run.id).state is RunState.COMPLETED


def test_who_wants_rows_alone_gets_cells_that_have_ended_and_reads_no_analysis_of_a_stored_one(store: SqlStore) -> None:
    ended(store, 2)
    going_on, queued = scene.submitted(store, 2, at=2000.0)
    end(store, queued[0])
    (cell,) = store.cells(CellFilter(ended=True)).items
    assert [run.analysis for run in cell.runs] == [None, None]
    (whole,) = [one for one in store.cells().items if one.experiment.id != going_on.id]
    assert repr(cell.row.to_json() if cell.row else None) == repr(whole.row.to_json() if whole.row else None)
    write(store, version="of another one")
    (cell,) = store.cells(CellFilter(ended=True)).items
    assert cell.row is None
    assert cell.runs == whole.runs
