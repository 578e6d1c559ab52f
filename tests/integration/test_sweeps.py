"""Sweeps on a real service: paused, killed, resumed, cancelled and extended; and the search for the largest batch."""

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.service_rig import Tbd, environment
from tests.support.service import Service, until

SPEC: dict[str, Any] = {
    "name": "sweep",
    "model": "sleep",
    "framework": "sleep",
    "size": "tiny",
    "per_device_batch_size": list(range(1, 17)),
    "seed": [1, 2, 3, 4],
    "repeats": 1,
    "max_repeats": 1,
    "max_steps": 2,
    "options": {"step_time_s": 0.001},
}


def begun(service: Service, experiment: str) -> list[dict[str, Any]]:
    return [run for run in service.runs(experiment) if run["attempts"]]


def test_a_sweep_of_64_cells_goes_through_everything_and_runs_no_cell_twice(tmp_path: Path) -> None:
    service = Service(tmp_path / "data", **environment(tmp_path)).start()
    try:
        tbd = Tbd(tmp_path, service.url)
        experiment = service.submit(SPEC)
        until(lambda: len(begun(service, experiment)) >= 2)
        tbd("pause", experiment)
        until(lambda: all(run["ended_at"] for run in begun(service, experiment)))
        before = begun(service, experiment)
        assert 2 <= len(before) < 64

        service.stop(signal.SIGKILL)
        service.start()
        tbd = Tbd(tmp_path, service.url)
        assert tbd.json("show", experiment)["paused"]
        assert begun(service, experiment) == before
        tbd("resume", experiment)
        until(lambda: len(begun(service, experiment)) >= len(before) + 2)

        tbd("cancel", experiment)
        service.wait(experiment)
        tbd("extend", experiment, "--option", "step_time_s=0.002")
        whole = service.runs(experiment)
        assert len(whole) == 128
        until(lambda: len([run for run in service.runs(experiment) if run["state"] == "completed"]) >= len(before) + 4)
        plans = Counter(repr(sorted(run["plan"].items())) for run in service.runs(experiment))
        assert len(plans) == 128
        assert set(plans.values()) == {1}, "each cell is there once"
        assert all(len(run["attempts"]) == 1 for run in begun(service, experiment)), "and begun once"
        assert {run["id"] for run in before} < {run["id"] for run in begun(service, experiment)}
        tbd("pause", experiment)
        tbd("cancel", experiment)
        assert {run["state"] for run in service.wait(experiment)} == {"completed", "cancelled"}
    finally:
        service.stop()


def test_the_largest_batch_is_found_within_the_limit_and_out_of_memory_is_no_failure(tmp_path: Path) -> None:
    """Each sample takes 40 MiB of the 256 that the processes may have: Python itself needs some, too."""
    spec = SPEC | {"per_device_batch_size": "max", "seed": 1, "memory_limit_bytes": 256 * 2**20, "repeats": 2}
    spec |= {"max_repeats": 2, "options": {"step_time_s": 0.001, "sample_bytes": 40 * 2**20}}
    service = Service(tmp_path / "data", **environment(tmp_path)).start()
    try:
        experiment = service.submit(spec)
        runs = service.wait(experiment, timeout_s=120)
        assert service.call("GET", f"/api/v1/experiments/{experiment}")["state"] == "completed"
        tries = {run["plan"]["per_device_batch_size"]: run for run in runs if run["plan"]["search"]}
        (row,) = service.all(f"/api/v1/experiments/{experiment}/results")
        largest = row["axes"]["per_device_batch_size"]
        assert 3 <= largest <= 6
        assert tries[largest]["state"] == "completed"
        assert tries[largest + 1]["failure"]["kind"] == "out_of_memory"
        assert {run["failure"]["kind"] for run in tries.values() if run["failure"]} == {"out_of_memory"}
        assert [run["state"] for run in runs if not run["plan"]["search"]] == ["completed"] * 2
    finally:
        service.stop()


@pytest.mark.framework("pytorch")
@pytest.mark.timeout(600)
@pytest.mark.depends_on("orchestrator/domain/search.py", "workers/node/before_exec.py", "workers/trainer/__main__.py")
def test_pytorch_finds_its_largest_batch_in_the_memory_it_may_have(tmp_path: Path, python_of: Any) -> None:
    python_of("pytorch")
    spec: dict[str, Any] = {
        "name": "largest",
        "model": "resnet-50",
        "framework": "pytorch",
        "size": "tiny",
        "device": "cpu",
    }
    spec |= {"per_device_batch_size": "max", "memory_limit_bytes": 385 * 2**20, "repeats": 1, "max_steps": 8}
    service = Service(tmp_path / "data", **environment(tmp_path)).start()
    try:
        experiment = service.submit(spec)
        runs = service.wait(experiment, timeout_s=550, poll_s=0.5)
        tries = {run["plan"]["per_device_batch_size"]: run for run in runs if run["plan"]["search"]}
        (whole,) = [run for run in runs if not run["plan"]["search"]]
        largest = whole["plan"]["per_device_batch_size"]
        assert tries[largest]["state"] == "completed"
        # So near to the limit two processes of one batch differ: the whole run may not fit where the try did.
        assert whole["state"] == "completed" or whole["failure"]["kind"] == "out_of_memory", whole["failure"]
        assert tries[largest + 1]["failure"]["kind"] == "out_of_memory"
        assert len({run["attempts"][0]["id"] for run in runs}) == len(runs), "each try in processes of its own"
    finally:
        service.stop()
