"""What a cluster makes of an agent's words about its disk."""

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from orchestrator.cluster.agents import AgentCluster, Handle, Keeper
from orchestrator.domain.errors import JobRefused
from orchestrator.domain.placement import Placement


class Agent:
    """Answers what it was told to."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def call(self, method: str, patience_s: float, /, **arguments: Any) -> Any:
        return self.answers[method]

    def later(self, method: str, patience_s: float, /, **arguments: Any) -> "Future[Any]":
        raise AssertionError("nobody waits for news here")


class OneNode(AgentCluster):
    """A cluster of one node."""

    def __init__(self, agent: Handle) -> None:
        self.keeper = Keeper("n0", lambda: agent, fence_s=600.0)
        self.keeper.settle(60.0)

    def _keepers(self) -> Mapping[str, Keeper]:
        return {"n0": self.keeper}

    def hold(self, attempt_id: str, placement: Placement) -> Placement:
        return placement

    def holds(self) -> Collection[str]:
        return ()

    def let_go(self, over: Collection[str]) -> None: ...

    def close(self) -> None:
        self.keeper.close()

    def _end(self) -> None: ...


@pytest.fixture
def agent() -> Agent:
    return Agent(
        inventory={"devices": [], "disk_free_bytes": 10**12},
        status={"attempts": [], "disk_free_bytes": 5},
        start={"attempt_id": "a1", "state": "refused", "reason": "full", "failure": "no_space"},
    )


@pytest.fixture
def cluster(agent: Agent) -> Iterator[OneNode]:
    cluster = OneNode(agent)
    yield cluster
    cluster.close()


def test_a_node_has_the_room_that_its_agent_told_last(cluster: OneNode) -> None:
    assert cluster.nodes()[0].has_room
    cluster.status("n0")
    (node,) = cluster.nodes()
    assert node.inventory["disk_free_bytes"] == 5
    assert not node.has_room


def test_an_agent_that_does_not_tell_its_room_changes_nothing(cluster: OneNode, agent: Agent) -> None:
    agent.answers["status"] = {"attempts": []}
    cluster.status("n0")
    assert cluster.nodes()[0].inventory["disk_free_bytes"] == 10**12


def test_a_refusal_says_which_failure_it_is(cluster: OneNode, agent: Agent) -> None:
    with pytest.raises(JobRefused, match="full") as refused:
        cluster.start("n0", {"attempt_id": "a1"})
    assert refused.value.failure == "no_space"
    agent.answers["start"] = {"attempt_id": "a1", "state": "refused", "reason": "another token"}
    with pytest.raises(JobRefused, match="another token") as refused:
        cluster.start("n0", {"attempt_id": "a1"})
    assert refused.value.failure == "setup_failed"
