"""Jobs for the model that waits, and what tests of a node ask of their logs."""

import os
import time
import tomllib
import uuid
from pathlib import Path

from workers.trainer import protocol

ROOT = Path(__file__).resolve().parents[2]
NODE = "node-1"
# Options of steps that last a while; a job of ``a_job`` has no length, so that only ``max_steps`` ends it.
UNEVEN = {"step_time_s": 0.01, "noise_ratio": 0.5}


def a_job(ranks=1, **changes):
    """A job for the model that waits; ``changes`` go into the plan, ``options`` and ``timeout_s`` among them."""
    facts = tomllib.loads((ROOT / "suites/models/sleep/model.toml").read_text())
    plan = a_plan(ranks, **changes)
    return {
        "protocol": protocol.PROTOCOL_VERSION,
        "attempt_id": "attempt-" + uuid.uuid4().hex[:12],
        "run_id": "run-1",
        "token": uuid.uuid4().hex,
        "plan": plan,
        "model": {**facts, "module": "suites.models.sleep"},
        "dataset": None,
        "interpreter": {"name": "system", "definition": None, "python": None, "environment": {}},
        "processes": [a_worker(rank) for rank in range(ranks)],
        "world_size": ranks,
        "control": {"host": "127.0.0.1", "port": None},
        "stopping": {
            "intervals": None,
            "max_steps": plan["max_steps"],
            "max_duration_s": None,
        },
        "interval_s": 0.0,
        "sample_s": 0.1,
    }


def a_plan(ranks, **changes):
    """A plan for the model that waits."""
    return {
        "model": "sleep",
        "options": {"step_time_s": 0.002},
        "framework": "sleep",
        "strategy": "gang" if ranks > 1 else "single",
        "interpreter": "system",
        "topology": f"1x{ranks}",
        "fabric": None,
        "device": "cpu",
        "precision": "fp32",
        "per_device_batch_size": 4,
        "global_batch_size": None,
        "data": "synthetic",
        "size": "tiny",
        "seed": 1,
        "mode": "throughput",
        "max_steps": 40,
        "profile": [],
        "timeout_s": 60,
        "repetition": 0,
        **changes,
    }


def a_worker(rank):
    """The worker of ``rank`` on a core of its own, where there are cores enough."""
    cores = sorted(os.sched_getaffinity(0))
    device = {
        # An id that no other test and no running service locks.
        "id": f"cpu:test-{uuid.uuid4().hex[:8]}",
        "kind": "cpu",
        "name": "a cpu",
        "cores": [cores[rank % len(cores)]],
        "memory_bytes": None,
    }
    return {
        "name": f"worker{rank}",
        "role": "worker",
        "node": NODE,
        "ranks": [rank],
        "local_ranks": [rank],
        "devices": [device],
    }


def waiting_for(step, **more):
    """Options of the model that waits for a fault at ``step``."""
    return {"step_time_s": 0.002, "fault_step": step, **more}


def log_of(agent, job, patience_s=60):
    """Fetch the log of ``job`` as an orchestrator would, until it is closed; return its entries."""
    entries = []
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        after = entries[-1]["seq"] if entries else 0
        agent.wait({job["attempt_id"]: after}, 5.0)
        answer = agent.fetch(job["attempt_id"], after, 100)
        entries += answer["entries"]
        if answer["ended"] and len(entries) == answer["last_seq"]:
            return entries
    raise AssertionError(f"not ended after {patience_s} s; so far: {[entry['kind'] for entry in entries]}")


def carried_out(agent, job):
    assert agent.start(job)["state"] == "running"
    return log_of(agent, job)


def until(condition, patience_s=90):
    deadline = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def kinds(entries):
    return [entry["kind"] for entry in entries]


def of_kind(entries, kind):
    return [entry["data"] for entry in entries if entry["kind"] == kind]


def failure_of(entries):
    return entries[-1]["data"]["failure"]


def steps_begin(agent, job):
    until(lambda: "interval" in kinds(agent.fetch(job["attempt_id"])["entries"]))
