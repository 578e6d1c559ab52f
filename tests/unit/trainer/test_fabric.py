"""What the libraries hear of the network that a job names."""

import pytest

from tests.trainer_process import read_job
from workers.trainer.frameworks import fabric


def environment(name, interface):
    job = read_job("sleep", "sleep", ranks=2)
    nodes = [node._replace(fabric=name, interface=interface, address="10.0.0.1") for node in job.nodes]
    return fabric.environment(job._replace(nodes=nodes), job.processes[0])


@pytest.mark.parametrize(("name", "net", "disabled"), [("ethernet", "Socket", "1"), ("infiniband", "IB", "0")])
def test_nccl_is_given_the_fabric_that_was_asked_for_and_no_other(name, net, disabled):
    found = environment(name, "ib1")
    assert (found["NCCL_NET"], found["NCCL_IB_DISABLE"]) == (net, disabled)


def test_nccl_takes_an_interface_by_its_whole_name():
    """ib1 is not ib10; Gloo takes names as they are."""
    found = environment("infiniband", "ib1")
    assert (found["NCCL_SOCKET_IFNAME"], found["GLOO_SOCKET_IFNAME"]) == ("=ib1", "ib1")


def test_nccl_says_which_network_it_uses():
    assert environment("ethernet", "eth0")["NCCL_DEBUG"] == "INFO"


def test_within_one_node_no_library_is_told_of_a_network():
    assert environment(None, None) == {}
