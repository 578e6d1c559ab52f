"""``tbd doctor`` on machines with GPUs that are not there: what it finds, and what it says to do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from orchestrator.cli.machine import gpu_checks
from tests.gpu.lab.machine import Machine, needs_compiler
from tests.integration.service_rig import ROOT, environment

pytestmark = needs_compiler


@pytest.fixture
def found_on(tmp_path, monkeypatch):
    """A function: the findings on a machine as {check: [(level, finding and advice)]}."""
    for name in ("CUDA_VISIBLE_DEVICES", "TBD_GPUS", "TBD_GPU_SHARE"):
        monkeypatch.delenv(name, raising=False)

    def look(gpus=1, changed=None, **keys):
        machine = Machine(tmp_path, gpus, **keys)
        machine.change(**(changed or {}))
        found = {}
        with machine.here():
            for one in gpu_checks.gpus():
                found.setdefault(one.check, []).append((one.level, f"{one.found}. {one.advice}"))
        return found

    return look


def test_a_machine_that_is_well_is_called_so(found_on):
    found = found_on(8)
    assert found["NVIDIA driver"] == [("ok", "580.95.05, up to CUDA 13.0. ")]
    assert [level for number in range(8) for level, _ in found[f"GPU {number}"]] == ["ok"] * 8
    assert found["GPU clocks"][0][1].startswith("up to 1980 MHz")
    assert not {"persistence mode", "ECC", "GPU memory", "MIG", "GPU counters"} & set(found)
    # Of Hopper's class, which MXNet and CNTK have no code for.
    unfit = {check for check in found if check.startswith("interpreter")}
    assert unfit == {"interpreter mxnet (CUDA)", "interpreter cntk (CUDA)", "interpreter horovod (CUDA)"}


@pytest.mark.parametrize(
    ("check", "keys", "level", "told"),
    [
        (
            "interpreter pytorch (CUDA)",
            {"driver": "470.256.02", "cuda": 11040},
            "note",
            "needs NVIDIA's driver 525 or newer",
        ),
        ("persistence mode", {"each": {"persistence": 0}}, "note", "off: GPU 0, 1. Faster starts"),
        ("ECC", {"each": {"ecc": 0}}, "note", "nvidia-smi -e 1"),
        ("GPU memory", {"changed": {"gpu__1__remapping_pending": 1}}, "note", "GPU 1. Reset it"),
        ("GPU memory", {"changed": {"gpu__1__remapping_failed": 1}}, "broken", "GPU 1. Have it replaced"),
        ("GPU memory", {"changed": {"gpu__0__uncorrected_ecc_errors": 3}}, "note", "GPU 0. Reset it"),
        ("MIG", {"gpu.0.mig": 2}, "note", "instances: GPU 0:0, 0:1"),
        ("GPUs", {"gpu.1.lost": 1}, "broken", "GPU 1: GPU is lost"),
        ("GPU counters", {"error.nvmlGpmSampleGet": 4}, "note", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("GPU counters", {"driver": "515.105.01"}, "ok", "no GPM here"),
        ("GPU clocks", {"changed": {"gpu__1__throttle_reasons": 0x40}}, "note", "held down: GPU 1"),
        ("GPUs", {"error.nvmlInitWithFlags": 9}, "ok", "none (NVML: Driver Not Loaded): runs use CPU devices"),
        ("GPUs", {"error.nvmlDeviceGetCount_v2": 999}, "broken", "the driver is there, and no GPU"),
    ],
)
def test_what_is_wrong_is_named_with_the_way_out(found_on, check, keys, level, told):
    found = found_on(2, **keys)[check]
    assert level in [one for one, _ in found], found
    assert any(told.lower() in text.lower() for _, text in found), found


def test_a_gpu_on_which_somebody_computes_is_noted_with_the_process(tmp_path):
    machine = Machine(tmp_path)
    with machine.here(), machine.somebody_computes_on(0) as pid:
        found = {one.check: one for one in gpu_checks.gpus()}
    assert (found["GPU 0"].level, f"process {pid} computes on it" in found["GPU 0"].advice) == ("note", True)


def test_the_checks_on_a_gpu_say_why_they_cannot_have_one(tmp_path):
    machine = Machine(tmp_path)
    around = environment(tmp_path, **machine.environment)
    around.pop("CUDA_VISIBLE_DEVICES", None)
    command = [sys.executable, "-m", "tests.gpu.check", "products", "--out", str(tmp_path / "out")]
    with machine.somebody_computes_on(0) as pid:
        done = subprocess.run(command, env=around, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.returncode, f"GPU 0: process {pid} computes on it" in done.stderr) == (77, True), done.stderr


def limits(**changes):
    facts = {
        "driver": None,
        "reason": "no driver",
        "devices": [],
        "withheld": {},
        "left_out": None,
        "unfit": {},
        "closed_devices": [],
        "in_container": False,
        "is_measured": False,
        "ailments": {},
        "doubts": {},
        "nvswitches": 0,
        "fabric_manager": False,
        "counter_holders": [],
        "peer_memory": False,
        "open_kernel_module": False,
        "iommu": [],
        "acs_bridges": 0,
        "profiling": None,
        "root": True,
        "shared_bytes": 2**33,
        "locked_bytes": None,
        "infiniband": True,
    }
    return {one.check: one for one in gpu_checks.findings({**facts, **changes})}


def test_the_limits_of_containers_are_noted_where_they_hurt():
    assert {one.level for one in limits().values()} == {"ok"}
    assert "--shm-size" in limits(shared_bytes=64 * 2**20)["/dev/shm"].advice
    assert "--ulimit memlock=-1" in limits(locked_bytes=8 * 2**20)["locked memory"].advice
    assert "locked memory" not in limits(locked_bytes=8 * 2**20, infiniband=False)
    assert limits(closed_devices=["/dev/nvidia0"])["GPU devices"].level == "broken"
    assert "ERR_NVGPUCTRPERM" in limits(profiling="RmProfilingAdminOnly: 1", root=False)["GPU counters"].advice


@pytest.mark.parametrize(
    ("changes", "check", "level", "told"),
    [
        ({"nvswitches": 4}, "Fabric Manager", "broken", "systemctl enable --now nvidia-fabricmanager"),
        ({"nvswitches": 4, "fabric_manager": True}, "Fabric Manager", "ok", ""),
        ({"nvswitches": 4, "in_container": True}, "Fabric Manager", "ok", ""),
        ({}, "GPUDirect RDMA", "note", "modprobe nvidia-peermem"),
        ({"acs_bridges": 2}, "ACS", "note", "switch ACS off"),
        ({"acs_bridges": None}, "ACS", "ok", ""),
        ({"iommu": ["DMA-FQ", "identity"]}, "IOMMU", "note", "iommu=pt"),
        ({"counter_holders": ["nv-hostengine"]}, "GPU counters", "note", "dcgmi profile --pause"),
        ({"compiler": None, "python_h": False}, "compile", "note", "python3-dev"),
        ({"closed_devices": ["/dev/nvidia0"], "in_container": True}, "GPU devices", "broken", "toolkit before 1.18"),
        ({"locked_bytes": 8 * 2**20}, "locked memory", "note", "LimitMEMLOCK=infinity"),
        ({"is_measured": True}, "GPUs", "ok", ""),
        ({"doubts": {"GPU-1": ["8 of 16 lanes"]}}, "GPU links", "note", "8 of 16 lanes"),
    ],
)
def test_what_keeps_nodes_from_exchanging_well_is_named(changes, check, level, told):
    found = limits(driver="580.95.05", cuda=13000, **changes)[check]
    assert (found.level, told in found.advice) == (level, True), found


def test_the_command_says_it_all(tmp_path):
    machine = Machine(tmp_path, 2, each={"persistence": 0})
    around = environment(tmp_path, **machine.environment)
    around.pop("CUDA_VISIBLE_DEVICES", None)
    command = [sys.executable, "-m", "orchestrator.cli.main", "doctor", "--json"]
    done = subprocess.run(command, env=around, capture_output=True, text=True, timeout=60)
    items = {item["check"]: item for item in json.loads(done.stdout)["items"]}
    assert items["GPU 1"]["found"].endswith(machine.uuids[1])
    assert "nvidia-smi -pm 1" in items["persistence mode"]["advice"]
