"""Agents of another version are refused, with both versions named; old ones are replaced when they are idle."""

from typing import Any

import pytest

from orchestrator.cluster.agents import AgentUnreachable
from orchestrator.cluster.ray_versions import SameVersion, difference_of

OURS = {"version": "0.2.0", "commit": "a" * 40, "dirty": False, "reason": None}
OLD = {"version": "0.1.0", "commit": "b" * 40, "dirty": False, "reason": None}
UNKNOWN = {"version": "0.2.0", "commit": None, "dirty": None, "reason": "this is no git checkout"}


class Agent:
    def __init__(self, told: dict[str, Any] | None, attempts: tuple[str, ...] = ()) -> None:
        self.told = told
        self.attempts = attempts
        self.has_left = False

    def call(self, method: str, patience_s: float, /, **arguments: Any) -> Any:
        if method == "heartbeat":
            return {"node": "n0"} | ({} if self.told is None else {"tbd": self.told})
        assert method == "status"
        return {"attempts": [{"attempt_id": "a", "state": state} for state in self.attempts]}

    def later(self, method: str, patience_s: float, /, **arguments: Any) -> Any:
        raise NotImplementedError

    def leave(self) -> None:
        self.has_left = True


def test_the_same_version_and_commit_differ_in_nothing() -> None:
    assert difference_of(OURS, dict(OURS)) is None


def test_a_commit_that_nobody_knows_differs_from_none() -> None:
    assert difference_of(OURS, UNKNOWN) is None


@pytest.mark.parametrize("theirs", [OLD, {**OURS, "commit": "b" * 40}])
def test_another_version_or_commit_is_told_with_both(theirs: dict[str, Any]) -> None:
    told = difference_of(OURS, theirs)
    assert told is not None
    assert f"{theirs['version']} (commit bbbbbbbbbbbb)" in told
    assert "0.2.0 (commit aaaaaaaaaaaa)" in told


def test_an_agent_that_tells_no_version_is_an_older_one() -> None:
    assert "an older one" in str(difference_of(OURS, None))


def test_a_new_agent_of_another_version_leaves_and_its_node_stays_refused() -> None:
    versions, agent = SameVersion(OURS), Agent(OLD)
    versions.check_node("id")
    with pytest.raises(AgentUnreachable, match=r"its agent is tbd 0\.1\.0 .* the service is tbd 0\.2\.0"):
        versions.check_agent("id", "n0", agent, is_new=True)
    assert agent.has_left
    with pytest.raises(AgentUnreachable, match=r"0\.1\.0"):
        versions.check_node("id")
    versions.check_node("the id after its Ray was started anew")


def test_an_old_agent_that_is_idle_is_replaced_at_once() -> None:
    versions, agent = SameVersion(OURS), Agent(OLD, ("ended",))
    with pytest.raises(AgentUnreachable, match="is being replaced"):
        versions.check_agent("id", "n0", agent, is_new=False)
    assert agent.has_left
    versions.check_node("id")


def test_an_old_agent_first_finishes_its_attempts() -> None:
    versions, agent = SameVersion(OURS), Agent(OLD, ("running",))
    versions.check_agent("id", "n0", agent, is_new=False)
    versions.replace_idle()
    assert not agent.has_left
    agent.attempts = ("ended",)
    versions.replace_idle()
    assert agent.has_left
