"""Bad luck in a run: the right failure kind, what the process said, no orphan, the device free again."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import processes
from tests.support.service import Service, until

SLEEP = {
    "name": "bad-luck",
    "model": "sleep",
    "framework": "sleep",
    "per_device_batch_size": 1,
    "repeats": 1,
    "max_repeats": 1,
    "max_steps": 400,
    "timeout_s": 60,
}


@pytest.fixture(scope="module")
def mark() -> str:
    """Stands in the environment of everything that this module's service starts."""
    return f"mark-{uuid.uuid4()}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, mark: str) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    service = Service(folder / "data", TBD_CLUSTER="local", TEST_MARK=mark).start()
    yield service
    service.stop()


def sleep(**changes: Any) -> dict[str, Any]:
    options = {"step_time_s": 0.002, **changes.pop("options", {})}
    return {**SLEEP, **changes, "options": options}


def run_with_fault(service: Service, fault: str, **changes: Any) -> dict[str, Any]:
    (run,) = service.wait(service.submit(sleep(options={"fault": fault, "fault_step": 20}, **changes)))
    return run


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("nan", "diverged"),
        ("out_of_memory", "out_of_memory"),
        ("crash", "crashed"),
        ("signal", "crashed"),
        ("exit", "crashed"),
        ("garbage", "invalid_log"),
    ],
)
def test_a_fault_is_told_as_what_it_is(service: Service, mark: str, fault: str, kind: str) -> None:
    run = run_with_fault(service, fault)
    assert run["state"] == "failed"
    assert run["failure"]["kind"] == kind
    assert run["failure"]["message"]
    assert processes.of_attempts(mark) == []


def test_a_crash_shows_the_tail_of_what_the_process_said(service: Service) -> None:
    run = run_with_fault(service, "crash")
    assert "Traceback" in run["failure"]["stderr_tail"]


def test_a_hang_ends_at_its_time_out_and_leaves_nothing(service: Service, mark: str) -> None:
    run = run_with_fault(service, "hang", timeout_s=3)
    assert run["failure"]["kind"] == "timed_out"
    assert processes.of_attempts(mark) == []


def test_a_grandchild_that_left_the_process_group_is_ended_too(service: Service, mark: str) -> None:
    run_with_fault(service, "leak_child")
    assert processes.of_attempts(mark) == []


def test_the_device_is_free_again_after_every_fault(service: Service) -> None:
    run = service.run_one(sleep(), poll_s=0.1)
    assert run["state"] == "completed"


def test_a_cancelled_run_ends_at_once_and_the_experiment_is_cancelled(service: Service, mark: str) -> None:
    experiment = service.submit(
        sleep(min_measure_s=3600, max_steps=1_000_000, options={"noise_ratio": 0.9}, repeats=2, max_repeats=2)
    )
    until(lambda: any(run["state"] == "running" for run in service.runs(experiment)))
    service.call("POST", f"/api/v1/experiments/{experiment}/cancel")
    service.call("POST", f"/api/v1/experiments/{experiment}/cancel")
    runs = service.wait(experiment)
    assert [run["state"] for run in runs] == ["cancelled", "cancelled"]
    assert service.call("GET", f"/api/v1/experiments/{experiment}")["state"] == "cancelled"
    assert processes.of_attempts(mark) == []


@pytest.mark.after_change
def test_a_run_that_never_gets_steady_counts_like_any_other(service: Service) -> None:
    spec = sleep(options={"fault": "unsteady", "step_time_s": 0.005}, repeats=2, max_repeats=2, max_steps=300)
    experiment = service.submit(spec)
    runs = service.wait(experiment, timeout_s=120)
    assert [run["state"] for run in runs] == ["completed", "completed"]
    assert all(run["throughput"]["value"] > 0 for run in runs)
    assert all(any("unsteady" in note for note in run["validity"]["notes"]) for run in runs)
    (row,) = service.call("GET", f"/api/v1/experiments/{experiment}/results")["items"]
    assert (row["n_used"], row["throughput"]["ci_low"] is not None) == (2, True)
    assert service.call("GET", f"/api/v1/experiments/{experiment}")["state"] == "completed"


@pytest.mark.after_change
def test_a_missing_interpreter_names_the_command_and_the_rest_goes_on(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", TBD_CLUSTER="local", TBD_INTERPRETERS_DIR=str(tmp_path / "none")).start()
    try:
        spec = {
            "name": "missing",
            "model": "resnet-50",
            "framework": ["pytorch", "tensorflow"],
            "size": "tiny",
            "per_device_batch_size": 1,
            "repeats": 1,
        }
        runs = service.wait(service.submit(spec))
        assert [run["failure"]["kind"] for run in runs] == ["setup_failed", "setup_failed"]
        for run in runs:  # in whatever order the seed has drawn
            assert f"tbd frameworks install {run['plan']['framework']}" in run["failure"]["message"]
        assert service.run_one(sleep(), poll_s=0.1)["state"] == "completed"
    finally:
        service.stop()


def test_no_process_of_an_attempt_outlives_an_orderly_stop(tmp_path: Path) -> None:
    mark = f"mark-{os.getpid()}-{tmp_path.name}"
    service = Service(tmp_path / "data", TBD_CLUSTER="local", TEST_MARK=mark).start()
    service.submit(sleep(min_measure_s=3600, max_steps=1_000_000, options={"noise_ratio": 0.9}))
    until(lambda: processes.of_attempts(mark))
    service.stop()
    until(lambda: not processes.of_attempts(mark))
