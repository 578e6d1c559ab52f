"""``tbd noise`` with real processes, a few short ones."""

import json
import os
from pathlib import Path

import pytest

from orchestrator.cli.main import main
from workers.node import noise
from workers.node.inventory import cpu_devices, usable_cores
from workers.trainer import host
from workers.trainer.base.job import Device


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Three processes of 20 intervals of one step each, on one core, however slow the machine is."""
    core = usable_cores()[:1]
    monkeypatch.setattr("workers.node.inventory.usable_cores", lambda: core)
    monkeypatch.setattr(noise, "LENGTHS", (20,))
    monkeypatch.setattr(noise, "MANY", 3)
    monkeypatch.setattr(noise, "MOST", 3)
    monkeypatch.setattr(noise, "WARM_UP", 1)
    monkeypatch.setattr(noise, "INTERVAL_S", 1e-9)
    monkeypatch.setenv("TBD_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.delenv("TBD_CPU_DEVICES", raising=False)


def test_it_tells_the_noise_of_fresh_processes_and_what_they_ran_under(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")
    assert main(["noise", "--seconds", "3000", "--json"]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert (told["processes"], told["intervals"], told["steps_per_interval"]) == (3, 20, 1)
    assert told["cores"] == usable_cores()[:1]
    assert told["interval_time_s"] > 0
    assert told["between_low"] < told["between_ratio"] < told["between_high"]
    assert [one["target_ratio"] for one in told["runs_needed"]] == [0.01, 0.02, 0.05]
    assert told["settings"]["inherited"]["environment"]["GLIBC_TUNABLES"] == "glibc.malloc.hugetlb=1"
    assert 0 <= told["foreign_ratio"] <= 1
    assert printed.err.count("ms a step") == 3


def test_it_gives_way_to_a_training(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (device,) = cpu_devices(usable_cores()[:1], 1, "a processor", 1)
    (tmp_path / "locks").mkdir(mode=0o700)
    held = host.lock_devices(str(tmp_path / "locks"), [Device(device["id"], "cpu")])
    try:
        assert main(["noise"]) == 1
    finally:
        for descriptor in held:
            os.close(descriptor)
    assert f"process {os.getpid()} holds {device['id']}: measure again" in capsys.readouterr().err


def test_a_process_that_fails_is_told_with_what_it_said(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("raise SystemExit('there is no numpy')\n")
    monkeypatch.setattr(noise, "_KERNEL", str(tmp_path / "broken.py"))
    assert main(["noise"]) == 1
    assert "status 1: there is no numpy" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["1", "nan", "1e9"])
def test_an_impossible_time_is_a_usage_error(seconds: str) -> None:
    assert main(["noise", "--seconds", seconds]) == 2
