"""Records the logs of this folder anew, on this host, by real processes: see README.md for what each shows.

    python -m tests.replays.record NAME... --into FOLDER

Needs the interpreters that a log names (``tbd frameworks install``). No test runs it: a log once recorded stays.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from orchestrator.domain.asked.placement import Device, NodeShare, Placement
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.run import Attempt, Run, RunState
from orchestrator.services.clock import new_id, new_token
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.reconcile.job import build_job
from workers.node import interpreters
from workers.node.inventory import Inventory
from workers.node.telemetry.nvml import Nvml

Job = dict[str, Any]
NODE_COMMAND = [sys.executable, "-m", "workers.node"]


def a_job(ranks: int = 1, **plan: Any) -> Job:
    """The job of a plan, on the devices of this host; each rank of a gang gets a core."""
    fields = {
        "model": "sleep",
        "options": {},
        "framework": "sleep",
        "strategy": "single" if ranks == 1 else "gang",
        "interpreter": "system",
        "topology": f"1x{ranks}",
        "fabric": None,
        "device": "cpu",
        "precision": "fp32",
        "per_device_batch_size": 4,
        "global_batch_size": 4 * ranks,
        "data": "synthetic",
        "size": "tiny",
        "seed": 1,
        "max_steps": 300,
        "timeout_s": 300.0,
        **plan,
    }
    here = Inventory(None, Path(tempfile.mkdtemp()), Nvml()).read()
    whole = Device.from_json(here["devices"][0])
    devices = [whole] if ranks == 1 else [_core_of(whole, rank) for rank in range(ranks)]
    placement = Placement((NodeShare(here["node"], tuple(devices)),))
    run = Run(new_id("run"), new_id("exp"), Plan.from_json(fields), RunState.RUNNING, time.time())
    attempt = Attempt(new_id("att"), run.id, 1, new_token(), placement, time.time())
    return build_job(run, attempt, load_catalog())


def _core_of(device: Device, rank: int) -> Device:
    core = device.cores[rank % len(device.cores)]
    return Device(f"cpu:{core}", "cpu", device.name, (core,), device.memory_bytes)


def resnet(**plan: Any) -> Job:
    """ResNet-50 of the size ``tiny`` under PyTorch."""
    batch = plan.pop("batch", 8)
    sizes = {"per_device_batch_size": batch, "global_batch_size": batch}
    return a_job(model="resnet-50", framework="pytorch", interpreter="pytorch", **sizes, **plan)


def lstm(**plan: Any) -> Job:
    """The LSTM classifier of the size ``small`` under PyTorch."""
    sizes = {"per_device_batch_size": 8, "global_batch_size": 8}
    return a_job(model="lstm-classifier", framework="pytorch", interpreter="pytorch", size="small", **sizes, **plan)


def sleeping(ranks: int = 1, **options: Any) -> Job:
    """The model that waits, 20 ms a step unless ``options`` say otherwise."""
    limits = {name: options.pop(name) for name in ("max_steps", "timeout_s") if name in options}
    return a_job(ranks, options={"step_time_s": 0.02, "noise_ratio": 0.02, **options}, **limits)


def diverging() -> Job:
    """A real training with a learning rate that no training survives."""
    job = resnet()
    job["model"] = {**job["model"], "optimizer": {**job["model"]["optimizer"], "learning_rate": 1e4}}
    return job


def without_interpreter() -> Job:
    job = resnet()
    job["interpreter"]["python"] = "/opt/tbd/no-such-interpreter/bin/python"
    return job


# Keras 3 goes with TensorFlow 2.15 too, if it is installed after it (Keras, "Getting started": compatibility).
KERAS_3 = ("keras==3.3.3", "rich==15.0.0", "markdown-it-py==4.3.0", "mdurl==0.1.2", "pygments==2.21.0", "namex==0.1.0")


def keras_fit() -> Job:
    """Two ranks of ``keras_fit.Adapter``: the interpreter ``horovod`` with a Keras 3 in front."""
    python = interpreters.install("horovod").python
    folder = Path(tempfile.mkdtemp(prefix="tbd-keras-3-"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder / "packages")]
    subprocess.run([*command, *KERAS_3, "optree==0.20.0"], check=True)
    script = folder / "python"
    variant = Path(__file__).with_name("keras_fit.py")
    paths = f'PYTHONPATH="{folder / "packages"}:$PYTHONPATH"'
    script.write_text(f'#!/bin/sh\n{paths} exec {python} {variant} "$@"\n')
    script.chmod(0o755)
    job = a_job(
        2,
        model="resnet-50",
        framework="tensorflow",
        strategy="horovod",
        interpreter="horovod",
        global_batch_size=8,
        max_steps=40,
    )
    job["interpreter"]["python"] = str(script)
    return job


JOBS: dict[str, Callable[[], Job]] = {
    "good_pytorch": lambda: resnet(max_steps=350, batch=2),
    "disturbed_lstm": lambda: lstm(max_steps=400),
    "good_sleep": lambda: sleeping(max_steps=250),
    "good_gang": lambda: sleeping(ranks=2),
    "nan_pytorch": diverging,
    "out_of_memory_pytorch": lambda: resnet(batch=1024, size="full"),
    "killed_rank": lambda: sleeping(ranks=2),
    "hanging_rank": lambda: sleeping(ranks=2, fault="hang", fault_rank=1, fault_step=30, timeout_s=6.0),
    "crashed": lambda: sleeping(fault="crash", fault_step=20),
    "garbage": lambda: sleeping(fault="garbage", fault_step=20),
    "without_interpreter": without_interpreter,
    "keras_fit": keras_fit,
    "cancelled": sleeping,
    "agent_killed": sleeping,
    "agent_restarted": sleeping,
    "foreign_load": lambda: resnet(max_steps=300),
    "two_speeds": lambda: sleeping(fault="unsteady", max_steps=150),
    "drifting": lambda: sleeping(fault="drift", max_steps=150),
    "too_short": lambda: sleeping(max_steps=30),
}


def kill_second_rank(agent: subprocess.Popen[bytes], log: Path) -> None:
    started = [entry["data"] for entry in _entries(log) if entry["kind"] == "process_started"]
    os.kill(started[1]["pid"], signal.SIGKILL)


def burn(agent: subprocess.Popen[bytes], log: Path) -> None:
    """Keep a core busy with something else for a while."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        time.sleep(6.0)
        other.kill()


