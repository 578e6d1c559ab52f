"""The library of each framework, over two ranks on one node and on two, carried out by agents: what it tells."""

import shutil

import pytest

from orchestrator.analysis.analyse import analyse
from tests.integration.node_attempts import failure_of, log_of, of_kind
from tests.support.strategy_jobs import strategy_job
from tests.trainer_process import model_facts
from workers.node import processes
from workers.node.agent import Agent
from workers.trainer.loops.netbench_plan import sizes

MAX_BYTES = 16
NEEDS_MPIRUN = pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun: apt-get install openmpi-bin")
TWO_RANKS, TOGETHER = ("point_to_point", "all_reduce"), ("all_reduce",)
THROUGH_SERVERS = ("push", "pull", "all_reduce")


def row(framework, strategy, library, operations, environment=None, nodes=(1, 2), marks=()):
    """A parameter set for each number of nodes. ``environment``: where it is not called as the framework."""
    marks = [*marks, pytest.mark.framework(environment or framework)]
    told = framework, strategy, library, operations, environment or framework
    return [pytest.param(*told, count, marks=marks, id=f"{library}-{count}x{2 // count}") for count in nodes]


LIBRARIES = [
    *row("pytorch", "ddp", "gloo", TWO_RANKS),
    *row("cntk", "mpi", "mpi", TWO_RANKS, marks=[NEEDS_MPIRUN]),
    *row("tensorflow", "mirrored", "mirrored", TOGETHER, nodes=[1]),
    *row("tensorflow", "multi-worker-mirrored", "grpc", TOGETHER),
    *row("tensorflow", "horovod", "horovod-tensorflow", TOGETHER, "horovod", nodes=[1]),
    *row("mxnet", "kvstore-device", "kvstore-device", TOGETHER, nodes=[1]),
    *row("mxnet", "kvstore-dist-sync", "kvstore-dist-sync", THROUGH_SERVERS),
    *row("mxnet", "kvstore-dist-device-sync", "kvstore-dist-device-sync", THROUGH_SERVERS, nodes=[2]),
    *row("mxnet", "horovod", "horovod-mxnet", TOGETHER, "horovod", nodes=[1]),
    *row("pytorch", "horovod", "horovod-pytorch", TOGETHER, "horovod-pytorch", nodes=[1]),
]


def netbench_job(framework, strategy, nodes, **options):
    # A cell takes a second at most: what more there is, is for machines that are busy with something else.
    options = {"max_bytes": MAX_BYTES, "budget_s": 90.0, **options}
    job = strategy_job(framework, strategy, nodes, 2 // nodes, options=options, size="full")
    job["model"] = model_facts("netbench")
    return job


def logs_of(job, tmp_path):
    """Node -> its entries, of agents that have carried out ``job``; nothing of it is left."""
    agents = [Agent(tmp_path / node["name"], node["name"], fence_s=120) for node in job["nodes"]]
    try:
        for agent in agents:
            assert agent.start(job)["state"] == "running"
        found = {node["name"]: log_of(agent, job, 120) for node, agent in zip(job["nodes"], agents, strict=True)}
    finally:
        for agent in agents:
            agent.close()
    assert not processes.with_token(job["token"])
    return found


# ``test_netbench_command.py`` measures between two ranks of PyTorch each time.
@pytest.mark.after_change
@pytest.mark.parametrize(("framework", "strategy", "library", "operations", "environment", "nodes"), LIBRARIES)
def test_all_sizes_of_what_a_library_has_are_timed_idle_and_with_busy_cores(
    framework, strategy, library, operations, environment, nodes, python_of, tmp_path
):
    python_of(environment)
    logs = logs_of(netbench_job(framework, strategy, nodes), tmp_path)
    entries = [entry for log in logs.values() for entry in log]
    assert failure_of(entries) is None, of_kind(entries, "output")
    analysis = analyse(logs)
    assert not [reason for reason in analysis.validity.reasons if not reason.replaceable], analysis.validity
    powers = set(sizes(MAX_BYTES))
    cells = [(row.busy_cores, row.operation, row.bytes) for row in analysis.transfers if row.bytes in powers]
    assert cells == [(busy, name, size) for busy in (False, True) for name in operations for size in sorted(powers)]
    assert all(row.bytes in powers or row.operation != "point_to_point" for row in analysis.transfers)
    assert {row.library for row in analysis.transfers} == {library}
    assert all(row.ranks == (0, 1) and row.world_size == 2 for row in analysis.transfers)
    assert all(0 < row.duration_min_s <= row.duration_p50_s <= row.duration_max_s for row in analysis.transfers)


@pytest.mark.framework("pytorch")
def test_one_rank_is_not_enough(python_of, tmp_path):
    python_of("pytorch")
    job = netbench_job("pytorch", "ddp", 1)
    job.update(processes=job["processes"][:1], world_size=1)
    (log,) = logs_of(job, tmp_path).values()
    assert failure_of(log)["kind"] == "unsupported"
