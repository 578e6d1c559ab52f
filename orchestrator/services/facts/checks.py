"""What ``tbd doctor`` wants to know of all nodes, asked side by side."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from orchestrator.domain.asked.placement import Node, NodeState
from orchestrator.domain.words.errors import NodeFailed, NodeUnreachable
from orchestrator.services.context import Context

# Threads that wait: all of a large cluster at once.
MOST_AT_ONCE = 256


@dataclass(frozen=True)
class NodeFacts:
    """What a node says of itself (``workers.node.host_facts``), after how long; or why it says nothing."""

    node: str
    facts: Mapping[str, Any] | None
    reason: str | None
    took_s: float


def of_nodes(context: Context) -> Sequence[NodeFacts]:
    """All nodes by name; none is waited for longer than the cluster waits for one.

    Raises:
        ClusterUnavailable: this server follows, and asks no nodes.
    """
    nodes = sorted(context.cluster.nodes(), key=lambda node: node.name)
    with ThreadPoolExecutor(min(MOST_AT_ONCE, len(nodes) or 1), "checks") as pool:
        return list(pool.map(lambda node: _ask(context, node), nodes))


def _ask(context: Context, node: Node) -> NodeFacts:
    began, facts, reason = time.monotonic(), None, None
    if node.state is NodeState.UNREACHABLE:
        reason = f"it cannot be reached: {node.reason}"
    else:
        try:
            facts = context.cluster.checks(node.name)
        except NodeFailed as error:
            reason = f"its agent is too old for the checks: {error}" if "unknown method" in str(error) else str(error)
        except NodeUnreachable as error:
            reason = str(error)
    return NodeFacts(node.name, facts, reason, round(time.monotonic() - began, 2))
