"""For tests: jobs of several ranks for any framework and strategy, laid out as the orchestrator lays them out.

They suit both ways of running them: the trainer's processes by themselves (``tests.trainer_process.run``), and agents.
All nodes of such a job are this machine.
"""

import os
import uuid
from pathlib import Path

from orchestrator.domain.placement import Device, NodeShare, Placement
from orchestrator.services.catalog import load_catalog
from orchestrator.services.job import processes_of
from tests.trainer_process import Trainer, make_job
from workers.node.port_choice import free_port
from workers.trainer import protocol


def gang_job(folder, framework, strategy, nodes=1, devices=2, **plan):
    """Return a job of ``nodes`` x ``devices`` ranks for the model in ``folder``; ``plan`` overrides its plan."""
    facts = load_catalog().frameworks[framework].strategies[strategy]
    job = make_job(folder, framework, strategy=strategy, topology=f"{nodes}x{devices}", **plan)
    placement = _placement(nodes, devices)
    places = _places(placement.nodes)
    return {
        **job,
        "attempt_id": "attempt-" + uuid.uuid4().hex[:12],
        "token": uuid.uuid4().hex,
        "interpreter": {**job["interpreter"], "name": facts.interpreter},
        "strategy": facts.to_job(),
        "nodes": places,
        "processes": processes_of(placement, facts),
        "world_size": nodes * devices,
        "control": {"host": places[0]["address"], "port": places[0]["ports"]["control"]},
    }


def run_gang(job, folder: Path, python):
    """Run all processes of ``job`` by themselves to their ends; return them in the job's order."""
    trainers = [Trainer(job, folder, python, process["name"]) for process in job["processes"]]
    for trainer in trainers:
        trainer.finish()
    return trainers


def _placement(nodes, devices):
    """Devices that no other test and no running service locks; the cores of this machine are dealt to them in turn."""
    cores = sorted(os.sched_getaffinity(0))
    shares = []
    for node in range(nodes):
        first = node * devices
        mine = [_device(cores[(first + index) % len(cores)]) for index in range(devices)]
        shares.append(NodeShare(f"node-{node}", tuple(mine)))
    return Placement(tuple(shares))


def _device(core):
    return Device(f"cpu:test-{uuid.uuid4().hex[:8]}", "cpu", "a cpu", (core,), None)


def _places(names):
    taken = set()
    for _ in range(2 * len(names)):
        taken.add(free_port(taken))
    ports = iter(sorted(taken))
    return [
        protocol.local_node(name)
        | {
            "fabric": "ethernet" if len(names) > 1 else None,
            "ports": {"control": next(ports), "framework": next(ports)},
        }
        for name in names
    ]
