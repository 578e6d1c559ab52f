"""Jobs whose ranks mpirun starts, for the model that waits and for CNTK, on one node or on two of this machine."""

import tomllib

from tests.integration.node_attempts import NODE, ROOT, a_job
from workers.node import port_choice
from workers.trainer import protocol

OTHER_NODE = "node-2"

# The loopback interface has all of 127.0.0.0/8: two nodes of this machine have an address each.
ADDRESSES = {NODE: "127.0.0.1", OTHER_NODE: "127.0.0.2"}


def mpi_job(nodes=(NODE,), ranks=2, **changes):
    """A job for the model that waits, its ranks dealt to ``nodes`` in turn and started by mpirun."""
    job = a_job(ranks, **changes)
    job["strategy"] = {"name": job["plan"]["strategy"], "launcher": "mpirun"}
    launchers = [
        {"name": f"launcher{index}", "role": "launcher", "node": node, "ranks": [], "local_ranks": [], "devices": []}
        for index, node in enumerate(nodes)
    ]
    for rank, process in enumerate(job["processes"]):
        process.update(node=nodes[rank * len(nodes) // ranks], started_by="launcher0")
    job["processes"] = launchers + job["processes"]
    job["nodes"] = [protocol.local_node(node) for node in nodes]
    if len(nodes) > 1:
        for node in job["nodes"]:
            taken = {port_choice.free_port()}
            node.update(address=ADDRESSES[node["name"]], fabric="ethernet")
            node["ports"] = {"control": taken.copy().pop(), "framework": port_choice.free_port(taken)}
        job["control"] = {"host": job["nodes"][0]["address"], "port": job["nodes"][0]["ports"]["control"]}
        job["plan"].update(topology=f"{len(nodes)}x{ranks // len(nodes)}", fabric="ethernet")
    return job


def cntk_job(strategy, nodes=(NODE,), ranks=2, **changes):
    """A job that trains the tiny ResNet-50 in CNTK."""
    facts = tomllib.loads((ROOT / "suites/models/resnet_50/model.toml").read_text())
    strategies = tomllib.loads((ROOT / "workers/trainer/frameworks/cntk/framework.toml").read_text())["strategies"]
    changes = {"model": "resnet-50", "framework": "cntk", "strategy": strategy, "options": {}, **changes}
    job = mpi_job(nodes, ranks, max_steps=changes.pop("max_steps", 8), timeout_s=120, interpreter="cntk", **changes)
    job["model"] = {**facts, "module": "suites.models.resnet_50"}
    job["interpreter"]["name"] = "cntk"
    job["strategy"] = {"name": strategy, **strategies[strategy]}
    return job
