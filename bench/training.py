"""Throughput of ResNet-50 under tbd with telemetry / a bare loop of the same model and framework.

Both train in the same interpreter, on the same cores with the same number of threads, in slices that alternate (see
``slices``). Steps count by the clock on the wall: what tbd does between intervals counts against it.
"""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from bench.ratio import Ratio, ratio
from bench.slices import Side, in_blocks, speeds, take_turns, with_needle
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.topology import Topology
from orchestrator.services.facts.catalog import load_catalog
from tests.support.service import Service, running_service, until
from workers.node.interpreters import resolve

ROOT = Path(__file__).resolve().parents[1]
# Steps before the first slice: compilation and the first allocations are over.
WARM_UP_STEPS = 10
START_S = 180.0


def rig() -> AbstractContextManager[Service]:
    """A service that does not take frozen agents and processes for dead ones."""
    return running_service(Service, TBD_FENCE_S="3600")


def spec(framework: str) -> dict[str, Any]:
    """A run that lasts longer than the measurement."""
    return {
        "name": "bench-training",
        "model": "resnet-50",
        "framework": framework,
        "size": "small",
        "per_device_batch_size": 2,
        "repeats": 1,
        "max_repeats": 1,
        "min_measure_s": 36_000,
    }


@contextmanager
def under_tbd(service: Service, framework: str) -> Iterator[Side]:
    """A run of the service, training; cancelled at the end. Its side is all that belongs to the service."""
    experiment = service.submit(spec(framework))

    def events() -> list[Path]:
        return list(service.data_dir.glob("**/worker0.events.jsonl"))

    def steps() -> list[float]:
        lines = [json.loads(line) for path in events() for line in path.read_text().splitlines()]
        return [line["t"] for line in lines if line["kind"] == "interval"]

    try:
        until(lambda: len(steps()) >= WARM_UP_STEPS, START_S, 1.0)
        yield Side(lambda: with_needle(str(service.data_dir)), steps)
    finally:
        service.call("POST", f"/api/v1/experiments/{experiment}/cancel")
        service.wait(experiment)


@contextmanager
def bare(service: Service, framework: str) -> Iterator[Side]:
    """The bare loop, pinned to the cores of the service's device and with as many threads."""
    (device,) = service.call("GET", "/api/v1/nodes")["items"][0]["devices"]
    interpreter = resolve(framework)
    cores = ",".join(map(str, device["cores"]))
    environment = {**os.environ, **interpreter.environment, "OMP_NUM_THREADS": str(len(device["cores"]))}
    with tempfile.TemporaryDirectory(prefix="bare-") as folder:
        path, told = Path(folder) / "job.json", Path(folder) / "steps"
        path.write_text(json.dumps(_job(framework, device)))
        command = [str(interpreter.python), "-m", "bench.bare_loop", framework, str(path)]
        with told.open("wb") as output:
            process = subprocess.Popen(
                ["taskset", "-c", cores, *command],
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=subprocess.DEVNULL,
            )

        def steps() -> list[float]:
            return [float(line) for line in told.read_text().splitlines()]

        try:
            until(lambda: len(steps()) >= WARM_UP_STEPS or process.poll() is not None, START_S, 1.0)
            yield Side(lambda: [process.pid], steps)
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def _job(framework: str, device: dict[str, Any]) -> dict[str, Any]:
    """As much of a job as the model's ``build`` reads."""
    plan = Plan(
        model="resnet-50",
        options=(),
        framework=framework,
        strategy="single",
        interpreter=framework,
        topology=Topology(1, 1),
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


def measure_mxnet(service: Service, pairs: int) -> Ratio:
    return _measure(service, "mxnet", pairs)


def measure_cntk(service: Service, pairs: int) -> Ratio:
    return _measure(service, "cntk", pairs)


def measure_control(service: Service, pairs: int) -> Ratio:
    """The bare loop against itself: what the method finds where there is nothing to be found."""
    with bare(service, "pytorch") as one:
        one.freeze()
        with bare(service, "pytorch") as other:
            return _in_slices("bare loop / bare loop, ResNet-50 in pytorch", "1 inside", one, other, pairs)


def _measure(service: Service, framework: str, pairs: int) -> Ratio:
    with bare(service, framework) as without:
        without.freeze()
        with under_tbd(service, framework) as under:
            name = f"throughput under tbd / bare loop, ResNet-50 in {framework}"
            return _in_slices(name, "lower bound >= 0.98", under, without, pairs)


def _in_slices(name: str, wanted: str, a: Side, b: Side, pairs: int) -> Ratio:
    take_turns(a, b, pairs)
    return ratio(name, wanted, in_blocks(speeds(a)), in_blocks(speeds(b)))
