"""The contract of the store: event logs. On SQLite and on PostgreSQL."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.db.store import SqlStore
from orchestrator.db.together.removal import PART
from orchestrator.domain.runs.filters import RunFilter
from orchestrator.domain.runs.run import PINNED, ExperimentState, RunState
from orchestrator.services.clock import new_id
from orchestrator.services.schedule import thinning
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]


def begun(store: SqlStore) -> str:
    """The id of a new attempt."""
    _, (run,) = scene.submitted(store)
    attempt = scene.brought_to(store, run, RunState.PLACING)
    assert attempt is not None
    return attempt.id


def test_entries_come_back_in_the_order_of_node_and_seq(store: SqlStore) -> None:
    attempt = begun(store)
    nodes = ("n10", "n2", "N1", "n-1")
    for node in nodes:
        store.append_entries(attempt, node, [scene.entry(2), scene.entry(1), scene.entry(10)])

    found = store.entries(attempt)

    assert [(entry["node"], entry["seq"]) for entry in found] == [
        (node, seq) for node in sorted(nodes) for seq in (1, 2, 10)
    ]


def test_an_entry_comes_back_with_all_it_had(store: SqlStore) -> None:
    attempt = begun(store)
    odd = scene.entry(
        1, "garbage", t="NaN", rank=None, data={"text": "\x00 \ud800 é", "n": 2**80, "f": 0.1}, later_addition=[1, None]
    )

    store.append_entries(attempt, "n0", [odd])

    assert store.entries(attempt) == [odd | {"node": "n0"}]


def test_entries_are_chosen_by_node_kind_position_and_count(store: SqlStore) -> None:
    attempt = begun(store)
    for node in ("a", "b"):
        log = [scene.entry(seq, "interval" if seq % 2 else "reading") for seq in range(1, 7)]
        assert store.append_entries(attempt, node, log) == 6

    def found(**filters: Any) -> list[tuple[str, int]]:
        return [(entry["node"], entry["seq"]) for entry in store.entries(attempt, **filters)]

    assert found(node="b", after=4) == [("b", 5), ("b", 6)]
    assert found(kinds=["interval"], after=3) == [("a", 5), ("b", 5)]
    assert found(kinds=["interval", "reading"], limit=7) == [("a", seq) for seq in range(1, 7)] + [("b", 1)]
    assert found(kinds=[]) == found(node="c") == found(limit=0) == found(after=2**70) == []
    assert store.last_seqs(attempt) == {"a": 6, "b": 6}


def test_the_last_seq_is_that_of_the_store_not_of_the_call(store: SqlStore) -> None:
    attempt = begun(store)
    assert store.last_seqs(attempt) == {}
    assert store.append_entries(attempt, "n0", []) == 0
    store.append_entries(attempt, "n0", [scene.entry(seq) for seq in range(1, 6)])

    assert store.append_entries(attempt, "n0", [scene.entry(2)]) == 5
    assert store.append_entries(attempt, "n0", []) == 5


def test_an_entry_that_is_there_is_not_replaced(store: SqlStore) -> None:
    attempt = begun(store)
    store.append_entries(attempt, "n0", [scene.entry(1, data={"first": True})])
    store.append_entries(attempt, "n0", [scene.entry(1, data={"first": False}), scene.entry(2)])

    assert [entry["data"] for entry in store.entries(attempt)] == [{"first": True}, {"step": 2}]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(
        st.tuples(st.sampled_from(["n0", "n1"]), st.lists(st.integers(1, 12), max_size=8)), min_size=1, max_size=8
    )
)
@pytest.mark.after_change
def test_appending_in_any_pieces_and_repetitions_stores_each_entry_once(
    store: SqlStore, batches: list[tuple[str, list[int]]]
) -> None:
    attempt = begun(store)
    expected: set[tuple[str, int]] = set()
    for node, seqs in batches:
        last = store.append_entries(attempt, node, [scene.entry(seq) for seq in seqs])
        expected |= {(node, seq) for seq in seqs}
        assert last == max((seq for of, seq in expected if of == node), default=0)

    assert [(entry["node"], entry["seq"]) for entry in store.entries(attempt)] == sorted(expected)
    nodes = {node for node, _ in expected}
    assert store.last_seqs(attempt) == {node: max(seq for of, seq in expected if of == node) for node in nodes}


def test_a_text_that_a_database_cannot_hold_is_refused_not_a_crash(store: SqlStore) -> None:
    from orchestrator.domain.words.errors import InvalidRequest, NotFound

    for odd in ("\ud800", new_id("run") + "\x00"):
        with pytest.raises((InvalidRequest, NotFound)):
            store.run(odd)
    assert store.runs(RunFilter(model="net")).items == []


def test_of_old_logs_the_readings_are_removed_but_for_those_that_are_pinned_or_go_on(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thinning, "PART_S", 0.0)
    log = [scene.entry(seq, ("interval", "reading")[seq % 2]) for seq in range(1, 4 * PART + 3)]
    runs = []
    for ended_at, is_over, labels in (
        (1000.0, True, {}),
        (1000.0, True, {PINNED: "yes"}),
        (1000.0, False, {}),
        (9000.0, True, {}),
    ):
        new, (run,) = scene.submitted(store, labels=labels)
        attempt = scene.brought_to(store, run, RunState.COMPLETED, at=ended_at - 4)
        assert attempt is not None
        store.append_entries(attempt.id, "n0", log)
        if is_over:
            store.end_experiment(new.id, ExperimentState.COMPLETED, ended_at)
        runs.append(run.id)
    clock = SimpleNamespace(now=lambda: 5000.0)
    context: Any = SimpleNamespace(store=store, clock=clock)
    for _ in range(2):
        assert thinning.Thinning(context, keep_s=3000.0).look() == thinning.LOOK_S
        clock.now = lambda: 6000.0
    thinned = {}
    for one in store.runs_named(runs):
        assert one.attempt is not None
        left = [entry["kind"] for entry in store.entries(one.attempt.id)]
        assert left.count("interval") == 2 * PART + 1
        thinned[one.id] = (one.attempt.thinned_at, left.count("reading"))
    assert thinned == dict.fromkeys(runs, (None, 2 * PART + 1)) | {runs[0]: (5000.0, 0)}