# What happens to a run from outside, once it has trained for a second.
BAD_LUCK: dict[str, Callable[[subprocess.Popen[bytes], Path], None]] = {
    "killed_rank": kill_second_rank,
    "cancelled": lambda agent, log: agent.send_signal(signal.SIGINT),
    "agent_killed": lambda agent, log: agent.kill(),
    "agent_restarted": lambda agent, log: agent.kill(),
    "foreign_load": burn,
}
# Address space, where the host is to be short of memory.
LIMITS_BYTES = {"out_of_memory_pytorch": 8 * 2**30}


def record(name: str, into: Path) -> None:
    """Carry the job out as ``python -m workers.node`` does, and keep its log."""
    log = into / f"{name}.jsonl"
    if log.exists():
        raise FileExistsError(f"{log} exists: a log is never written over")
    with tempfile.TemporaryDirectory() as folder:
        if name == "agent_restarted":
            record_restart(Path(folder), log)
            return
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(JOBS[name]()))
        limit = [f"--as={LIMITS_BYTES[name]}"] if name in LIMITS_BYTES else []
        command = ["prlimit", *limit, *NODE_COMMAND, str(path), "--events", str(log)]
        with subprocess.Popen(command) as agent:
            if name in BAD_LUCK:
                _wait_for_steps(log)
                BAD_LUCK[name](agent, log)
    Path(f"{log}.reserve").unlink(missing_ok=True)


def record_restart(folder: Path, log: Path) -> None:
    """An agent dies in the middle of an attempt; the next one on its directory ends and closes what it finds."""
    from workers.node.server import AgentClient

    job = JOBS["agent_restarted"]()
    served = folder / "agent" / job["attempt_id"] / "log.jsonl"
    socket = folder / "socket"
    command = [*NODE_COMMAND, "serve", "--directory", str(folder / "agent"), "--socket", str(socket)]
    with subprocess.Popen([*command, "--node", job["processes"][0]["node"]]) as agent:
        _until(socket.exists)
        AgentClient(socket).start(job)
        _wait_for_steps(served)
        agent.kill()
    with subprocess.Popen([*command, "--node", job["processes"][0]["node"]]) as agent:
        _until(lambda: _entries(served)[-1]["kind"] == "log_closed")
        shutil.copy(served, log)
        agent.terminate()


def _wait_for_steps(log: Path) -> None:
    _until(lambda: sum(entry["kind"] == "interval" for entry in _entries(log)) >= 20)
    time.sleep(1.0)


def _until(condition: Callable[[], bool], patience_s: float = 60.0) -> None:
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("it did not happen")
        threading.Event().wait(0.05)


def _entries(log: Path) -> list[dict[str, Any]]:
    lines = log.read_text().split("\n")[:-1] if log.exists() else []
    return [json.loads(line) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(JOBS))
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()
    for name in options.names or JOBS:
        print(f"== {name}", file=sys.stderr)
        record(name, options.into)


if __name__ == "__main__":
    main()
