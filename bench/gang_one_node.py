"""Gang start to first step of a run on two devices of this machine under tbd / the same by torchrun, on the same cores.

As ``gang_start_up``, but without hosts of its own: it needs no rights, and no network is between the ranks.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import gang_start_up
from bench.ratio import Ratio, in_turn, ratio
from tests.support.service import Service, running_service
from workers.node.interpreters import resolve
from workers.node.port_choice import free_port


@contextmanager
def rig() -> Iterator[Service]:
    """A service on a node of two CPU devices."""
    with running_service(TBD_CPU_DEVICES="2") as service:
        yield service


def measure(service: Service, pairs: int) -> Ratio:
    """The ratio; the first of each kind is a warm-up that does not count."""
    seeds = iter(range(1, 10_000))
    under_tbd_s(service, next(seeds))
    by_hand_s(service)
    a, b = in_turn(pairs, lambda: under_tbd_s(service, next(seeds)), lambda: by_hand_s(service))
    return ratio("gang start to first step, 1x2 ddp / torchrun by hand", "<= 1.5", a, b)


def under_tbd_s(service: Service, seed: int) -> float:
    return gang_start_up.first_step_s(service, {"topology": "1x2", "seed": seed})


def by_hand_s(service: Service) -> float:
    """torchrun with two processes, pinned to the cores of both devices and with as many threads each as under tbd."""
    devices = service.call("GET", "/api/v1/nodes")["items"][0]["devices"]
    cores = [core for device in devices for core in device["cores"]]
    place = ["--nnodes=1", "--nproc-per-node=2", "--master-addr=127.0.0.1", f"--master-port={free_port()}"]
    threads = {"OMP_NUM_THREADS": str(len(devices[0]["cores"])), "GLOO_SOCKET_IFNAME": "lo"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(gang_start_up.job_for_hand()))
        command = [str(resolve("pytorch").python), "-m", "torch.distributed.run", *place]
        began = time.time()
        done = subprocess.run(
            ["taskset", "-c", ",".join(map(str, cores)), *command, "-m", "bench.bare_gang", str(path)],
            cwd=gang_start_up.ROOT,
            env={**os.environ, **threads, "TORCH_CPP_LOG_LEVEL": "ERROR"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
    return float(done.stdout.split()[-1]) - began
