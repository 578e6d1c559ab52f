"""CNTK over several ranks, by agents and mpirun: gradients or blocks are averaged, and replicas end equal."""

import shutil

import numpy
import pytest

from tests.contract.test_strategies import LOSSES
from tests.integration.node_attempts import failure_of, log_of, of_kind
from tests.support import linear_model, two_networks
from tests.support.strategy_jobs import strategy_job
from tests.trainer_process import ROOT
from workers.node import processes
from workers.node.agent import Agent

pytestmark = [
    pytest.mark.framework("cntk"),
    pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun: apt-get install openmpi-bin"),
]

STRATEGIES = ["mpi", pytest.param("mpi-block-momentum", marks=pytest.mark.after_change)]


@pytest.fixture(scope="module")
def agents(python_of, tmp_path_factory):
    """Two nodes of this machine."""
    python_of("cntk")
    folder = tmp_path_factory.mktemp("agents")
    with pytest.MonkeyPatch.context() as patch:
        # Models of the tests are found as an operator's own would be.
        patch.setenv("TBD_SUITE_PATH", str(ROOT))
        found = [Agent(folder / name, name, fence_s=120) for name in ("node-0", "node-1")]
        yield found
        for agent in found:
            agent.close()


def carried_out(agents, job):
    """Return what all processes of ``job`` have said, by kind; all must have ended well, and none be left."""
    taking_part = agents[: len(job["nodes"])]
    for agent in taking_part:
        assert agent.start(job)["state"] == "running"
    entries = []
    for agent in taking_part:
        entries += log_of(agent, job, 120)
        assert failure_of(entries) is None, of_kind(entries, "output")
    assert not processes.with_token(job["token"])
    return entries


def of_rank(entries, kind, rank):
    return [entry["data"] for entry in entries if entry["kind"] == kind and entry["rank"] == rank]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.after_change
def test_two_ranks_train_a_network_and_end_with_bitwise_equal_weights(agents, strategy, nodes):
    job = strategy_job("cntk", strategy, nodes, 2 // nodes, max_steps=8)
    entries = carried_out(agents, job)
    assert {joined["world_size"] for joined in of_kind(entries, "joined")} == {2}
    assert [sum(item["work"]["images"] for item in of_rank(entries, "interval", rank)) for rank in (0, 1)] == [32, 32]
    replicas = [entry for entry in entries if entry["kind"] == "replica"]
    assert sorted(entry["rank"] for entry in replicas) == [0, 1]
    assert len({entry["data"]["sha256"] for entry in replicas}) == 1
    if strategy == "mpi":
        assert [loss["value"] for loss in of_rank(entries, "loss", 0)][:4] == pytest.approx(LOSSES, rel=2e-3)
    assert {built["exchange"]["backend"] for built in of_kind(entries, "built")} == {"mpi"}


def linear_fit(agents, strategy, devices, **plan):
    """Return the log of a linear fit without batch normalisation."""
    job = strategy_job("cntk", strategy, 1, devices, **plan)
    job["model"].update(module="tests.support.linear_model", input=None)
    return carried_out(agents, job)


def test_two_ranks_train_as_one_with_the_double_batch_does(agents):
    """CNTK tells each rank the loss over the samples of all."""
    entries = linear_fit(agents, "mpi", 2)
    for rank in (0, 1):
        told = [loss["value"] for loss in of_rank(entries, "loss", rank)]
        assert told == pytest.approx(linear_model.losses(6), rel=1e-5)


def test_several_updates_of_two_ranks_train_as_one_with_the_double_batch_does(agents):
    """Each update has a learner of its own, whose gradients MPI averages: in ``tests.support.two_networks`` the loss of
    one network tells what has become of both."""
    job = strategy_job("cntk", "mpi", 1, 2, max_steps=6, profile=["kernels"])
    job["model"].update(two_networks.facts())
    entries = carried_out(agents, job)
    losses, _ = two_networks.trained(6)
    for rank in (0, 1):
        told = [loss["value"] for loss in of_rank(entries, "loss", rank)]
        assert told == pytest.approx(losses, rel=1e-4)
        images = [interval["work"]["images"] for interval in of_rank(entries, "interval", rank)]
        assert sum(images) == 6 * (two_networks.CRITIC_TIMES + 1) * two_networks.SAMPLES // 2
        (kernels,) = of_rank(entries, "kernels", rank)
        assert kernels["rows"]
    assert len({replica["sha256"] for replica in of_kind(entries, "replica")}) == 1


def stepped(weights, momentum, inputs, targets, rate):
    """Return (weights, momentum) after one update of a rank on its own batch."""
    facts = linear_model.OPTIMIZER
    gradient = 2.0 * inputs.T @ (inputs @ weights - targets) / len(inputs) + facts["weight_decay"] * weights
    momentum = facts["momentum"] * momentum + gradient
    return weights - rate * momentum, momentum


@pytest.mark.after_change
def test_block_momentum_averages_the_ways_of_the_ranks_as_its_authors_write(agents):
    """Chen and Huo, "Scalable training of deep learning machines by incremental block training", 2016, with Nesterov's
    form, a block momentum of 1 - 1 / ranks and the ranks' own momenta begun anew after each block."""
    blocks, steps, ranks = 3, 4, 2
    batches = [linear_model.samples(ranks, rank) for rank in range(ranks)]
    rate, block_momentum = linear_model.OPTIMIZER["learning_rate"] / ranks, 1.0 - 1.0 / ranks
    weights, smoothed, losses = linear_model.weights().astype(float), 0.0, []
    for _ in range(blocks):
        ways = []
        for inputs, targets in batches:
            own, momentum = weights, 0.0
            for _ in range(steps):
                last = float(numpy.mean((inputs @ own - targets) ** 2))
                own, momentum = stepped(own, momentum, inputs, targets, rate)
            ways.append((weights - own, last))
        losses.append([last for _, last in ways])
        smoothed = block_momentum * smoothed + (1.0 - block_momentum) * sum(way for way, _ in ways)
        weights = weights - smoothed - block_momentum * smoothed
    entries = linear_fit(agents, "mpi-block-momentum", ranks, max_steps=blocks * steps)
    for rank in range(ranks):
        told = [loss["value"] for loss in of_rank(entries, "loss", rank)]
        assert told == pytest.approx([both[rank] for both in losses], rel=1e-4)
