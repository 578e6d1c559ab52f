"""Throughput of ResNet-50 under tbd with telemetry / a bare loop of the same model and framework.

Both train in the same interpreter, on the same cores with the same number of threads. tbd's side counts by the clock on
the wall, from the end of step ``SKIPPED`` to the last one's: what tbd does between intervals counts against it.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from orchestrator.domain.plan import Plan
from orchestrator.services.catalog import load_catalog
from tests.benchmarks.bare_loop import SKIPPED
from tests.benchmarks.ratio import Ratio, in_turn, ratio
from tests.support.service import Service, seconds
from workers.node.interpreters import resolve

ROOT = Path(__file__).resolve().parents[2]
STEPS = 45


def spec(framework: str) -> dict[str, Any]:
    return {
        "name": "bench-training",
        "model": "resnet-50",
        "framework": framework,
        "size": "small",
        "per_device_batch_size": 2,
        "repeats": 1,
        "max_repeats": 1,
        "max_steps": STEPS,
    }


def steps_per_s_under_tbd(service: Service, framework: str) -> float:
    run = service.run_one(spec(framework), poll_s=2.0)
    intervals = service.all(f"/api/v1/runs/{run['id']}/intervals")
    ends = {interval["first_step"] + interval["n"] - 1: seconds(interval["at"]) for interval in intervals}
    last = max(ends)
    return float((last - SKIPPED) / (ends[last] - ends[SKIPPED]))


def steps_per_s_bare(service: Service, framework: str) -> float:
    """The bare loop, pinned to the same cores as the service's device and with as many threads."""
    (device,) = service.call("GET", "/api/v1/nodes")["items"][0]["devices"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(_job(framework, device)))
        interpreter = resolve(framework)
        cores = device["cores"]
        command = [str(interpreter.python), "-m", "tests.benchmarks.bare_loop", framework, str(path), str(STEPS)]
        environment = {**os.environ, **interpreter.environment, "OMP_NUM_THREADS": str(len(cores))}
        result = subprocess.run(
            ["taskset", "-c", ",".join(map(str, cores)), *command],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
    return (STEPS - SKIPPED) / float(result.stdout)


def _job(framework: str, device: dict[str, Any]) -> dict[str, Any]:
    """As much of a job as the model's ``build`` reads."""
    plan = Plan(
        model="resnet-50",
        options=(),
        framework=framework,
        strategy="single",
        interpreter=framework,
        topology="1x1",
        fabric=None,
        device="cpu",
        precision="fp32",
        per_device_batch_size=2,
        global_batch_size=2,
        data="synthetic",
        size="small",
        seed=1,
    )
    process = {"name": "worker0", "role": "worker", "node": "n0", "ranks": [0], "local_ranks": [0], "devices": [device]}
    model = dict(load_catalog().models["resnet-50"].facts)
    return {"plan": plan.to_json(), "model": model, "dataset": None, "processes": [process], "world_size": 1}


def measure_pytorch(service: Service, pairs: int) -> Ratio:
    return _measure(service, "pytorch", pairs)


def measure_tensorflow(service: Service, pairs: int) -> Ratio:
    return _measure(service, "tensorflow", pairs)


def _measure(service: Service, framework: str, pairs: int) -> Ratio:
    a, b = in_turn(
        pairs, lambda: steps_per_s_under_tbd(service, framework), lambda: steps_per_s_bare(service, framework)
    )
    return ratio(f"throughput under tbd / bare loop, ResNet-50 in {framework}", "lower bound >= 0.98", a, b)
