"""An experiment is removed part by part: hidden from the beginning, others served between, swept up after a crash."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, PrimaryKeyConstraint, UniqueConstraint, event, func, select

from orchestrator.db.run.runs import REMOVING
from orchestrator.db.store import SqlStore
from orchestrator.db.tables.schema import metadata
from orchestrator.db.together import removal
from orchestrator.db.together.imported import IMPORTING
from orchestrator.db.together.removal import hanging
from orchestrator.domain.runs.filters import ExperimentFilter, RunFilter
from orchestrator.domain.runs.log import Line
from orchestrator.domain.runs.run import Experiment, ExperimentState, RunState
from orchestrator.domain.words.errors import NotFound
from tests.contract import store_scenes as scene
from tests.unit import builders as make

pytest_plugins = ["tests.contract.store_servers"]

ENTRIES = 25


def stored(store: SqlStore, runs: int = 7) -> Experiment:
    """An experiment with completed runs, one of which has a long log, and a queued one."""
    new, all_runs = scene.submitted(store, runs=runs, labels={"a": "b"})
    for one in all_runs[1:]:
        attempt = scene.brought_to(store, one, RunState.COLLECTING)
        assert attempt is not None
        store.conclude(one.id, RunState.COMPLETED, at=3000.0, analysis=make.analysis())
    store.append_entries(attempt.id, "n0", [scene.entry(seq) for seq in range(1, ENTRIES + 1)])
    return new


def rows_of(store: SqlStore, experiment_id: str) -> int:
    def count(connection: Connection) -> int:
        found = 0
        for table, column, ids in hanging(experiment_id):
            query = select(func.count()).select_from(table).where(table.c[column].in_(ids))
            found += connection.execute(query).scalar_one()
        return found

    return store.database.read(count)


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "PART", 4)
    monkeypatch.setattr(removal, "RUNS", 2)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each part has removed."""
    parts: list[int] = []
    part: Callable[[Connection, str], bool] = removal.part

    def counting(connection: Connection, experiment_id: str) -> bool:
        parts.append(0)
        event.listen(connection, "after_cursor_execute", count)
        try:
            return part(connection, experiment_id)
        finally:
            event.remove(connection, "after_cursor_execute", count)

    def count(_connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        parts[-1] += cursor.rowcount if statement.startswith("DELETE") else 0

    monkeypatch.setattr(removal, "part", counting)
    return parts


@pytest.mark.usefixtures("small_parts")
def test_no_part_removes_more_than_is_allowed_and_together_they_remove_all(store: SqlStore, counted: list[int]) -> None:
    kept, gone = stored(store), stored(store)
    before = rows_of(store, kept.id)
    store.remove_experiment(gone.id)
    assert max(counted) <= removal.PART + removal.RUNS
    assert len(counted) >= ENTRIES / removal.PART
    assert (rows_of(store, gone.id), rows_of(store, kept.id)) == (0, before)
    with pytest.raises(NotFound):
        store.experiment(gone.id)


def cut_off(store: SqlStore, experiment_id: str, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """A removal that ends after some parts, as in a crash."""
    parts = iter(range(after))
    part = removal.part

    def torn(connection: Connection, experiment_id: str) -> bool:
        if next(parts, None) is None:
            raise ConnectionError
        return part(connection, experiment_id)

    with monkeypatch.context() as patch:
        patch.setattr(removal, "part", torn)
        with pytest.raises(ConnectionError):
            store.remove_experiment(experiment_id)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("after", [0, 1, 5])
@pytest.mark.after_change
def test_what_is_half_removed_is_seen_by_nobody_cannot_begin_and_is_swept_up(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    kept, gone = stored(store), stored(store)
    queued = next(one for one in store.runs_of(gone.id) if one.state is RunState.QUEUED)
    cut_off(store, gone.id, monkeypatch, after)
    assert rows_of(store, gone.id) > 0
    assert [one.id for one in store.experiments(ExperimentFilter(owner="ada")).items] == [kept.id]
    assert {one.experiment_id for one in store.runs(RunFilter(owner="ada")).items} == {kept.id}
    assert store.owner_of(gone.id) == REMOVING
    with pytest.raises(NotFound):
        store.begin_attempt(queued.id, scene.attempt_of(queued))
    assert store.add_runs(scene.runs_for(gone, 1, first=20)) == 0
    assert gone.id not in store.idle_experiments()

    assert store.sweep() == 1
    assert rows_of(store, gone.id) == 0
    assert [one.id for one in store.experiments().items] == [kept.id]
    assert store.sweep() == 0


def test_an_import_that_a_crash_cut_off_is_swept_up_and_may_come_again(store: SqlStore) -> None:
    new = replace(scene.experiment(labels={"a": "b"}), state=ExperimentState.COMPLETED, ended_at=9.0)
    (run,) = scene.runs_for(new)
    ended = replace(run, state=RunState.COMPLETED, attempts=(scene.attempt_of(run),), analysis=make.analysis())
    log = [Line(seq, "loss", json.dumps(scene.entry(seq))) for seq in range(1, 1200)]

    def torn() -> Iterator[Line]:
        yield from log[:600]
        raise ConnectionError

    with pytest.raises(ConnectionError):
        store.import_experiment(new, [ended], {(ended.attempts[0].id, "n0"): torn()})
    assert store.owner_of(new.id) == IMPORTING
    assert store.sweep() == 1
    assert rows_of(store, new.id) == 0
    assert store.experiments().items == []
    assert store.import_experiment(new, [ended], {(ended.attempts[0].id, "n0"): log})
    assert store.sweep() == 0
    assert len(store.entries(ended.attempts[0].id)) == len(log)


def test_every_foreign_key_has_an_index_so_that_a_row_that_goes_costs_no_walk() -> None:
    for table in metadata.sorted_tables:
        keys = [one for one in table.constraints if isinstance(one, PrimaryKeyConstraint | UniqueConstraint)]
        first = {index.columns[0].name for index in table.indexes} | {next(iter(one.columns)).name for one in keys}
        assert {key.parent.name for key in table.foreign_keys} <= first, table.name
