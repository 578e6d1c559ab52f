"""What a cluster makes of an agent's words: about its disk, about a job, about what goes on there."""

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from orchestrator.cluster.agents import AgentCluster, AgentError, AgentUnreachable, Handle, Keeper
from orchestrator.domain.asked.placement import Placement
from orchestrator.domain.words.errors import JobRefused


class Agent:
    """Answers what it was told to."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers

    def call(self, method: str, patience_s: float, /, **arguments: Any) -> Any:
        return self.answers[method]

    def later(self, method: str, patience_s: float, /, **arguments: Any) -> "Future[Any]":
        answer: Future[Any] = Future()
        found = self.answers[method]
        answer.set_exception(found) if isinstance(found, Exception) else answer.set_result(found)
        return answer


class OneNode(AgentCluster):
    """A cluster of one node."""

    def __init__(self, agent: Handle) -> None:
        self.keeper = Keeper("n0", lambda: agent, fence_s=600.0)
        self.keeper.settle(60.0)
        self.ended = False

    def _keepers(self) -> Mapping[str, Keeper]:
        return {"n0": self.keeper}

    def hold(self, attempt_id: str, placement: Placement) -> Placement:
        return placement

    def holds(self) -> Collection[str]:
        return ()

    def let_go(self, over: Collection[str]) -> None: ...

    def close(self) -> None:
        self.keeper.close()

    def _end(self) -> None:
        self.ended = True


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


def _with(*states: str) -> dict[str, Any]:
    return {"attempts": [{"attempt_id": f"a{number}", "state": state} for number, state in enumerate(states)]}


@pytest.mark.parametrize(
    ("answer", "end_runs", "left"),
    [
        (_with(), False, []),
        (_with("ended", "ended"), False, []),
        (_with("ended", "running"), False, ["n0"]),
        (_with("running"), True, []),
        (AgentUnreachable("silent"), False, ["n0"]),
        (AgentError("broken"), False, ["n0"]),
        (None, False, ["n0"]),  # there is no way to it
        (AgentUnreachable("silent"), True, []),
    ],
)
def test_what_goes_on_or_may_is_left_unless_runs_are_to_end(
    cluster: OneNode, agent: Agent, answer: Any, end_runs: bool, left: list[str]
) -> None:
    agent.answers["status"] = answer
    if answer is None:
        cluster.keeper.close()
    assert cluster.shut_down(end_runs=end_runs) == left
    assert cluster.ended == (not left)
