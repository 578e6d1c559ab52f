"""For tests: jobs for the trainer, and running its processes for real."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

from workers.node import interpreters
from workers.node.port_choice import free_port
from workers.trainer import protocol
from workers.trainer.base import job as jobs

ROOT = Path(__file__).resolve().parent.parent
TOKEN = "token-of-this-attempt"
_BEGIN = "import runpy; runpy.run_module('workers.trainer', run_name='__main__', alter_sys=True)"


def model_facts(folder):
    """Return the facts of ``suites/models/<folder>`` as a job carries them."""
    facts = tomllib.loads((ROOT / "suites/models" / folder / "model.toml").read_text())
    return {**facts, "module": "suites.models." + folder}


def dataset_facts(folder, root):
    facts = tomllib.loads((ROOT / "suites/datasets" / folder / "dataset.toml").read_text())
    return {**facts, "module": "suites.datasets." + folder, "root": str(root)}


def make_job(folder, framework, ranks=1, dataset=None, device="cpu", lock_dir=None, **plan):
    """Return a whole job for ``ranks`` processes of one rank each; ``plan`` overrides its plan."""
    defaults = {
        "framework": framework,
        "strategy": "single" if ranks == 1 else "gang",
        "topology": f"1x{ranks}",
        "device": device,
        "precision": "fp32",
        "per_device_batch_size": 4,
        "data": dataset["name"] if dataset else "synthetic",
        "size": "tiny",
        "seed": 1,
        "max_steps": 6,
        "options": {},
        "timeout_s": 60.0,
        "repetition": 0,
    }
    return {
        "protocol": protocol.PROTOCOL_VERSION,
        "attempt_id": "a1",
        "run_id": "r1",
        "token": TOKEN,
        "plan": {**defaults, **plan},
        "model": model_facts(folder),
        "dataset": dataset,
        "interpreter": {"name": framework, "definition": None, "python": None, "environment": {}},
        "processes": [_process(rank, device) for rank in range(ranks)],
        "world_size": ranks,
        "control": {"host": "127.0.0.1", "port": free_port()},
        "stopping": {"max_steps": 1000},
        "interval_s": 0.0,
        "sample_s": 1.0,
        "lock_dir": str(lock_dir) if lock_dir else None,
    }


def read_job(folder, framework, changes=None, **more):
    """Return the job of ``make_job``, with ``changes`` to its keys, as a process of it reads it."""
    return jobs.job_of({**make_job(folder, framework, **more), **(changes or {})})


def _process(rank, kind):
    device = {"id": f"here/{kind}:{rank}", "kind": kind, "name": "it", "cores": [0], "memory_bytes": 1}
    return {
        "name": f"worker-{rank}",
        "role": "worker",
        "node": "here",
        "ranks": [rank],
        "local_ranks": [rank],
        "devices": [device],
    }


class Trainer:
    """One process of a job, started by ``python``, in which the lines of ``planted`` run first."""

    def __init__(self, job, folder, python=sys.executable, process="worker-0", phase="train", planted=()):
        self.events_path = folder / (process + ".jsonl")
        job_path = folder / (process + ".json")
        job_path.write_text(json.dumps({**job, "process": process}))
        begin = ["-c", "\n".join([*planted, _BEGIN])] if planted else ["-m", "workers.trainer"]
        command = [python, *begin, "--job", str(job_path), "--events", str(self.events_path), "--phase", phase]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), protocol.TOKEN_VARIABLE: job["token"]}
        environment.update(environment_for(python), PYTHONDONTWRITEBYTECODE="1")
        # A file and no pipe: a grandchild that is left behind would keep a pipe open.
        self._output = folder / (process + ".out")
        with self._output.open("wb") as output:
            self.popen = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)

    def finish(self, timeout_s=600.0):
        """Wait for the end, also on a host that is busy with much else; return the exit status."""
        try:
            return self.popen.wait(timeout_s)
        finally:
            self.popen.kill()

    @property
    def output(self):
        """What it printed."""
        return self._output.read_text(errors="replace")

    def lines(self):
        return self.events_path.read_text().splitlines() if self.events_path.exists() else []

    def events(self):
        """Return its events, each checked against the protocol."""
        return [protocol.check_event(json.loads(line)) for line in self.lines()]

    def data(self, kind):
        """Return the data of all events of ``kind``."""
        return [event["data"] for event in self.events() if event["kind"] == kind]


def environment_for(python):
    """Return what the definition of the interpreter ``python`` puts into the environment of its processes."""
    return next((found.environment for found in interpreters.all_resolved() if found.python == python), {})


def run(job, folder, python=sys.executable, phase="train", planted=()):
    """Run all processes of ``job`` to their ends; return them."""
    trainers = [Trainer(job, folder, python, process["name"], phase, planted) for process in job["processes"]]
    for trainer in trainers:
        trainer.finish()
    return trainers


def tell(job, message):
    """Say ``message`` to rank 0 as the node agent does."""
    address = (job["control"]["host"], job["control"]["port"])
    hello = {"token": job["token"], "role": "agent"}
    with socket.create_connection(address, timeout=10.0) as connection, contextlib.suppress(OSError):
        connection.sendall("".join(json.dumps(line) + "\n" for line in (hello, message)).encode())
        connection.settimeout(10.0)
        connection.recv(1)


def python36():
    """Return a Python 3.6 of this machine, or None: ``python3.6`` on PATH or one that pyenv has."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which("python3.6"), *sorted(map(str, home.glob("versions/3.6*/bin/python")))]
    for python in candidates:
        # A shim of pyenv may be there and lead nowhere.
        if python and subprocess.run([python, "-c", "pass"], capture_output=True, check=False).returncode == 0:
            return python
    return None
