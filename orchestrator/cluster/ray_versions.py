"""Agents of the same version as this service: a node of another one is refused, with both versions named.

Mixed versions would be one cluster whose runs are carried out by different code. After an upgrade of a host its old
agent still lives, for it outlives services; it is replaced as soon as it has nothing to do.
"""

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from orchestrator.cluster.agents import CALL_TIMEOUT_S, AgentError, AgentUnreachable, Handle
from workers.node.code_version import code_version, described

_log = logging.getLogger(__name__)


class LeavingHandle(Handle, Protocol):
    """The way to an agent that can be told to end itself."""

    def leave(self) -> None:
        """Have the agent end its attempts and itself."""


class SameVersion:
    """Holds the agents of Ray nodes, by their ids, to the version of this service."""

    def __init__(self, ours: Mapping[str, Any] | None = None) -> None:
        self._ours = dict(ours or code_version())
        self._refused: dict[str, str] = {}
        self._outdated: dict[str, LeavingHandle] = {}

    def check_node(self, node_id: str) -> None:
        """Raises ``AgentUnreachable`` where the node's own tbd is known to be of another version."""
        if node_id in self._refused:
            raise AgentUnreachable(self._refused[node_id])

    def check_agent(self, node_id: str, node: str, agent: LeavingHandle, *, is_new: bool) -> None:
        """Look at the version that the agent tells. ``is_new``: it was made just now, of what is installed there.

        Raises:
            AgentUnreachable: it is of another version, and was told to leave; an old one that still carries attempts
                out may first finish them.
        """
        theirs = agent.call("heartbeat", CALL_TIMEOUT_S).get("tbd")
        difference = difference_of(self._ours, theirs)
        if difference is None:
            return
        if is_new:
            self._refused[node_id] = f"{difference}: install the service's version on that host, then start Ray anew"
            _log.error("node %s is refused: %s", node, self._refused[node_id])
            agent.leave()
            raise AgentUnreachable(self._refused[node_id])
        if is_busy(agent):
            _log.warning("node %s: %s; it is replaced when its attempts are over", node, difference)
            self._outdated[node_id] = agent
            return
        agent.leave()
        raise AgentUnreachable(f"{difference}: it is being replaced")

    def replace_idle(self) -> None:
        """Tell old agents that were busy, and are no longer, to leave."""
        for node_id, agent in list(self._outdated.items()):
            try:
                if not is_busy(agent):
                    del self._outdated[node_id]
                    agent.leave()
            except (AgentUnreachable, AgentError):
                del self._outdated[node_id]


def difference_of(ours: Mapping[str, Any], theirs: Mapping[str, Any] | None) -> str | None:
    """Say how the version of an agent differs from the service's, with both; None where no difference is known.

    Args:
        ours, theirs: see ``code_version``. A commit that is not known differs from none.
    """
    told = described(dict(theirs)) if theirs else "of a version that it does not tell, an older one"
    same = theirs is not None and all(
        ours[name] == theirs[name] or None in (ours[name], theirs[name]) for name in ("version", "commit")
    )
    return None if same else f"its agent is tbd {told}, and the service is tbd {described(dict(ours))}"


def is_busy(agent: Handle) -> bool:
    """Whether the agent carries an attempt out."""
    return any(one["state"] == "running" for one in agent.call("status", CALL_TIMEOUT_S)["attempts"])
