"""The clusters under test, and the jobs they carry out: real agents, real processes, the model that only waits."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from orchestrator.cluster.local import LocalCluster
from orchestrator.cluster.ray_cluster import RayCluster
from orchestrator.cluster.records import ROOT
from orchestrator.domain.asked.placement import Node, NodeShare, NodeState, Placement
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.topology import Topology
from orchestrator.domain.ports import Cluster
from orchestrator.domain.runs.log import LogSlice
from orchestrator.domain.runs.run import Attempt, Run, RunState
from orchestrator.domain.words.errors import NodeUnreachable
from orchestrator.services.facts.catalog import load_catalog
from orchestrator.services.reconcile.job import build_job
from workers.node import processes
from workers.node.processes import ProcessId

Value = TypeVar("Value")

FENCE_S = 20.0
IDLE_EXIT_S = 120.0
PATIENCE_S = 90.0
FOREVER = 1_000_000


def make_cluster(kind: str, directory: Path) -> Cluster:
    if kind == "local":
        return LocalCluster(directory, FENCE_S, IDLE_EXIT_S)
    return RayCluster(None, directory, FENCE_S, IDLE_EXIT_S)


def sleep_job(node: Node, max_steps: int = 20, step_time_s: float = 0.01) -> dict[str, Any]:
    """A job that waits ``max_steps`` times on the first CPU device of ``node``."""
    device = node.devices_of("cpu")[0]
    plan = Plan(
        model="sleep",
        options=(("build_time_s", 0.0), ("fault", "none"), ("noise_ratio", 0.0), ("step_time_s", step_time_s)),
        framework="sleep",
        strategy="single",
        interpreter="system",
        topology=Topology(1, 1),
        fabric=None,
        device="cpu",
        precision="fp32",
        per_device_batch_size=1,
        global_batch_size=1,
        data="synthetic",
        size="full",
        seed=1,
        max_steps=max_steps,
        timeout_s=300.0,
    )
    unique = uuid.uuid4().hex
    placement = Placement((NodeShare(node.name, (device,)),))
    attempt = Attempt(f"att_{unique}", f"run_{unique}", 1, f"token-{unique}", placement, time.time())
    job = build_job(Run(attempt.run_id, "exp_1", plan, RunState.PLACING, time.time()), attempt, load_catalog())
    return json.loads(json.dumps(job)) | {"stopping": dict(job["stopping"]) | {"intervals": None}}


def endless_job(node: Node) -> dict[str, Any]:
    return sleep_job(node, max_steps=FOREVER, step_time_s=0.02)


def eventually(what: Callable[[], Value], patience_s: float = PATIENCE_S) -> Value:
    """The first true answer of ``what``."""
    deadline = time.monotonic() + patience_s
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"did not happen within {patience_s} s"
        time.sleep(0.05)


def available(cluster: Cluster) -> Node:
    """The first node, once it answers."""

    def look() -> Node | None:
        return next((node for node in cluster.nodes() if node.state is NodeState.AVAILABLE), None)

    return eventually(look)  # type: ignore[return-value]


def follow(cluster: Cluster, node: str, attempt_id: str, after: int = 0) -> Iterator[Mapping[str, Any]]:
    """The entries of a log as they come, to its end."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            part: LogSlice = cluster.fetch(node, attempt_id, after, limit=7)
        except NodeUnreachable:  # on a busy machine it may answer too late: the service asks again as well
            assert time.monotonic() < deadline
            continue
        yield from part.entries
        after = part.entries[-1]["seq"] if part.entries else after
        if part.ended and after == part.last_seq:
            return
        assert time.monotonic() < deadline
        if not part.entries:
            cluster.wait({node: {attempt_id: after}}, 1.0)


def first(cluster: Cluster, node: str, attempt_id: str, kind: str) -> Mapping[str, Any]:
    """The first entry of ``kind``; waits for it."""
    last: Mapping[str, Any] = {}
    for last in follow(cluster, node, attempt_id):
        if last["kind"] == kind:
            return last
    raise AssertionError(f"the log ended without {kind}: {last}")


def trainer_of(cluster: Cluster, node: str, attempt_id: str) -> ProcessId:
    data = first(cluster, node, attempt_id, "process_started")["data"]
    return ProcessId(data["pid"], data["start_ticks"])


def agent_of(trainer: ProcessId) -> ProcessId:
    """The agent that started ``trainer``: its parent."""
    facts = processes.stat(trainer.pid)
    assert facts is not None
    agent = processes.identify(facts.parent)
    assert agent is not None
    return agent


def kill(process: ProcessId) -> None:
    os.kill(process.pid, signal.SIGKILL)


def dead(process: ProcessId) -> bool:
    return not processes.alive(process)


_SERVER = """
import json, sys, time
from pathlib import Path
from tests.contract.cluster_rigs import available, make_cluster
cluster = make_cluster(sys.argv[1], Path(sys.argv[2]))
job = json.loads(sys.argv[3])
cluster.start(available(cluster).name, job)
print("started", flush=True)
time.sleep(600)
"""


def server_process(kind: str, directory: Path, job: Mapping[str, Any]) -> "subprocess.Popen[str]":
    """A process of its own that holds the cluster and has started ``job``."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER, kind, str(directory), json.dumps(job)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "started":
            return process
    raise AssertionError(f"the server ended with status {process.wait()}")
