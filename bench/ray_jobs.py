"""``sleep`` runs begun a second, of 20 that wait / jobs of ``date`` begun a second of 20 that ``ray job submit`` has
sent, on the same Ray. Ray's jobs want packages that tbd does without, from ``ray_jobs.txt``; each process of Ray sees
them."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.ratio import Ratio, in_turn, ratio
from bench.start_up import SLEEP
from tests.cluster.unit_keeper import environment_of
from tests.faults.ray_apart import UNIT, ray_apart
from tests.support.service import Service, running_service, seconds, until
from workers.node.port_choice import free_port

RUNS = 20
PACKAGES = Path(__file__).with_name("ray_jobs.txt")

# Sends so many jobs by what the command calls, so that nobody waits for as many Pythons to begin; prints the seconds
# from the first call to the begin of the last job. Each says that itself: what Ray calls its start is when it was sent.
_JOBS = """
import pathlib, sys, tempfile, time
from ray.job_submission import JobStatus, JobSubmissionClient
client, folder = JobSubmissionClient(sys.argv[1]), tempfile.TemporaryDirectory()
files, began = [pathlib.Path(folder.name) / str(number) for number in range(int(sys.argv[2]))], time.time()
jobs = [client.submit_job(entrypoint=f"date +%s.%N > {file}", entrypoint_num_cpus=1) for file in files]
while not all(client.get_job_status(one).is_terminal() for one in jobs):
    time.sleep(0.2)
assert all(client.get_job_status(one) == JobStatus.SUCCEEDED for one in jobs)
print(max(float(file.read_text()) for file in files) - began)
"""


@dataclass(frozen=True)
class Both:
    """``around``: the environment of whoever asks Ray for jobs, at ``jobs``."""

    service: Service
    around: dict[str, str]
    jobs: str


def untrimmed(params: Any, head: bool) -> None:
    """What ``ray start`` calls in place of tbd's own, which leaves the dashboard out."""


@contextmanager
def rig() -> Iterator[Both]:
    with tempfile.TemporaryDirectory(prefix="tbd-bench-") as place:
        folder, port = Path(place), free_port()
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder / "packages"), "-r", str(PACKAGES)], check=True)
        options = environment_of((UNIT / "tbd.env").read_text())["RAY_START_OPTIONS"]
        # Its dashboard is what takes jobs.
        own = {
            "PYTHONPATH": f"{folder / 'packages'}{os.pathsep}{Path(__file__).parents[1]}",
            "RAY_START_HOOK": "bench.ray_jobs.untrimmed",
            "RAY_START_OPTIONS": f"{options} --include-dashboard=true --dashboard-port={port}",
        }
        with ExitStack() as stack:
            around = stack.enter_context(ray_apart(folder, **own))
            around.pop("TBD_DATA_DIR", None)
            service = stack.enter_context(running_service(Service, **around, TBD_CPU_DEVICES="2"))
            until(lambda: service.call("GET", "/api/v1/nodes")["items"], 120.0, 0.5)
            yield Both(service, around, f"http://127.0.0.1:{port}")


def measure(both: Both, pairs: int) -> Ratio:
    """The ratio; the first of each does not count."""

    def begun_s() -> float:
        spec: dict[str, Any] = SLEEP | {"repeats": RUNS, "max_repeats": RUNS, "max_steps": 1, "exclusive": "device"}
        began = time.time()
        runs = both.service.wait(both.service.submit(spec), 600.0, 0.5)
        return RUNS / (max(seconds(one["attempts"][0]["started_at"]) for one in runs) - began)

    def jobs_s() -> float:
        command = [sys.executable, "-c", _JOBS, both.jobs, str(RUNS)]
        done = subprocess.run(command, env={**os.environ, **both.around}, check=True, stdout=subprocess.PIPE, text=True)
        return RUNS / float(done.stdout.splitlines()[-1])

    begun_s()
    jobs_s()
    return ratio("sleep runs begun a second / jobs of Ray", ">= 10", *in_turn(pairs, begun_s, jobs_s))
