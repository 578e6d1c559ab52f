"""The contract of the store: runs that ended elsewhere, stored whole and once. On SQLite and on PostgreSQL."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.db.together import imported
from orchestrator.domain.runs.filters import CellFilter, ExperimentFilter, RunFilter
from orchestrator.domain.runs.log import Line
from orchestrator.domain.runs.run import ExperimentState, RunState
from orchestrator.domain.words.errors import StoreUnavailable
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]


def lines_of(log: Iterable[dict[str, Any]]) -> list[Line]:
    return [Line(one["seq"], one["kind"], json.dumps(one)) for one in log]


def test_parts_of_an_imported_log_are_bounded_in_entries_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imported, "PART", 3)
    monkeypatch.setattr(imported, "PART_BYTES", 100)
    logs = {
        ("att_1", "n0"): [Line(seq, "output", "x" * 10) for seq in range(1, 5)],
        ("att_1", "n1"): [Line(seq, "output", "x" * 60) for seq in range(1, 4)],
    }
    parts = [[(node, seq) for _, node, seq, _, _ in part] for part in imported.parts(logs)]
    assert parts == [[("n0", 1), ("n0", 2), ("n0", 3)], [("n0", 4), ("n1", 1), ("n1", 2)], [("n1", 3)]]


def test_an_imported_run_is_stored_whole_and_once(store: SqlStore) -> None:
    experiment = replace(scene.experiment(labels={"from": "elsewhere"}), state=ExperimentState.FAILED, ended_at=2000.0)
    (run,) = scene.runs_for(experiment)
    attempt = scene.attempt_of(run, token="", started_at=1000.0, ended_at=2000.0, failure=scene.CRASH)
    ended = replace(
        run,
        state=RunState.FAILED,
        attempts=(attempt,),
        started_at=1000.0,
        ended_at=2000.0,
        failure=scene.CRASH,
        analysis=scene.analysis(),
        fingerprint={"workload_key": "w"},
    )
    log = [scene.entry(1, "log_opened"), scene.entry(2, "log_closed")]

    assert store.import_experiment(experiment, [ended], {(ended.attempts[0].id, "n0"): lines_of(log)})
    assert not store.import_experiment(experiment, [ended], {(ended.attempts[0].id, "n0"): lines_of(log)})

    assert store.run(run.id) == ended
    assert store.entries(attempt.id) == [entry | {"node": "n0"} for entry in log]
    assert store.experiments(ExperimentFilter(label=("from", "elsewhere"))).items[0].run_counts == {RunState.FAILED: 1}
    assert [one.state for one in store.changes(experiment.id)] == ["failed", "failed"]


@pytest.mark.parametrize("swept_before", [5, 8])
def test_an_import_that_a_new_leader_sweeps_up_is_refused_and_may_come_again(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, swept_before: int
) -> None:
    """In its middle, or behind its last part."""
    experiment = replace(scene.experiment(), state=ExperimentState.COMPLETED, ended_at=9.0)
    (run,) = scene.runs_for(experiment)
    ended = replace(run, state=RunState.COMPLETED, attempts=(scene.attempt_of(run),), analysis=scene.analysis())
    log = [scene.entry(1, "log_opened"), *(scene.entry(seq) for seq in range(2, 8)), scene.entry(8, "log_closed")]
    attempt = (ended.attempts[0].id, "n0")

    def swept() -> Iterator[Line]:
        yield from lines_of(log[:swept_before])
        assert store.sweep() == 1
        yield from lines_of(log)[swept_before:]

    monkeypatch.setattr(imported, "PART", 2)
    with pytest.raises(StoreUnavailable, match="send it again"):
        store.import_experiment(experiment, [ended], {attempt: swept()})
    assert store.import_experiment(experiment, [ended], {attempt: lines_of(log)})
    assert len(store.entries(attempt[0])) == 8


def test_an_import_that_was_cut_off_is_seen_by_nobody_and_taken_up_by_the_next(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = replace(scene.experiment(labels={"from": "elsewhere"}), state=ExperimentState.COMPLETED, ended_at=9.0)
    (run,) = scene.runs_for(experiment)
    ended = replace(run, state=RunState.COMPLETED, attempts=(scene.attempt_of(run),), analysis=scene.analysis())
    log = [scene.entry(1, "log_opened"), *(scene.entry(seq) for seq in range(2, 8)), scene.entry(8, "log_closed")]

    def torn() -> Iterator[Line]:
        yield from lines_of(log[:5])
        raise ConnectionError

    monkeypatch.setattr(imported, "PART", 3)
    with pytest.raises(ConnectionError):
        store.import_experiment(experiment, [ended], {(ended.attempts[0].id, "n0"): torn()})
    assert store.experiments(ExperimentFilter(owner="ada")).items == []
    assert store.runs(RunFilter(owner="ada")).items == []
    assert store.cells(CellFilter(owner="ada")).items == []
    assert store.experiment(experiment.id).owner == imported.IMPORTING
    assert store.last_seqs(ended.attempts[0].id) == {"n0": 3}

    assert store.import_experiment(experiment, [ended], {(ended.attempts[0].id, "n0"): lines_of(log)})
    assert not store.import_experiment(experiment, [ended], {(ended.attempts[0].id, "n0"): lines_of(log)})
    assert [one.id for one in store.runs(RunFilter(owner="ada")).items] == [run.id]
    assert len(store.entries(ended.attempts[0].id)) == 8
    assert [cell.runs[0].id for cell in store.cells(CellFilter(owner="ada")).items] == [run.id]
