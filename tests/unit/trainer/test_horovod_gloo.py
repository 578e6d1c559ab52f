"""How Horovod's ranks are told who they are, and what is recorded of their exchange."""

import sys
import types

import pytest

from tests.trainer_process import read_job
from workers.trainer import protocol
from workers.trainer.base.failure import TrainerError
from workers.trainer.frameworks import horovod_gloo


def job_of(*nodes):
    processes = [{"name": "scheduler", "role": "scheduler", "node": nodes[0], "ranks": [], "devices": []}]
    processes += [
        {"name": f"worker{rank}", "role": "worker", "node": node, "ranks": [rank], "devices": []}
        for rank, node in enumerate(nodes)
    ]
    names = list(dict.fromkeys(nodes))
    places = [
        protocol.local_node(name) | {"address": f"10.0.0.{index}", "ports": {"control": 1, "framework": 2}}
        for index, name in enumerate(names)
    ]
    return read_job("sleep", "sleep", {"processes": processes, "nodes": places}, timeout_s=3600.0)


def places_of(*nodes):
    keys = ("hostname", "rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")
    slots = horovod_gloo.slots(job_of(*nodes))
    return [tuple(slots[rank][key] for key in keys) for rank in sorted(slots)]


def test_ranks_are_counted_on_their_host_and_across_hosts():
    assert places_of("a", "a", "b", "b") == [
        ("host0", 0, 4, 0, 2, 0, 2),
        ("host0", 1, 4, 1, 2, 0, 2),
        ("host1", 2, 4, 0, 2, 1, 2),
        ("host1", 3, 4, 1, 2, 1, 2),
    ]


def test_hosts_with_unequal_numbers_of_ranks_meet_where_they_have_the_same_place():
    assert places_of("a", "a", "b") == [
        ("host0", 0, 3, 0, 2, 0, 2),
        ("host0", 1, 3, 1, 2, 0, 1),
        ("host1", 2, 3, 0, 1, 1, 2),
    ]


def test_a_worker_is_told_where_the_rendezvous_is_and_that_every_wait_ends():
    job = job_of("a", "b")
    found = horovod_gloo.environment(job, job.processes[2])
    assert found["HOROVOD_GLOO_RENDEZVOUS_ADDR"] == "10.0.0.0"
    assert found["HOROVOD_GLOO_RENDEZVOUS_PORT"] == "2"
    assert found["HOROVOD_RANK"] == "1"
    assert found["HOROVOD_CONTROLLER"] == found["HOROVOD_CPU_OPERATIONS"] == "gloo"
    assert found["HOROVOD_GLOO_TIMEOUT_SECONDS"] == "3600"
    assert found["HOROVOD_FUSION_THRESHOLD"] == str(128 * 2**20)
    chosen = job._replace(plan=job.plan._replace(bucket_mib=5))
    assert horovod_gloo.environment(chosen, job.processes[2])["HOROVOD_FUSION_THRESHOLD"] == str(5 * 2**20)
    assert 0 < int(found["HOROVOD_STALL_CHECK_TIME_SECONDS"]) < int(found["HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"])
    assert set(map(type, found.values())) == {str}


def library(nccl):
    """Return what a build of Horovod says of itself; ``nccl`` is NCCL's version, or 0."""
    return types.SimpleNamespace(nccl_built=lambda: nccl, gloo_enabled=lambda: True)


@pytest.mark.parametrize(
    ("nccl", "kind", "backend"), [(0, "cpu", "gloo"), (22907, "cpu", "gloo"), (22907, "cuda", "nccl")]
)
def test_the_backend_recorded_is_the_one_that_carries_the_gradients(nccl, kind, backend, monkeypatch):
    monkeypatch.setitem(sys.modules, "horovod", types.SimpleNamespace(__version__="0.28.1"))
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "5")
    found = horovod_gloo.exchange(library(nccl), kind)
    told = {"library": "horovod", "version": "0.28.1", "backend": backend, "bucket_bytes": 5, "mean": True}
    assert found == told


def test_gpus_are_refused_by_a_build_without_nccl_only():
    # A job without a port: a build with NCCL comes further, to the rendezvous.
    job = read_job("sleep", "sleep", device="cuda")
    worker = job.processes[0]
    with pytest.raises(TrainerError, match="it has no NCCL") as refused:
        horovod_gloo.join(library(0), job, worker)
    assert refused.value.kind == "unsupported"
    with pytest.raises(TrainerError, match="names no port") as further:
        horovod_gloo.join(library(22907), job, worker)
    assert further.value.kind == "setup_failed"
