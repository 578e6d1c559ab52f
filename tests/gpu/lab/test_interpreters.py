"""CUDA variants of environments: refused before a download where the driver or the GPUs cannot carry them, and proved
on a GPU or not at all. The environments that are proved here are the CPU builds, which is what "driver present, CUDA
absent" is to a framework."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from tests.gpu.lab.machine import Machine, needs_compiler
from workers.node import interpreters, pythons
from workers.node.interpreters import InterpreterError, build, cuda_needs, definition

pytestmark = needs_compiler


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function: be on a machine that has a driver, and nowhere to build."""
    monkeypatch.setattr(definition, "has_nvidia_driver", lambda: True)
    monkeypatch.setenv("TBD_INTERPRETERS_DIR", str(tmp_path / "built"))
    monkeypatch.delenv(cuda_needs.VARIANT_SETTING, raising=False)
    monkeypatch.setattr(pythons, "find", lambda version: "/usr/bin/false")  # whatever comes after the check fails
    entered = []

    def enter(**keys):
        machine = Machine(tmp_path, **keys)
        entered.append(machine.here())
        entered[-1].__enter__()
        return machine

    yield enter
    for here in entered:
        here.__exit__(None, None, None)


def refusal(name):
    said = []
    with pytest.raises(InterpreterError) as refused:
        interpreters.install(name, said.append)
    assert not any("downloading" in line for line in said)
    return str(refused.value)


def test_too_old_a_driver_stops_the_installation_before_a_download_and_says_what_to_do(machine):
    machine(driver="470.256.02", cuda=11040)
    told = refusal("pytorch")
    assert "needs NVIDIA's driver 525 or newer, and this machine has 470.256.02" in told
    assert "TBD_INTERPRETER_VARIANT=cpu" in told


@pytest.mark.parametrize(
    ("driver", "cuda", "variant"),
    [
        ("580.95.05", 13000, "cuda"),
        ("570.124.06", 12080, "cuda12"),
        ("535.183.06", 12020, "cuda12"),
        ("535.183.06", 13000, "cuda"),  # with cuda-compat-13-0
        ("470.256.02", 11040, "cuda12"),  # refused when it is installed
    ],
)
def test_the_driver_chooses_between_cuda_12_and_13(machine, driver, cuda, variant):
    machine(driver=driver, cuda=cuda)
    found = interpreters.definitions()
    assert found["pytorch"].variant == variant
    assert found["pytorch"].requirements.name == f"requirements-{variant}.txt"
    assert found["tensorflow"].variant == "cuda"  # it has the one
    assert ("pytorch" in interpreters.unfit()) == (driver[:3] == "470")


def test_an_older_variant_can_be_asked_for(machine, monkeypatch):
    machine()
    monkeypatch.setenv(cuda_needs.VARIANT_SETTING, "cuda12")
    assert {name: interpreters.definitions()[name].variant for name in ("pytorch", "mxnet")} == {
        "pytorch": "cuda12",
        "mxnet": "cuda",
    }


def test_an_environment_that_was_built_without_a_gpu_is_proved_at_its_first_use_on_one(machine, monkeypatch):
    monkeypatch.setenv(cuda_needs.VARIANT_SETTING, "cuda")
    monkeypatch.setattr(definition, "has_nvidia_driver", lambda: False)
    machine(driver="470.256.02", cuda=11040)
    wanted = interpreters.definitions()["pytorch"]
    build._check_machine(wanted, "python")  # whatever driver there may be: it is for other hosts
    assert build._proved_on_a_gpu(wanted, "python") == build.NOT_YET
    own = wanted.folder / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.write_text("#!/bin/sh\necho two steps on a GPU\n")
    own.chmod(0o700)
    (wanted.folder / definition.RECORD).write_text(json.dumps({"proof": f"made{build.NOT_YET}"}))
    monkeypatch.setattr(definition, "has_nvidia_driver", lambda: True)
    with pytest.raises(InterpreterError, match="driver 580 or newer"):
        interpreters.prove(interpreters.resolve("pytorch"))
    machine()
    for _ in range(2):  # once is enough
        interpreters.prove(interpreters.resolve("pytorch"))
        assert json.loads((wanted.folder / definition.RECORD).read_text())["proof"] == "made; two steps on a GPU"


def test_the_same_driver_carries_an_environment_of_an_older_cuda(machine):
    machine(driver="535.183.06", cuda=12020)
    with pytest.raises(InterpreterError, match="status 1"):  # of the Python that is none: the driver was no obstacle
        interpreters.install("tensorflow", lambda line: None)


@pytest.mark.parametrize(("name", "span"), [("mxnet", "from 5.0 to 8.9"), ("cntk", "from 3.0 to 7.5")])
def test_a_framework_without_code_for_the_gpu_is_refused_before_a_download(machine, name, span):
    machine(each={"capability": 9.0})
    told = refusal(name)
    assert f"no code for NVIDIA H100 80GB HBM3 (compute capability 9.0), only {span}" in told


def test_a_gpu_that_one_of_several_has_code_for_is_enough(machine):
    machine(gpus=2, each={"capability": 9.0}, **{"gpu.1.capability": 8.0}).change(gpu__1__capability=8.0)
    with pytest.raises(InterpreterError, match="status 1"):
        interpreters.install("mxnet", lambda line: None)


def test_a_gpu_that_is_lost_says_nothing_of_the_others(machine):
    machine(gpus=2, **{"gpu.0.lost": 1})
    assert "compute capability 9.0" in interpreters.unfit()["mxnet"]


def test_a_driver_without_a_gpu_is_refused_with_the_drivers_reason(machine):
    machine(**{"error.nvmlInitWithFlags": 9})
    assert "no GPU can be used (NVML: Driver Not Loaded)" in refusal("pytorch")


def test_who_wants_cpu_devices_only_gets_the_cpu_variant_on_a_host_with_a_driver(machine, monkeypatch):
    machine(driver="470.256.02")
    monkeypatch.setenv(cuda_needs.VARIANT_SETTING, "cpu")
    assert interpreters.definitions()["pytorch"].variant == "cpu"
    monkeypatch.setenv(cuda_needs.VARIANT_SETTING, "gpu")
    assert "TBD_INTERPRETER_VARIANT=gpu: it is cpu, cuda or cuda12" in refusal("pytorch")


def test_every_cuda_variant_says_what_it_needs():
    for path in interpreters.DEFINITIONS.glob("*/requirements-cuda.txt"):
        needs = cuda_needs.of(path.parent.name)
        assert needs is not None, path
        assert cuda_needs.version(needs.driver) > (400,)
        assert needs.frameworks


@pytest.mark.after_change
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("pytorch", "torch .* finds no GPU although NVIDIA's driver is there: Torch not compiled with CUDA"),
        ("tensorflow", "tensorflow .* finds no GPU although NVIDIA's driver is there: this build is without CUDA"),
        ("mxnet", "mxnet .* finds no GPU although NVIDIA's driver is there: this build is without CUDA"),
        ("cntk", "cntk .* finds no GPU although NVIDIA's driver is there"),
    ],
)
def test_the_proof_on_a_gpu_fails_where_the_framework_finds_none(python_of, name, why):
    python = python_of(name)
    found = interpreters.resolve(name)
    command = [python, "-I", str(cuda_needs.PROOF), *cuda_needs.of(name).frameworks]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin", **found.environment}, capture_output=True, text=True)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if "finds no GPU" in line]
    assert re.match(why, line), line
