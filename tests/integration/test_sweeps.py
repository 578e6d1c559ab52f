"""Sweeps on a real service: paused, killed, resumed, cancelled and extended."""

import signal
from collections import Counter
from pathlib import Path
from typing import Any

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
