"""``tbd parity`` gives way to trainings on the same CPU devices."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.machine import cpu_devices
from orchestrator.cli.main import main
from tests.support.service import until
from tests.trainer_process import Trainer, make_job


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


@pytest.mark.framework("pytorch")
@pytest.mark.after_change
def test_a_training_that_begins_meanwhile_is_waited_for_and_goes_on(
    python_of: Callable[[str], str], job: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It begins with the first process of the comparison, and is over when the second one has to wait."""
    python_of("pytorch")
    (tmp_path / "locks").mkdir(mode=0o700)
    said: list[str] = []
    trainings: list[Trainer] = []

    def say(text: str) -> None:
        said.append(text)
        if not trainings:
            trainings.append(Trainer(job, tmp_path))
            until(lambda: trainings[0].data("built"))
        elif text.startswith("waiting"):
            trainings[0].popen.terminate()
            trainings[0].popen.wait()

    monkeypatch.setattr("orchestrator.cli.printing.output.say", say)
    try:
        assert main(["parity", "lstm-classifier", "--frameworks", "pytorch"]) == 0
    finally:
        for training in trainings:
            training.popen.kill()
            training.popen.wait()
    held = job["processes"][0]["devices"][0]["id"]
    waited = f"waiting: run r1 (process {trainings[0].popen.pid}) holds {held}"
    assert said == ["pytorch in double precision …", waited, "pytorch …"]
    assert not trainings[0].data("error")
