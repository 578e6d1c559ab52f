"""The contract of the store: what calibrations found. On SQLite and on PostgreSQL."""

from dataclasses import replace

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.domain.runs.filters import CalibrationFilter
from orchestrator.domain.runs.run import Run, RunState
from orchestrator.domain.value.calibration import Calibration, DeviceKey
from orchestrator.domain.value.measurement import Analysis, Reason, Validity
from orchestrator.domain.words.errors import InvalidRequest
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]

ONE = Calibration(
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
SLOW = Reason("foreign_load", "others computed", replaceable=True)


def calibrated(
    store: SqlStore, *found: Calibration, at: float, reasons: tuple[Reason, ...] = (), owner: str = "ada"
) -> Run:
    new = scene.experiment(at=at, owner=owner)
    (run,) = scene.runs_for(new, model="calibration")
    store.add_experiment(new, [run])
    assert store.begin_attempt(run.id, scene.attempt_of(run, created_at=at))
    for here, there in ((RunState.PLACING, RunState.RUNNING), (RunState.RUNNING, RunState.COLLECTING)):
        assert store.move_run(run.id, here, there, at=at + 1)
    analysis = Analysis(Validity(reasons), calibrations=found, code_version="1")
    assert store.conclude(run.id, RunState.COMPLETED, at=at + 2, analysis=analysis)
    return run


def test_rows_come_back_as_they_were_measured_and_in_that_order(store: SqlStore) -> None:
    rows = (ONE, replace(ONE, device_id="cpu:2-3"))
    run = calibrated(store, *rows, at=1000.0)
    found = store.calibrations().items
    assert [Calibration.from_json(vars(item)) for item in found] == list(rows)
    first = found[0]
    assert (first.run_id, first.experiment_id, first.created_at) == (run.id, run.experiment_id, run.created_at)
    assert (first.valid, first.code_version, first.previous_flops_per_s) == (True, "1", None)
    analysis = store.run(run.id).analysis
    assert analysis is not None
    assert analysis.calibrations == rows


def test_a_device_is_followed_over_time(store: SqlStore) -> None:
    for k in range(3):
        calibrated(store, replace(ONE, flops_per_s=(k + 1) * 1e11), at=1000.0 + k)
    found = store.calibrations(CalibrationFilter(device_id="cpu:0-1")).items
    assert [(item.flops_per_s, item.previous_flops_per_s) for item in found] == [
        (3e11, 2e11),
        (2e11, 1e11),
        (1e11, None),
    ]


def test_the_latest_valid_calibration_of_each_device_counts(store: SqlStore) -> None:
    calibrated(store, ONE, at=1000.0, owner="bob")
    calibrated(store, replace(ONE, flops_per_s=2e11), at=2000.0)
    calibrated(store, replace(ONE, flops_per_s=9e11), at=3000.0, reasons=(SLOW,))
    other = replace(KEY, device_id="cpu:2-3")
    found = store.calibrated([KEY, other], "fp32")
    assert {key: stored.flops_per_s for key, stored in found.items()} == {KEY: 2e11}
    assert store.calibrated([KEY], "bf16") == {}


@pytest.mark.parametrize("change", [{"cores": 1}, {"device_name": "another cpu"}, {"node": "n1"}])
def test_another_device_under_the_same_id_has_no_calibration(store: SqlStore, change: dict[str, object]) -> None:
    calibrated(store, ONE, at=1000.0)
    assert store.calibrated([replace(KEY, **change)], "fp32") == {}  # type: ignore[arg-type]


def test_another_owner_s_are_not_listed_and_filters_narrow(store: SqlStore) -> None:
    run = calibrated(store, ONE, replace(ONE, arithmetic="bf16"), at=1000.0)
    calibrated(store, ONE, at=2000.0, owner="bob")
    assert len(store.calibrations(CalibrationFilter(owner="ada")).items) == 2
    only = CalibrationFilter(run_id=run.id, arithmetic="bf16", node="n0", device_name="a cpu", valid=True)
    (found,) = store.calibrations(only).items
    assert found.arithmetic == "bf16"
    assert store.calibrations(CalibrationFilter(experiment_id="none")).items == []


def test_pages_follow_each_other(store: SqlStore) -> None:
    for at in (1000.0, 2000.0):
        calibrated(store, ONE, replace(ONE, device_id="cpu:2"), replace(ONE, device_id="cpu:3"), at=at)
    whole = store.calibrations().items
    first = store.calibrations(limit=4)
    assert [*first.items, *store.calibrations(limit=4, cursor=first.next_cursor).items] == list(whole)
    with pytest.raises(InvalidRequest):
        store.calibrations(cursor="nonsense")
