"""``tbd parity`` and trainings on the same CPU devices: each holds them against the other."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli import cpu_devices
from orchestrator.cli.exits import INTERRUPTED
from orchestrator.cli.main import main
from tests.support.service import until
from tests.trainer_process import Trainer, make_job, run
from workers.trainer.protocol import EXIT_STATUS


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """A training on the last CPU device that is offered here, of two where there are cores enough."""
    monkeypatch.setenv("TBD_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.setenv("TBD_CPU_DEVICES", str(min(2, len(os.sched_getaffinity(0)))))
    found = make_job("sleep", "sleep", lock_dir=tmp_path / "locks", options={"step_time_s": 0.002}, max_steps=10**9)
    found["processes"][0]["devices"][0]["id"] = cpu_devices.offered()[-1].id
    return found


@pytest.mark.framework("pytorch")
def test_nothing_is_compared_while_a_run_holds_a_device_and_the_run_is_named(
    python_of: Callable[[str], str], job: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python_of("pytorch")
    (tmp_path / "locks").mkdir(mode=0o700)
    training = Trainer(job, tmp_path)
    try:
        until(lambda: training.data("built"))
        assert main(["parity", "resnet-50", "--frameworks", "pytorch"]) == 1
    finally:
        training.popen.kill()
        training.popen.wait()
    held = job["processes"][0]["devices"][0]["id"]
    said = capsys.readouterr().err
    assert f"run r1 (process {training.popen.pid}) holds {held}: try again when it is over" in said
    assert "double precision" not in said  # nothing was begun


def test_a_training_that_begins_meanwhile_is_refused_until_the_devices_are_given_back(
    job: dict[str, Any], tmp_path: Path
) -> None:
    with cpu_devices.taken(cpu_devices.offered()):
        (refused,) = run(job, tmp_path)
    assert refused.popen.returncode == EXIT_STATUS["setup_failed"]
    (error,) = refused.data("error")
    assert f"is held by process {os.getpid()}" in error["message"]
    (tmp_path / "later").mkdir()
    (trained,) = run(job | {"plan": job["plan"] | {"max_steps": 3}}, tmp_path / "later")
    assert trained.popen.returncode == 0, trained.output


@pytest.mark.framework("pytorch")
def test_the_devices_are_held_while_it_computes_and_given_back_when_it_is_interrupted(
    python_of: Callable[[str], str], job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    python_of("pytorch")
    seen: list[str | None] = []

    def interrupted(text: str) -> None:
        seen.append(cpu_devices.hindrance(cpu_devices.offered()))
        raise KeyboardInterrupt

    monkeypatch.setattr("orchestrator.cli.output.say", interrupted)
    assert main(["parity", "resnet-50", "--frameworks", "pytorch"]) == INTERRUPTED
    assert seen == [f"process {os.getpid()} holds {cpu_devices.offered()[0].id}"]
    assert cpu_devices.hindrance(cpu_devices.offered()) is None
