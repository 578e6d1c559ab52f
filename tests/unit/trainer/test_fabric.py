"""What the libraries hear of the network that a job names."""

import json

import pytest

from tests.trainer_process import make_job, read_job
from workers.trainer.base import job as jobs
from workers.trainer.base.failure import TrainerError
from workers.trainer.frameworks import fabric


def a_job(name, interface, device="cpu", strategy="ddp", **more):
    job = read_job("sleep", "sleep", ranks=2, device=device, strategy=strategy)
    nodes = [node._replace(fabric=name, interface=interface, address="10.0.0.1", **more) for node in job.nodes]
    return job._replace(nodes=nodes)


def environment(name, interface, **more):
    job = a_job(name, interface, **more)
    return fabric.environment(job, job.processes[0])


@pytest.mark.parametrize(
    ("name", "net", "disabled"), [("ethernet", "Socket", "1"), ("infiniband", "IB", "0"), ("roce", "IB", "0")]
)
def test_nccl_is_given_the_fabric_that_was_asked_for_and_no_other(name, net, disabled):
    found = environment(name, "ib1")
    assert (found["NCCL_NET"], found["NCCL_IB_DISABLE"]) == (net, disabled)


def test_nccl_takes_an_interface_by_its_whole_name():
    """ib1 is not ib10; Gloo takes names as they are."""
    found = environment("infiniband", "ib1")
    assert (found["NCCL_SOCKET_IFNAME"], found["GLOO_SOCKET_IFNAME"]) == ("=ib1", "ib1")


def test_nccl_says_which_network_it_uses():
    assert environment("ethernet", "eth0")["NCCL_DEBUG"] == "INFO"


def test_nccl_takes_the_network_of_a_plugin_where_one_is_named():
    found = environment("ethernet", "eth0", net="AWS Libfabric")
    assert (found["NCCL_NET"], "NCCL_IB_DISABLE" in found) == ("AWS Libfabric", False)


def test_within_one_node_nccl_says_by_which_ways_it_goes():
    assert environment(None, None, device="cuda") == {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT"}


def test_within_one_node_no_library_is_told_of_a_network():
    assert environment(None, None) == {}


def test_nccl_is_given_the_adapters_of_the_fabric_by_their_whole_names():
    found = environment("roce", "eth2", adapters=("mlx5_1:1", "mlx5_2:1"))
    assert (found["NCCL_IB_HCA"], found["NCCL_SOCKET_IFNAME"]) == ("=mlx5_1:1,mlx5_2:1", "=eth2")
    assert "NCCL_IB_HCA" not in environment("infiniband", "ib0")
    assert "NCCL_IB_HCA" not in environment("ethernet", "eth0", adapters=("mlx5_1:1",))


@pytest.mark.parametrize(("device", "strategy"), [("cpu", "ddp"), ("cpu", "mpi"), ("cuda", "kvstore-dist-sync")])
def test_what_goes_over_ip_is_refused_where_only_rdma_is_on_the_fabric(device, strategy):
    """It would be measured on Ethernet, and called InfiniBand."""
    job = a_job("infiniband", "eth0", device, strategy, adapters=("mlx5_0:1",), by_ip=False)
    with pytest.raises(TrainerError, match="only NCCL between GPUs can use it") as refused:
        fabric.check(job, job.processes[0])
    assert refused.value.kind == "unsupported"
    fabric.check(a_job("infiniband", "ib0", device, strategy, adapters=("mlx5_0:1",)), job.processes[0])


def test_nccl_is_not_refused():
    job = a_job("roce", "eth2", "cuda", "ddp", adapters=("mlx5_1:1",), by_ip=False)
    fabric.check(job, job.processes[0])


def test_a_job_says_what_carries_its_fabric():
    told = {"name": "here", "address": "10.0.0.1", "interface": "eth2", "fabric": "roce", "ports": {}}
    told.update(adapters=["mlx5_1:1"], by_ip=False)
    (node,) = jobs.job_of(json.loads(json.dumps({**make_job("sleep", "sleep"), "nodes": [told]}))).nodes
    assert (node.adapters, node.by_ip) == (("mlx5_1:1",), False)
