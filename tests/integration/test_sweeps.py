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
        ended = len(begun(service, experiment))  # cancelled in the middle, one of them may be
        told = tbd("extend", experiment, "--option", "step_time_s=0.002").stderr
        assert f"has 64 runs more, and {128 - ended} ahead" in told, "those cancelled before they began among them"
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


def results_of(service: Service, experiment: str) -> tuple[list[dict[str, Any]], dict[int, dict[str, Any]]]:
    """(whole runs, tries by their batch) of an experiment that has completed, one row of results and no failed run
    but for those that ran out of memory; each run in processes of its own."""
    runs = service.wait(experiment, timeout_s=550, poll_s=0.5)
    failures = [run["failure"] for run in runs if run["failure"]]
    assert [failure for failure in failures if failure["kind"] != "out_of_memory"] == []
    assert failures
    assert service.call("GET", f"/api/v1/experiments/{experiment}")["state"] == "completed"
    assert len({run["attempts"][0]["id"] for run in runs}) == len(runs), "each try in processes of its own"
    tries = {run["plan"]["per_device_batch_size"]: run for run in runs if run["plan"]["search"]}
    return [run for run in runs if not run["plan"]["search"]], tries


def test_the_largest_batch_is_one_that_whole_runs_fit_and_out_of_memory_is_no_failure(tmp_path: Path) -> None:
    """Each sample takes 20 MiB of the 256 that the processes may have, and 4 more with every step: more samples fit in
    the four steps of a try than in the eight of a whole run. Python itself needs some memory, too."""
    spec = SPEC | {"per_device_batch_size": "max", "seed": 1, "memory_limit_bytes": 256 * 2**20, "repeats": 2}
    spec |= {"max_repeats": 2, "max_steps": 8}
    spec |= {"options": {"step_time_s": 0.001, "sample_bytes": 20 * 2**20, "kept_bytes": 4 * 2**20}}
    service = Service(tmp_path / "data", **environment(tmp_path)).start()
    try:
        experiment = service.submit(spec)
        watch = Tbd(tmp_path, service.url).start("watch", experiment)
        whole, tries = results_of(service, experiment)
        (row,) = service.all(f"/api/v1/experiments/{experiment}/results")
        largest = row["axes"]["per_device_batch_size"]
        fitted = max(batch for batch, run in tries.items() if run["state"] == "completed")
        _, said = watch.communicate(timeout=60)
        assert f"batch {fitted} 1x1: it fits; " in said
        assert f"batch {fitted + 1} 1x1: it does not fit; " in said
        assert "at most 2 tries more" in said
        assert f"{fitted} is the largest that fits" in said
        assert 2 <= largest < fitted <= 7
        assert tries[fitted + 1]["failure"]["kind"] == "out_of_memory"
        ends = {(run["plan"]["per_device_batch_size"], run["state"]) for run in whole}
        assert ends == {(largest, "completed")} | {(batch, "failed") for batch in range(largest + 1, fitted + 1)}
        assert len(whole) == 2 + fitted - largest, "a batch that does not fit is measured once"
        (note,) = [note for note in row["validity"]["notes"] if note.startswith("max: ")]
        for run in whole:
            assert (run["id"] in note) is (run["state"] == "failed")
    finally:
        service.stop()


@pytest.mark.parametrize(
    ("framework", "model", "limit_mib"),
    [
        pytest.param("pytorch", "resnet-50", 385, marks=pytest.mark.framework("pytorch")),
        pytest.param("pytorch", "inception-v3", 440, marks=pytest.mark.framework("pytorch")),
        pytest.param("mxnet", "resnet-50", 640, marks=pytest.mark.framework("mxnet")),
        pytest.param("cntk", "resnet-50", 300, marks=pytest.mark.framework("cntk")),
    ],
)
@pytest.mark.timeout(600)
@pytest.mark.depends_on("orchestrator/domain/search.py", "workers/node/before_exec.py", "workers/trainer/__main__.py")
def test_a_framework_finds_its_largest_batch_in_the_memory_it_may_have(
    framework: str, model: str, limit_mib: int, tmp_path: Path, python_of: Any
) -> None:
    python_of(framework)
    spec = {"name": "largest", "model": model, "framework": framework, "size": "tiny", "device": "cpu"}
    spec |= {"per_device_batch_size": "max", "memory_limit_bytes": limit_mib * 2**20, "repeats": 1, "max_steps": 8}
    service = Service(tmp_path / "data", **environment(tmp_path)).start()
    try:
        experiment = service.submit(spec)
        whole, tries = results_of(service, experiment)
        (row,) = service.all(f"/api/v1/experiments/{experiment}/results")
        largest = row["axes"]["per_device_batch_size"]
        fitted = max(batch for batch, run in tries.items() if run["state"] == "completed")
        assert tries[fitted + 1]["failure"]["kind"] == "out_of_memory"
        # So near to the limit two processes of one batch differ: a whole run may not fit where the try did.
        batches = [(run["plan"]["per_device_batch_size"], run["state"]) for run in whole]
        assert sorted(batches) == [(largest, "completed"), *((n, "failed") for n in range(largest + 1, fitted + 1))]
        assert row["throughput"]
    finally:
        service.stop()
