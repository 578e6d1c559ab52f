"""A Ray that others use too: a run computes on the GPUs that Ray has given, and on no others."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

from tests.gpu.lab.machine import Machine, needs_compiler
from tests.gpu.lab.test_service import SPEC, gpus_of, offered
from tests.integration.service_rig import environment
from tests.support.service import Service, until
from workers.node.port_choice import free_port

pytestmark = [needs_compiler, pytest.mark.after_change]

# Somebody who computes in Ray: takes a GPU and says by which number Ray calls it.
SOMEBODY = """
import sys, time, ray
ray.init(address=sys.argv[1], namespace="somebody", logging_level="ERROR", log_to_driver=False)
@ray.remote(num_gpus=1, num_cpus=0)
class Somebody:
    def gpus(self):
        return ray.get_gpu_ids()
somebody = Somebody.remote()
print(ray.get(somebody.gpus.remote())[0], flush=True)
time.sleep(600)
"""


@pytest.fixture
def rig(tmp_path):
    """(machine, service, a function that starts somebody else in the same Ray): a host with four GPUs, where Ray was
    started first."""
    machine = Machine(tmp_path, 4)
    around = environment(tmp_path, RAY_USAGE_STATS_ENABLED="0", **machine.environment)
    around.pop("CUDA_VISIBLE_DEVICES", None)
    del around["TBD_CLUSTER"]
    address = f"127.0.0.1:{free_port()}"
    short = tempfile.mkdtemp(prefix="ray-")  # Ray's sockets lie in it: 107 bytes are the longest path of one
    words = ["--head", "--node-ip-address=127.0.0.1", f"--port={address.rpartition(':')[2]}", "--num-cpus=2"]
    words += ["--include-dashboard=false", f"--temp-dir={short}", "--disable-usage-stats"]
    ray = subprocess.Popen([sys.executable, "-m", "orchestrator.cluster.ray_node", *words], env=around)
    others = []

    def somebody():
        command = [sys.executable, "-c", SOMEBODY, address]
        others.append(subprocess.Popen(command, env=around, stdout=subprocess.PIPE, text=True))
        return int(others[-1].stdout.readline()), others[-1]

    service = None
    try:
        until(lambda: _listens(address), 60, 0.2)
        service = Service(tmp_path / "data", **around, TBD_RAY_ADDRESS=address).start()
        yield machine, service, somebody
    finally:
        if service is not None:
            service.stop()
        for process in others:
            process.kill()
            process.communicate()
        ray.send_signal(signal.SIGTERM)
        ray.wait(60)
        shutil.rmtree(short, ignore_errors=True)


def _listens(address):
    host, _, port = address.rpartition(":")
    with socket.socket() as one:
        return one.connect_ex((host, int(port))) == 0


def visible_to(run):
    """CUDA_VISIBLE_DEVICES of the run's process, once it lives."""

    def look():
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if any(word.startswith(b"TBD_ATTEMPT_TOKEN=") for word in words) and _of(run["attempts"][-1]["id"], pid):
                return next(word for word in words if word.startswith(b"CUDA_VISIBLE_DEVICES=")).decode()
        return None

    return until(look, 30, 0.05)


def _of(attempt, pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return attempt.encode() in file.read()
    except OSError:
        return False


def test_a_run_computes_on_the_gpus_that_ray_gives_and_waits_where_ray_has_none(rig):
    machine, service, somebody = rig
    number, process = somebody()
    offered(service, 4)
    experiment = service.submit({**SPEC, "topology": "1x3", "max_steps": 150})
    until(lambda: service.runs(experiment)[0]["state"] == "running", 60, 0.1)
    (run,) = service.runs(experiment)
    given = [one for index, one in enumerate(machine.uuids) if index != number]
    assert sorted(gpus_of(run)) == sorted(given)
    assert visible_to(run) in {f"CUDA_VISIBLE_DEVICES={uuid}" for uuid in given}
    assert [run["state"] for run in service.wait(experiment, 60)] == ["completed"]

    waiting = service.submit({**SPEC, "topology": "1x4", "seed": 2})
    until(lambda: "another user of Ray" in (service.runs(waiting)[0]["reason"] or ""), 30)
    process.kill()
    assert [run["state"] for run in service.wait(waiting, 60)] == ["completed"]
