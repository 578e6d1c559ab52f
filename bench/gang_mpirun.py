"""Gang start to the end of CNTK's first step on two devices of this machine under tbd / by mpirun, on the same cores.

As ``gang_one_node``, which is about torchrun. To its end, because nothing else makes rank 0 wait for the other by hand:
CNTK has each rank sleep half a second more than the one before when it begins (MPIWrapper), and under tbd no rank takes
its first step before all are there.
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from bench import gang_start_up
from bench.ratio import Ratio, in_turn, ratio
from tests.support.service import Service
from workers.node.interpreters import resolve

SPEC = {"framework": "cntk", "strategy": "mpi", "topology": "1x2"}


def measure(service: Service, pairs: int) -> Ratio:
    """The ratio; the first of each kind is a warm-up that does not count."""
    seeds = iter(range(1, 10_000))
    under_tbd_s(service, next(seeds))
    by_hand_s(service)
    a, b = in_turn(pairs, lambda: under_tbd_s(service, next(seeds)), lambda: by_hand_s(service))
    return ratio("gang start to first step's end, 1x2 mpi / mpirun by hand", "<= 1.5", a, b)


def under_tbd_s(service: Service, seed: int) -> float:
    return gang_start_up.first_step_s(service, {**SPEC, "seed": seed}, done=True)


def by_hand_s(service: Service) -> float:
    """mpirun with two processes, each pinned to the cores of a device and with as many threads as under tbd."""
    devices = service.call("GET", "/api/v1/nodes")["items"][0]["devices"]
    interpreter = resolve("cntk")
    threads = {"OMP_NUM_THREADS": str(len(devices[0]["cores"])), "PYTHONPATH": str(gang_start_up.ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(gang_start_up.job_for_hand()))
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "--mca", "pml", "ob1"]
        for index, device in enumerate(devices[:2]):
            pinned = ["taskset", "-c", ",".join(map(str, device["cores"])), str(interpreter.python)]
            command += [":"] * (index > 0) + ["-np", "1", *pinned, "-m", "bench.bare_gang_cntk", str(path)]
        began = time.time()
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **interpreter.environment, **threads},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
    return float(done.stdout.split()[-1]) - began
