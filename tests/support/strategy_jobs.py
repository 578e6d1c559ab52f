"""Jobs as the orchestrator lays them out for a framework's strategy, and carrying them out on this one host.

Several nodes of a job are several names of this host: their processes meet on 127.0.0.1.
"""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

from orchestrator.domain.asked.placement import Device, NodeShare, Placement
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.reconcile.job import processes_of
from tests.trainer_process import make_job, model_facts
from workers.node.port_choice import free_port
from workers.trainer import protocol

ROOT = Path(__file__).resolve().parents[2]


def strategy_job(framework: str, strategy: str, nodes: int = 1, devices: int = 1, **plan: Any) -> dict[str, Any]:
    """A job that trains ResNet-50 at its tiny size on ``nodes`` x ``devices`` CPU devices; ``plan`` overrides."""
    facts = load_catalog().frameworks[framework].strategies[strategy]
    placement = Placement(tuple(NodeShare(f"node-{n}", _devices(n, devices)) for n in range(nodes)))
    job = make_job(
        "resnet_50", framework, strategy=strategy, topology=f"{nodes}x{devices}", **{"timeout_s": 120.0, **plan}
    )
    places = _places(placement.nodes)
    return {
        **job,
        "attempt_id": "attempt-" + uuid.uuid4().hex[:12],
        "token": uuid.uuid4().hex,
        "model": model_facts("resnet_50"),
        "interpreter": {"name": facts.interpreter, "definition": None, "python": None, "environment": {}},
        "strategy": facts.to_job(),
        "nodes": places,
        "processes": processes_of(placement, facts),
        "world_size": nodes * devices,
        "control": {"host": "127.0.0.1", "port": places[0]["ports"]["control"]},
        "stopping": {
            "max_steps": job["plan"]["max_steps"],
            "intervals": None,
            "max_duration_s": None,
        },
        "sample_s": 0.5,
        "lock_dir": None,
    }


def _places(names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The nodes of a job, all of them this host, each with ports of its own."""
    taken: set[int] = set()
    places = []
    for name in names:
        control = free_port(taken)
        framework = free_port(taken | {control})
        taken |= {control, framework}
        places.append(protocol.local_node(name) | {"ports": {"control": control, "framework": framework}})
    return places


def _devices(node: int, count: int) -> tuple[Device, ...]:
    cores = sorted(os.sched_getaffinity(0))
    return tuple(
        Device(f"cpu:{uuid.uuid4().hex[:8]}", "cpu", "a cpu", (cores[(node * count + index) % len(cores)],))
        for index in range(count)
    )


class OnThisHost:
    """``python -m workers.node`` with one job; ``folder`` is new."""

    def __init__(self, job: dict[str, Any], folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        (folder / "job.json").write_text(json.dumps(job))
        self.log = folder / "out.jsonl"
        command = [sys.executable, "-m", "workers.node", str(folder / "job.json"), "--events", str(self.log)]
        self.said = ""
        self.popen = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)

    def finish(self, timeout_s: float = 150.0) -> str:
        """Wait for the end; return what was said on stderr."""
        try:
            return self.popen.communicate(timeout=timeout_s)[1]
        finally:
            self.popen.kill()

    def entries(self) -> list[dict[str, Any]]:
        """The log so far, each entry checked against the protocol."""
        lines = self.log.read_text().splitlines(keepends=True) if self.log.exists() else []
        return [protocol.check_event(json.loads(line)) for line in lines if line.endswith("\n")]

    def data(self, kind: str, source: str | None = None) -> list[dict[str, Any]]:
        """The data of all entries of ``kind``, or of those that one process wrote."""
        return [e["data"] for e in self.entries() if e["kind"] == kind and source in (None, e["source"])]

    def losses(self) -> dict[str, list[float]]:
        """The losses by process."""
        found: dict[str, list[float]] = {}
        for entry in self.entries():
            if entry["kind"] == "loss":
                found.setdefault(entry["source"], []).append(protocol.number(entry["data"]["value"]))
        return found

    def failure(self) -> dict[str, Any] | None:
        (closed,) = self.data("log_closed")
        return closed["failure"]


def carried_out(job: dict[str, Any], folder: Path) -> OnThisHost:
    """Carry out ``job`` to its end."""
    attempt = OnThisHost(job, folder)
    attempt.said = attempt.finish()
    return attempt
