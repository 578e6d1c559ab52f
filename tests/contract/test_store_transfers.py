"""The contract of the store: what netbenches found. On SQLite and on PostgreSQL."""

from dataclasses import replace

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.domain.runs.filters import TransferFilter
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import Analysis, Reason, Transfer, Validity
from orchestrator.domain.words.errors import InvalidRequest
from tests.contract import store_scenes as scene
from tests.unit import builders as make

pytest_plugins = ["tests.contract.store_servers"]

ONE = Transfer("point_to_point", "gloo", 4, 2, (0, 1), False, 9, 1e-4, 2e-4, 2.5e-4, 4e-4, 5e-4, 2e4, 2e4)
LOST = Failure(FailureKind.NODE_LOST, "n0 fell silent")
SLOW = Reason("foreign_load", "others computed", replaceable=True)


def rows(count: int, **changes: object) -> tuple[Transfer, ...]:
    return tuple(replace(ONE, **({"bytes": 4 << k} | changes)) for k in range(count))  # type: ignore[arg-type]


def measured(
    store: SqlStore,
    found: tuple[Transfer, ...],
    *reasons: Reason,
    at: float = 1000.0,
    owner: str = "ada",
    nodes: tuple[str, ...] = ("n1", "n0"),
    **plan: object,
) -> Run:
    """A run that has ended with these rows."""
    new = scene.experiment(at=at, owner=owner)
    (run,) = scene.runs_for(new, model="netbench", **{"topology": "2x1", "fabric": "ethernet", **plan})
    store.add_experiment(new, [run])
    attempt = scene.attempt_of(run, placement=make.placement(*nodes), created_at=at)
    assert store.begin_attempt(run.id, attempt)
    for here, there in ((RunState.PLACING, RunState.RUNNING), (RunState.RUNNING, RunState.COLLECTING)):
        assert store.move_run(run.id, here, there, at=at + 1)
    analysis = Analysis(Validity(reasons), transfers=found, code_version="1")
    assert store.conclude(run.id, RunState.COMPLETED, at=at + 2, analysis=analysis)
    return run


def test_rows_come_back_as_they_were_measured_and_in_that_order(store: SqlStore) -> None:
    run = measured(store, rows(3))
    found = store.transfers().items
    assert [Transfer.from_json(vars(item)) for item in found] == list(rows(3))
    first = found[0]
    assert (first.run_id, first.experiment_id, first.created_at) == (run.id, run.experiment_id, run.created_at)
    assert (first.topology, first.fabric, first.device) == ("2x1", "ethernet", "cpu")
    assert (first.nodes, first.valid, first.code_version) == (("n0", "n1"), True, "1")
    analysis = store.run(run.id).analysis
    assert analysis is not None
    assert analysis.transfers == rows(3)


def test_pages_follow_each_other_from_the_newest_run_on(store: SqlStore) -> None:
    for at in (1000.0, 2000.0):
        measured(store, rows(5), at=at)
    whole = store.transfers().items
    found, cursor = [], None
    while True:
        page = store.transfers(limit=3, cursor=cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == list(whole)
    assert [item.bytes for item in found] == [4, 8, 16, 32, 64] * 2
    assert found[0].created_at > found[-1].created_at


def test_rows_are_found_by_all_that_says_where_they_were_measured(store: SqlStore) -> None:
    run = measured(store, (*rows(2), *rows(1, operation="all_reduce", busy_cores=True)))
    measured(store, rows(4, library="mpi"), SLOW, owner="bob", nodes=("n0", "n2"), topology="1x2", fabric=None)

    def count(**wanted: object) -> int:
        return len(store.transfers(TransferFilter(**wanted)).items)  # type: ignore[arg-type]

    assert count() == 7
    assert count(run_id=run.id) == count(experiment_id=run.experiment_id) == count(topology="2x1") == 3
    assert count(fabric="ethernet") == count(library="gloo") == count(nodes=("n0", "n1")) == count(valid=True) == 3
    assert count(nodes=("n1", "n0")) == 3
    assert count(nodes=("n0",)) == count(topology="3x1") == count(device="cuda") == 0
    assert count(operation="all_reduce") == count(busy_cores=True) == 1
    assert count(valid=False) == len(store.transfers(TransferFilter(owner="bob")).items) == 4


def test_a_cursor_that_is_not_ours_is_refused(store: SqlStore) -> None:
    with pytest.raises(InvalidRequest):
        store.transfers(cursor="nonsense")


def test_another_attempt_replaces_what_an_earlier_one_found(store: SqlStore) -> None:
    _, (run,) = scene.submitted(store)
    scene.brought_to(store, run, RunState.COLLECTING)
    first = Analysis(Validity((SLOW,)), transfers=rows(3), code_version="1")
    assert store.conclude(run.id, RunState.QUEUED, at=1.0, failure=LOST, analysis=first)
    assert store.begin_attempt(run.id, scene.attempt_of(run, 2))
    for here, there in ((RunState.PLACING, RunState.RUNNING), (RunState.RUNNING, RunState.COLLECTING)):
        assert store.move_run(run.id, here, there, at=2.0)
    assert store.conclude(run.id, RunState.COMPLETED, at=3.0, analysis=replace(first, transfers=rows(1)))
    assert len(store.transfers().items) == 1
