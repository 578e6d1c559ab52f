"""The facts of device peaks: sources, plausible figures, names as the driver has them; and how they reach a job."""

import itertools

import pytest

from orchestrator.domain.asked.placement import Device, NodeShare, Placement
from orchestrator.domain.runs.stored import StoredCalibration
from orchestrator.domain.value.calibration import DeviceKey
from orchestrator.domain.value.peaks import DataSheet, data_sheet
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.reconcile.job import build_job
from tests.unit import builders as make

CATALOG = load_catalog()
SHEETS = CATALOG.data_sheets


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.names[0])
def test_a_sheet_is_plausible_and_names_its_source(sheet: DataSheet) -> None:
    assert len(sheet.source) > 20
    assert sheet.flops_per_s["fp32"] == pytest.approx(sheet.fp32_per_clock * sheet.boost_clock_hz, rel=0.01)
    assert set(sheet.flops_per_s) <= {"fp32", "tf32", "bf16", "fp16"}
    # dense: with sparsity bf16 would be four times tf32's dense figure
    if {"tf32", "bf16"} <= set(sheet.flops_per_s):
        assert sheet.flops_per_s["bf16"] == pytest.approx(2 * sheet.flops_per_s["tf32"], rel=0.03)
        assert sheet.flops_per_s["bf16"] == sheet.flops_per_s["fp16"]


def test_no_name_stands_for_two_devices() -> None:
    names = list(itertools.chain.from_iterable(sheet.names for sheet in SHEETS))
    assert len({name.casefold() for name in names}) == len(names)


@pytest.mark.parametrize("name", ["NVIDIA H200", "nvidia h200", "H200"])
def test_a_device_is_found_by_what_the_driver_calls_it(name: str) -> None:
    sheet = data_sheet(SHEETS, name)
    assert sheet is not None
    assert sheet.flops_per_s["bf16"] == 989.5e12


def test_a_longer_name_is_another_device() -> None:
    assert data_sheet(SHEETS, "NVIDIA H200 NVL") is not data_sheet(SHEETS, "NVIDIA H200")
    assert data_sheet(SHEETS, "NVIDIA H2000") is None


def one(device_id: str, name: str, cores: int, rate: float) -> StoredCalibration:
    kind = "cpu" if cores else "cuda"
    found = ("n0", device_id, kind, name, cores, "fp32", rate, (8, 8, 8), 3, 0.0, 30.0, 1, "x", {})
    return StoredCalibration(*found, "exp_1", "run_9", 77.0, True, None, "1")


def job_for(found: Device, **plan: object) -> dict[str, object]:
    placement = Placement((NodeShare("n0", (found,)),))
    run = make.run(plan=make.plan(model="resnet-50", **plan))
    key = DeviceKey("n0", found.id, found.name, len(found.cores))
    stored = {key: one(found.id, found.name, len(found.cores), 1e11)}
    (entry,) = build_job(run, make.attempt(placement=placement), CATALOG, calibrated=stored)["peaks"]
    return dict(entry)


def test_a_gpu_s_job_tells_both_peaks_in_the_plan_s_precision() -> None:
    found = job_for(Device("GPU-a", "cuda", "NVIDIA H200"), device="cuda", precision="fp32")
    assert found["data_sheet"] == {"flops_per_s": 67e12, "source": data_sheet(SHEETS, "H200").source}  # type: ignore[union-attr]
    assert found["calibrated"] == {"flops_per_s": 1e11, "run_id": "run_9", "at": 77.0}
    bf16 = job_for(Device("GPU-a", "cuda", "NVIDIA H200"), device="cuda", precision="amp-bf16")
    assert bf16["arithmetic"] == "bf16"
    assert bf16["data_sheet"]["flops_per_s"] == 989.5e12  # type: ignore[index]


def test_a_cpu_device_s_job_has_a_calibrated_peak_only() -> None:
    found = job_for(Device("cpu:0-1", "cpu", "a cpu", (0, 1)))
    assert found["data_sheet"] is None
    assert found["calibrated"]["flops_per_s"] == 1e11  # type: ignore[index]
