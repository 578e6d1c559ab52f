"""What a process reads from its job beyond the raw keys: its rank, its options, its cores, the facts of its size."""

import importlib
import os

from workers.trainer import protocol
from workers.trainer.failure import TrainerError

# Judgement: at most this long for the processes of a framework to find each other, once their interpreters run.
RENDEZVOUS_TIMEOUT_S = 120.0


def rank_of(process):
    """Return the first rank that ``process`` drives, or None for a process without ranks (a server, a launcher)."""
    return min(process["ranks"]) if process["ranks"] else None


def leading_ranks(job):
    """Return the first rank of every process that has ranks, in order: they meet on the control channel."""
    return sorted(rank_of(process) for process in job["processes"] if process["ranks"])


def ranks_on_other_nodes(job, process):
    """Return the first rank of every process with ranks that runs on another node than ``process``, in order."""
    far = [other for other in job["processes"] if other["ranks"] and other["node"] != process["node"]]
    return sorted(rank_of(other) for other in far)


def builder(job):
    """Return the module whose ``build`` makes the job's model.

    It is that of all models of the framework, where the model's facts name its ``input``; else the model's own.
    """
    folder = "suites.assemble" if job["model"].get("input") else job["model"]["module"]
    return importlib.import_module("%s.%s" % (folder, job["plan"]["framework"]))


def options_of(job):
    """Return the model's options: the declared defaults, overlaid with what the plan chose."""
    declared = job["model"].get("options") or {}
    options = {name: facts.get("default") for name, facts in declared.items()}
    options.update(job["plan"].get("options") or {})
    return options


def size_of(job):
    """Return the facts of the plan's size: one table of ``[sizes]`` in ``model.toml``."""
    return job["model"]["sizes"][job["plan"]["size"]]


def strategy_of(job):
    """Return the facts of the job's strategy (``protocol.STRATEGY``), with its name."""
    facts = dict(protocol.STRATEGY, name=job["plan"]["strategy"])
    facts.update(job.get("strategy") or {})
    return facts


def nodes_of(job):
    """Return the nodes of the job in rank order, the first leads; one that says nothing of them has this host only."""
    return job.get("nodes") or [protocol.local_node(job["processes"][0]["node"])]


def node_of(job, process):
    """Return the entry of the node that ``process`` belongs to; the only one, whatever it is called, where one is."""
    nodes = nodes_of(job)
    if len(nodes) == 1:
        return nodes[0]
    return next(node for node in nodes if node["name"] == process["node"])


def rendezvous(job):
    """Return (address, port) on the first node where the framework's own processes meet.

    Raises:
        TrainerError: ``setup_failed``, the job names no port.
    """
    first = nodes_of(job)[0]
    port = (first.get("ports") or {}).get("framework")
    if port is None:
        raise TrainerError("setup_failed", "the job names no port for the framework's own rendezvous")
    return first["address"], port


def socket_path(folder, worker):
    """Return the path of the socket in the attempt's ``folder`` at which the worker of that name meets those beside it
    (``workers.trainer.roles``)."""
    return os.path.join(folder, worker + ".socket")


def device_kind(process):
    """Return ``cpu`` or ``cuda``: a process without devices computes on the CPU."""
    return process["devices"][0]["kind"] if process["devices"] else "cpu"


def threads():
    """Return the number of computing threads for this process: ``OMP_NUM_THREADS``, else the cores it may run on."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else len(os.sched_getaffinity(0))
