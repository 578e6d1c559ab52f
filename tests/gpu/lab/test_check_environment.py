"""How ``make gpu-check`` finds its Python, on machines that are not there; nothing is downloaded."""

import json
import os
import subprocess
import sys

import pynvml
import pytest

from tests.gpu import environment, fixtures
from tests.gpu.lab.machine import Machine, needs_compiler
from tests.trainer_process import ROOT


def check(machine, folder, *arguments, path=""):
    """Run the command on ``machine``, or where there is no driver, by a Python that has nothing but what it brings."""
    found = {"PATH": path or os.path.dirname(sys.executable), "HOME": str(folder), "PYTHONPATH": str(ROOT)}
    found.update(machine.environment if machine else {"LD_LIBRARY_PATH": str(folder)})
    command = [sys.executable, "-m", "tests.gpu.environment", "--out", str(folder / "out"), *arguments]
    return subprocess.run(command, cwd=ROOT, env=found, capture_output=True, text=True, timeout=60)


def test_without_a_driver_it_ends_with_77_and_makes_nothing(tmp_path):
    done = check(None, tmp_path)
    assert done.returncode == environment.NO_GPU == 77
    assert "there is no libnvidia-ml.so.1" in done.stderr
    assert not (tmp_path / "out").exists()


@needs_compiler
@pytest.mark.parametrize(
    ("keys", "words"),
    [({"gpus": 0}, "shows no GPU"), ({"error.nvmlInitWithFlags": 9}, "code 9 (9: the driver is not loaded)")],
)
def test_without_a_gpu_it_ends_with_77_and_makes_nothing(tmp_path, keys, words):
    machine = Machine(tmp_path)
    machine.change(**keys)
    done = check(machine, tmp_path)
    assert (done.returncode, words in done.stderr) == (77, True), done.stderr
    assert not (tmp_path / "out").exists()


@needs_compiler
def test_a_driver_too_old_for_the_pinned_build_costs_no_download_and_the_host_is_asked(tmp_path):
    """Of the host's Pythons the one at hand lacks PyTorch, and says so."""
    machine = Machine(tmp_path, driver="525.60.13")
    done = check(machine, tmp_path)
    assert done.returncode == environment.NO_PYTHON == 2
    assert "needs NVIDIA's driver 580 or newer, and this machine has 525.60.13" in done.stderr
    assert "lacks torch (ModuleNotFoundError)" in done.stderr
    assert list((tmp_path / "out").iterdir()) == []


@needs_compiler
def test_a_python_of_the_host_that_has_all_runs_the_slices(tmp_path):
    """It stands for one with PyTorch: asked what it lacks first, then for each slice in a process of its own."""
    machine = Machine(tmp_path, driver="525.60.13")
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python3"
    python.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncase "$1" in -c) echo;; *) exit 1;; esac\n')
    python.chmod(0o755)
    done = check(machine, tmp_path, "kernels", "traces", path=str(tmp_path / "bin"))
    asked = (tmp_path / "asked").read_text()
    assert "-m tests.gpu.check kernels --out" in asked
    assert "-m tests.gpu.check traces --out" in asked
    assert "--cuda" in asked
    assert done.returncode == 1
    assert f"by {python}" in done.stdout
    assert (tmp_path / "out" / fixtures.FOLDER / "table.md").exists()


@needs_compiler
def test_the_gpus_are_counted_by_the_driver_s_library_alone(tmp_path):
    machine = Machine(tmp_path, gpus=8, driver="580.95.05")
    script = "from tests.gpu import environment; print(environment.gpus())"
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        cwd=ROOT,
        env={**machine.environment, "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "(8, '580.95.05')", done.stderr


def test_the_pins_beside_pytorch_are_those_of_tbd_itself():
    assert [pin.split("==")[0] for pin in environment.pins()] == list(environment.BESIDE)


@needs_compiler
def test_a_dump_has_every_answer_or_the_driver_s_error(tmp_path):
    machine = Machine(tmp_path, gpus=2)
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.nvml_dump", str(tmp_path / "nvml.json")],
        cwd=ROOT,
        env={**os.environ, **machine.environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "nvml.json").read_text())
    assert [one["nvmlDeviceGetUUID"] for one in told["devices"]] == machine.uuids
    answers = told["devices"][0]
    assert answers["nvmlDeviceGetMemoryInfo"]["total"] > 0
    # What the laboratory's driver has no answer for.
    assert answers["nvmlDeviceGetFanSpeed"]["error"] == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
