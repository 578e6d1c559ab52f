"""Horovod's definitions for GPUs beside those for CPUs, and how a build finds CUDA and NCCL."""

import importlib.util
import os
import stat
import sys
from pathlib import Path

import pytest

from workers.node.interpreters import cuda_needs, cuda_toolkits, definition, sources
from workers.node.interpreters.sources import Source

FOLDERS = definition.DEFINITIONS
SOURCE = {
    "requirement": "thing==1.0",
    "against": ["library"],
    "build_requirements": ["tool==2"],
    "programs": [],
    "packages": [],
    "minutes": 1,
    "environment": {"COLOUR": "red"},
}
TOOLKIT = {"release": "11.8", "how": "the toolkit is in the box"}


def defined(name, variant, monkeypatch):
    monkeypatch.setattr(definition, "has_nvidia_driver", lambda: variant == "cuda")
    # The laboratory's library, once loaded, stays in its process.
    monkeypatch.setattr(cuda_needs, "driver_here", lambda: cuda_needs.Driver("580.95.05", [], None, 13000))
    found = definition.definitions()[name]
    assert found.variant == variant
    return found


def pins(definition):
    return dict(line.split("==") for line in definition.requirements.read_text().split())


def source_of(folder: Path, **more) -> Source:
    (folder / "requirements.txt").write_text("library==1\n")
    facts = {"source": [{**SOURCE, **more}]}
    (source,) = sources.of_facts(facts, "cuda", folder / "requirements.txt", ["3.11"])
    return source


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def toolkits(tmp_path: Path, monkeypatch):
    """The only folder where toolkits are looked for: in ``cuda-RELEASE``, and in ``bin``, which is all of PATH."""
    monkeypatch.setattr(cuda_toolkits, "_INSTALLED", str(tmp_path / "cuda-{release}"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/nowhere")
    return tmp_path


@pytest.mark.parametrize("name", ["horovod", "horovod-pytorch"])
def test_a_variant_builds_one_horovod_with_nccl_where_there_are_gpus_only(name, monkeypatch):
    (plain,) = defined(name, "cpu", monkeypatch).sources
    (gpu,) = defined(name, "cuda", monkeypatch).sources
    assert "HOROVOD_GPU_OPERATIONS" not in plain.environment
    assert gpu.environment["HOROVOD_GPU"] == "CUDA"
    assert gpu.environment["HOROVOD_GPU_OPERATIONS"] == "NCCL"
    assert gpu.environment["HOROVOD_CPU_OPERATIONS"] == "GLOO"
    assert gpu.key != plain.key
    assert any(pin.startswith("nvidia-nccl-") for pin in gpu.pins)
    # Horovod is told the interface in both.
    assert [change for change in plain.replace if change not in gpu.replace] == []


def test_horovod_for_pytorch_shares_pytorchs_own_pins(monkeypatch):
    for variant in ("cpu", "cuda"):
        own, horovods = (pins(defined(name, variant, monkeypatch)) for name in ("pytorch", "horovod-pytorch"))
        assert own.items() <= horovods.items()


def test_the_toolkit_in_packages_is_of_the_release_that_pytorch_is_built_with(monkeypatch):
    wanted = defined("horovod-pytorch", "cuda", monkeypatch)
    (source,) = wanted.sources
    tools = dict(line.split("==") for line in source.build_requirements)
    assert tools["nvidia-cuda-runtime"] == pins(wanted)["nvidia-cuda-runtime"]
    cuda = {name: version for name, version in tools.items() if name.startswith("nvidia-")}
    assert len(cuda) == 5
    assert {version.rpartition(".")[0] for version in cuda.values()} == {"13.0"}


def test_one_environment_for_two_frameworks_has_one_cuda(monkeypatch):
    wanted = defined("horovod", "cuda", monkeypatch)
    packages = pins(wanted)
    assert packages["numpy"] == "1.23.5"
    nvidia = [name for name in packages if name.startswith("nvidia-")]
    assert len(nvidia) > 8
    assert {name.rpartition("-")[2] for name in nvidia} == {"cu11"}
    assert wanted.sources[0].cuda["release"].startswith("11.")
    assert packages["mxnet-cu112"] == pins(defined("mxnet", "cuda", monkeypatch))["mxnet-cu112"]


@pytest.mark.parametrize("name", ["horovod", "horovod-pytorch"])
def test_only_the_gpu_variant_says_where_cudas_libraries_lie(name, monkeypatch):
    assert "LD_LIBRARY_PATH" not in defined(name, "cpu", monkeypatch).environment
    wanted = defined(name, "cuda", monkeypatch)
    folders = wanted.environment["LD_LIBRARY_PATH"].split(":")
    assert all(
        folder.startswith(f"{wanted.folder}/lib/python{wanted.python}/site-packages/nvidia/") for folder in folders
    )
    assert any(folder.endswith("/nccl/lib") for folder in folders)
    # What all variants need is still there.
    assert defined("horovod", "cuda", monkeypatch).environment["MALLOC_MMAP_MAX_"] == "0"


def test_naming_the_variant_of_a_source_does_not_cost_its_kept_wheel(tmp_path):
    key = source_of(tmp_path).key
    assert source_of(tmp_path, variant="cuda").key == key
    assert source_of(tmp_path, programs=["nvcc"], packages=["cuda"], minutes=9).key == key
    others = [{"links": {"a": "b"}}, {"path": ["{tools}/bin"]}, {"cuda": TOOLKIT}]
    keys = {source_of(tmp_path, **more).key for more in others}
    assert len(keys | {key}) == 4
    assert source_of(tmp_path, cuda={**TOOLKIT, "how": "said otherwise"}).key in keys


def test_a_toolkit_of_another_release_does_not_do_and_the_person_is_told_which(toolkits):
    source = source_of(toolkits, cuda=TOOLKIT)
    told = "nvcc of CUDA 11.8 missing: the toolkit is in the box"
    assert sources.missing([source], toolkits / "wheels", sys.executable) == told
    program(toolkits / "bin" / "nvcc", "Cuda compilation tools, release 13.0, V13.0.88")
    assert sources.missing([source], toolkits / "wheels", sys.executable) == told
    program(toolkits / "bin" / "nvcc", "Cuda compilation tools, release 11.8, V11.8.89")
    assert sources.missing([source], toolkits / "wheels", sys.executable) is None


def test_a_lacking_compiler_and_a_lacking_toolkit_are_told_together(toolkits):
    source = source_of(toolkits, cuda=TOOLKIT, programs=["g++"], packages=["g++"])
    said = sources.missing([source], toolkits / "wheels", sys.executable)
    assert said.startswith("g++, nvcc of CUDA 11.8 missing: `apt-get install g++`")
    assert said.endswith("; the toolkit is in the box")


def test_a_toolkit_beside_the_path_is_found_before_one_on_it(toolkits):
    program(toolkits / "bin" / "nvcc", "release 11.8, V11.8.0")
    assert cuda_toolkits.find("11.8") == toolkits
    program(toolkits / "cuda-11.8" / "bin" / "nvcc", "release 11.8, V11.8.0")
    assert cuda_toolkits.find("11.8") == toolkits / "cuda-11.8"
    assert cuda_toolkits.find("12.0") is None


def test_a_toolkit_of_another_release_hides_none_behind_it_on_the_path(toolkits, monkeypatch):
    monkeypatch.setenv("PATH", os.pathsep.join([str(toolkits / "bin"), str(toolkits / "second" / "bin")]))
    program(toolkits / "bin" / "nvcc", "release 13.0, V13.0.88")
    program(toolkits / "second" / "bin" / "nvcc", "release 11.8, V11.8.89")
    assert cuda_toolkits.find("11.8") == toolkits / "second"
    assert cuda_toolkits.find("13.0") == toolkits


def test_a_build_is_told_where_its_tools_the_packages_and_the_toolkit_are(toolkits):
    program(toolkits / "cuda-11.8" / "bin" / "nvcc", "release 11.8, V11.8.0")
    environment = {"HOME_OF_CUDA": "{cuda}", "LIBRARY": "{tools}/linked/lib.so", "HEADERS": "{packages}/include"}
    (toolkits / "lib.so.2").write_text("a library")
    links = {"linked/lib.so": str(toolkits / "lib.so.2")}
    source = source_of(toolkits, cuda=TOOLKIT, path=["{cuda}/bin"], environment=environment, links=links)
    seen = {}

    def run(what, command, extra):
        if what.startswith("building"):
            seen.update(extra, library=Path(extra["LIBRARY"]).read_text())
            folder = Path(command[command.index("--wheel-dir") + 1])
            folder.mkdir()
            (folder / "thing-1.0-py3-none-any.whl").write_text("")

    sources.build(source, sys.executable, toolkits / "wheels", run)
    assert seen["HOME_OF_CUDA"] == str(toolkits / "cuda-11.8")
    # The pinned tools come before those of the toolkit, whose folder may be /usr/bin.
    first, second, *_ = seen["PATH"].split(os.pathsep)
    assert first == str(Path(seen["PYTHONPATH"]) / "bin")
    assert second == str(toolkits / "cuda-11.8" / "bin")
    assert seen["library"] == "a library"
    assert seen["HEADERS"].endswith("site-packages/include")


def test_a_link_that_leads_nowhere_ends_the_build_at_once(toolkits):
    source = source_of(toolkits, links={"linked/lib.so": "{packages}/nothing.so.2"})
    with pytest.raises(FileNotFoundError, match=r"nothing\.so\.2, which is not there"):
        sources.build(source, sys.executable, toolkits / "wheels", lambda what, command, extra: None)


def test_the_proof_uses_gpus_in_the_way_that_nccl_can(monkeypatch):
    spec = importlib.util.spec_from_file_location("horovod_proof", FOLDERS / "horovod" / "proof.py")
    proof = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(proof)
    assert proof.plan(0) == [("cpu", 2)]
    assert proof.plan(1) == [("cpu", 2), ("cuda", 1)]
    assert proof.plan(2) == proof.plan(8) == [("cuda", 2)]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert [proof.visible(rank) for rank in range(2)] == ["3", "5"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert [proof.visible(rank) for rank in range(2)] == ["0", "1"]
    two = [{"reduced": [0.5, 1.0, 1.5], "weights": [1.0], "losses": [2.0, 1.0], "version": "9"} for _ in range(2)]
    assert proof.checked("thing", "cuda", two) == "thing 9 on cuda over nccl, 2 ranks: loss 2.000000 -> 1.000000"
    with pytest.raises(SystemExit, match="the mean over all ranks came out as"):
        proof.checked("thing", "cuda", two[:1])
    with pytest.raises(SystemExit, match="the replicas differ"):
        proof.checked("thing", "cuda", [two[0], {**two[1], "weights": [1.5]}])
