"""Submit to first step of a ``sleep`` job on a warm service / creation of a bare Ray actor on the same cluster."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.ratio import Ratio, in_turn, ratio
from tests.support.service import Service, seconds

SLEEP = {
    "name": "bench-start-up",
    "model": "sleep",
    "framework": "sleep",
    "per_device_batch_size": 1,
    "size": "full",
    "repeats": 1,
    "max_repeats": 1,
    "max_steps": 20,
    "options": {"step_time_s": 0.001},
}

# Creates actors one at a time, on request; prints the seconds from the request to an actor that answers.
BARE_ACTOR = """
import sys, time, ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")

@ray.remote(num_cpus=0)
class Bare:
    def ready(self):
        return True

print("warm", flush=True)
for _ in sys.stdin:
    began = time.monotonic()
    actor = Bare.remote()
    ray.get(actor.ready.remote())
    print(time.monotonic() - began, flush=True)
    ray.kill(actor)
"""


def submit_to_first_step_s(service: Service, seed: int) -> float:
    """Seconds from just before the POST to the start of the first step, on the clock that both processes share."""
    began = time.time()
    run = service.run_one(SLEEP | {"seed": seed}, poll_s=0.1)
    first = service.call("GET", f"/api/v1/runs/{run['id']}/intervals?limit=1")["items"][0]
    return seconds(first["at"]) - float(first["duration_s"]) - began


def measure(service: Service, pairs: int) -> Ratio:
    """The ratio; the first of each kind is a warm-up that does not count."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(service.data_dir / "ray" / "token")}
    bare = subprocess.Popen(
        [sys.executable, "-c", BARE_ACTOR, ray_address(service.data_dir)],
        env={**os.environ, **token},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert bare.stdin is not None
    assert bare.stdout is not None
    sent, received = bare.stdin, bare.stdout
    received.readline()

    def bare_actor_s() -> float:
        sent.write("again\n")
        sent.flush()
        return float(received.readline())

    seeds = iter(range(1, 10_000))
    try:
        submit_to_first_step_s(service, next(seeds))
        bare_actor_s()
        a, b = in_turn(pairs, lambda: submit_to_first_step_s(service, next(seeds)), bare_actor_s)
    finally:
        sent.close()
        bare.wait(timeout=60)
    return ratio("submit to first step of a sleep job / bare Ray actor creation", "<= 0.5", a, b)


def ray_address(data_dir: Path) -> str:
    """The address of the service's embedded Ray, as its data directory records it."""
    for path in sorted((data_dir / "ray").glob("*.json")):
        record = json.loads(path.read_text())
        if "address" in record:
            return str(record["address"])
    raise RuntimeError(f"no record of an embedded Ray in {data_dir}")
