"""The contract of the store: what netbenches and calibrations found. On SQLite and on PostgreSQL."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.domain.runs.filters import CalibrationFilter, TransferFilter
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.calibration import Calibration, DeviceKey
from orchestrator.domain.value.failure import Failure, FailureKind
from orchestrator.domain.value.measurement import Analysis, Reason, Transfer, Validity
from orchestrator.domain.words.errors import InvalidRequest
from tests.contract import store_scenes as scene
from tests.unit import builders as make

pytest_plugins = ["tests.contract.store_servers"]

SENT = Transfer("point_to_point", "gloo", 4, 2, (0, 1), False, 9, 1e-4, 2e-4, 2.5e-4, 4e-4, 5e-4, 2e4, 2e4)
PEAK = Calibration(
    node="n0",
    device_id="cpu:0-1",
    device_kind="cpu",
    device_name="a cpu",
    cores=2,
    arithmetic="fp32",
    flops_per_s=1e11,
    shape=(2048, 2048, 2048),
    repetitions=9,
    spread_ratio=0.02,
    loaded_s=30.5,
    devices=1,
    library="torch 2.13",
    rates={"1024x1024x1024": 9e10, "2048x2048x2048": 1e11},
)
KEY = DeviceKey("n0", "cpu:0-1", "a cpu", 2)
LOST = Failure(FailureKind.NODE_LOST, "n0 fell silent")
SLOW = Reason("foreign_load", "others computed", replaceable=True)


def rows(count: int, **changes: object) -> tuple[Transfer, ...]:
    return tuple(replace(SENT, **({"bytes": 4 << k} | changes)) for k in range(count))  # type: ignore[arg-type]


def peaks(*names: str) -> tuple[Calibration, ...]:
    return tuple(replace(PEAK, device_id=name) for name in names)


def measured(
    store: SqlStore,
    found: tuple[Transfer, ...],
    *reasons: Reason,
    at: float = 1000.0,
    owner: str = "ada",
    nodes: tuple[str, ...] = ("n1", "n0"),
    **plan: object,
) -> Run:
    """A netbench that has ended with these rows."""
    asked = {"model": "netbench", "topology": "2x1", "fabric": "ethernet", **plan}
    return _ended(store, Analysis(Validity(reasons), transfers=found, code_version="1"), at, owner, nodes, asked)


def calibrated(
    store: SqlStore, *found: Calibration, at: float, reasons: tuple[Reason, ...] = (), owner: str = "ada"
) -> Run:
    analysis = Analysis(Validity(reasons), calibrations=found, code_version="1")
    return _ended(store, analysis, at, owner, ("n0",), {"model": "calibration"})


def _ended(
    store: SqlStore, analysis: Analysis, at: float, owner: str, nodes: tuple[str, ...], plan: dict[str, Any]
) -> Run:
    new = scene.experiment(at=at, owner=owner)
    (run,) = scene.runs_for(new, **plan)
    store.add_experiment(new, [run])
    assert store.begin_attempt(run.id, scene.attempt_of(run, placement=make.placement(*nodes), created_at=at))
    for here, there in ((RunState.PLACING, RunState.RUNNING), (RunState.RUNNING, RunState.COLLECTING)):
        assert store.move_run(run.id, here, there, at=at + 1)
    assert store.conclude(run.id, RunState.COMPLETED, at=at + 2, analysis=analysis)
    return run


def listed(store: SqlStore, kind: str, **asked: Any) -> Any:
    return store.transfers(**asked) if kind == "netbench" else store.calibrations(**asked)


def test_transfers_come_back_as_they_were_measured_and_in_that_order(store: SqlStore) -> None:
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


def test_calibrations_come_back_as_they_were_measured_and_in_that_order(store: SqlStore) -> None:
    made = peaks("cpu:0-1", "cpu:2-3")
    run = calibrated(store, *made, at=1000.0)
    found = store.calibrations().items
    assert [Calibration.from_json(vars(item)) for item in found] == list(made)
    first = found[0]
    assert (first.run_id, first.experiment_id, first.created_at) == (run.id, run.experiment_id, run.created_at)
    assert (first.valid, first.code_version, first.previous_flops_per_s) == (True, "1", None)
    analysis = store.run(run.id).analysis
    assert analysis is not None
    assert analysis.calibrations == made


@pytest.mark.parametrize("kind", ["netbench", "calibration"])
def test_pages_follow_each_other_from_the_newest_run_on(store: SqlStore, kind: str) -> None:
    for at in (1000.0, 2000.0):
        if kind == "netbench":
            measured(store, rows(5), at=at)
        else:
            calibrated(store, *peaks("cpu:0", "cpu:1", "cpu:2", "cpu:3", "cpu:4"), at=at)
    whole = listed(store, kind).items
    found, cursor = [], None
    while True:
        page = listed(store, kind, limit=3, cursor=cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == list(whole)
    order = [item.bytes if kind == "netbench" else item.device_id for item in found]
    assert order == ([4, 8, 16, 32, 64] if kind == "netbench" else [f"cpu:{k}" for k in range(5)]) * 2
    assert found[0].created_at > found[-1].created_at


@pytest.mark.parametrize("kind", ["netbench", "calibration"])
def test_a_cursor_that_is_not_ours_is_refused(store: SqlStore, kind: str) -> None:
    with pytest.raises(InvalidRequest):
        listed(store, kind, cursor="nonsense")


def test_transfers_are_found_by_all_that_says_where_they_were_measured(store: SqlStore) -> None:
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


def test_a_device_is_followed_over_time(store: SqlStore) -> None:
    for k in range(3):
        calibrated(store, replace(PEAK, flops_per_s=(k + 1) * 1e11), at=1000.0 + k)
    found = store.calibrations(CalibrationFilter(device_id="cpu:0-1")).items
    assert [(item.flops_per_s, item.previous_flops_per_s) for item in found] == [
        (3e11, 2e11),
        (2e11, 1e11),
        (1e11, None),
    ]


def test_the_latest_valid_calibration_of_each_device_counts(store: SqlStore) -> None:
    calibrated(store, PEAK, at=1000.0, owner="bob")
    calibrated(store, replace(PEAK, flops_per_s=2e11), at=2000.0)
    calibrated(store, replace(PEAK, flops_per_s=9e11), at=3000.0, reasons=(SLOW,))
    other = replace(KEY, device_id="cpu:2-3")
    found = store.calibrated([KEY, other], "fp32")
    assert {key: stored.flops_per_s for key, stored in found.items()} == {KEY: 2e11}
    assert store.calibrated([KEY], "bf16") == {}


@pytest.mark.parametrize("change", [{"cores": 1}, {"device_name": "another cpu"}, {"node": "n1"}])
def test_another_device_under_the_same_id_has_no_calibration(store: SqlStore, change: dict[str, object]) -> None:
    calibrated(store, PEAK, at=1000.0)
    assert store.calibrated([replace(KEY, **change)], "fp32") == {}  # type: ignore[arg-type]


def test_another_owner_s_are_not_listed_and_filters_narrow(store: SqlStore) -> None:
    run = calibrated(store, PEAK, replace(PEAK, arithmetic="bf16"), at=1000.0)
    calibrated(store, PEAK, at=2000.0, owner="bob")
    assert len(store.calibrations(CalibrationFilter(owner="ada")).items) == 2
    only = CalibrationFilter(run_id=run.id, arithmetic="bf16", node="n0", device_name="a cpu", valid=True)
    (found,) = store.calibrations(only).items
    assert found.arithmetic == "bf16"
    assert store.calibrations(CalibrationFilter(experiment_id="none")).items == []
