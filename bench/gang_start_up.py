"""Gang start to first step of a distributed run under tbd / the same by torchrun by hand, on the same two hosts.

The hosts are those of ``tests/cluster``. tbd's side begins when the attempt is recorded, before any agent is told; by
hand it begins just before torchrun is started on both hosts. Both end when rank 0 begins its first step.
"""

import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.ratio import Ratio, in_turn, ratio
from orchestrator.services.facts.catalog import load_catalog
from tests.cluster import hosts
from tests.cluster.bench import ROOT, Bench, Layout
from tests.support.service import Service, seconds
from workers.node.interpreters import resolve

HOSTS = ("one", "two")
PORT = 29400
MODEL = {"model": "resnet-50", "size": "tiny", "framework": "pytorch", "strategy": "ddp", "per_device_batch_size": 4}


@contextmanager
def rig() -> Iterator[Bench]:
    """A bench of hosts for as long as the block.

    Raises:
        RuntimeError: hosts cannot be made here.
    """
    reason = hosts.refusal()
    if reason:
        raise RuntimeError(reason)
    with contextlib.ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="tbd-", dir="/tmp"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        bench = Bench(folder, Layout.of_this_machine())
        stack.callback(bench.close)
        yield bench.start()


def measure(bench: Bench, pairs: int) -> Ratio:
    """The ratio; the first of each kind is a warm-up that does not count."""
    seeds = iter(range(1, 10_000))
    under_tbd_s(bench, next(seeds))
    by_hand_s(bench)
    a, b = in_turn(pairs, lambda: under_tbd_s(bench, next(seeds)), lambda: by_hand_s(bench))
    return ratio("gang start to first step, 2x1 ddp / torchrun by hand", "<= 1.5", a, b)


def under_tbd_s(bench: Bench, seed: int) -> float:
    return first_step_s(bench.service, {"topology": "2x1", "nodes": {"names": list(HOSTS)}, "seed": seed})


def first_step_s(service: Service, spec: Mapping[str, Any], *, done: bool = False) -> float:
    """Seconds from the attempt's record to the start, or the end, of rank 0's first step; ``spec`` says where."""
    once = {"name": "bench-gang", "repeats": 1, "max_repeats": 1, "max_steps": 3}
    run = service.run_one(MODEL | once | dict(spec), poll_s=0.5)
    intervals = service.all(f"/api/v1/runs/{run['id']}/intervals")
    (first,) = [one for one in intervals if one["rank"] == 0 and one["first_step"] == 1]
    before_s = 0.0 if done else float(first["duration_s"])
    return seconds(first["at"]) - before_s - seconds(run["attempts"][-1]["created_at"])


def by_hand_s(bench: Bench) -> float:
    job = bench.folder / "bare_gang.json"
    job.write_text(json.dumps(job_for_hand()))
    python = str(resolve("pytorch").python)
    leader = bench.hosts[HOSTS[0]].address()
    began = time.time()
    started = []
    for rank, name in enumerate(HOSTS):
        place = [f"--nnodes={len(HOSTS)}", f"--node-rank={rank}", f"--master-addr={leader}", f"--master-port={PORT}"]
        words = [python, "-m", "torch.distributed.run", *place, "-m", "bench.bare_gang", str(job)]
        environment = bench.environment(name) | {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
        environment |= {"PYTHONPATH": str(ROOT), "TORCH_CPP_LOG_LEVEL": "ERROR"}
        started.append(bench.hosts[name].start(*words, environment=environment))
    outputs = [process.communicate(timeout=300)[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"torchrun failed: {[process.returncode for process in started]}")
    return float(outputs[0].split()[-1]) - began


def job_for_hand() -> dict[str, Any]:
    """As much of a job as the model's ``build`` reads."""
    plan = {"options": {}, "seed": 1, "data": "synthetic", "global_batch_size": 8, "precision": "fp32", **MODEL}
    process = {"name": "worker0", "role": "worker", "node": "one", "ranks": [0], "local_ranks": [0], "devices": []}
    model = dict(load_catalog().models["resnet-50"].facts)
    return {"plan": plan, "model": model, "dataset": None, "processes": [process], "world_size": 2}
