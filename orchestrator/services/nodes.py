"""The nodes of the cluster with what a person ordered of them: drain, quarantine, resume."""

from collections.abc import Sequence
from dataclasses import replace

from orchestrator.domain.access import Actor
from orchestrator.domain.errors import NotFound
from orchestrator.domain.placement import Node, NodeState
from orchestrator.services.context import Context
from orchestrator.services.tokens import deed_of


def ordered_nodes(context: Context) -> Sequence[Node]:
    """All nodes by name. An order stands in for AVAILABLE; a node that does not answer stays UNREACHABLE."""
    orders = context.store.node_orders()
    nodes = sorted(context.cluster.nodes(), key=lambda node: node.name)
    return [
        replace(node, state=orders[node.name]) if node.state is NodeState.AVAILABLE and node.name in orders else node
        for node in nodes
    ]


def one_node(context: Context, name: str) -> Node:
    """The node ``name``.

    Raises:
        NotFound: the cluster has no such node.
    """
    for node in ordered_nodes(context):
        if node.name == name:
            return node
    raise NotFound("node", name)


def order_node(context: Context, name: str, state: NodeState | None, by: Actor) -> Node:
    """Order the node ``name`` to be DRAINING or QUARANTINED, or (None) take the order back; the node as it is then.

    Runs that are on it go on; no new ones come. Idempotent.

    Raises:
        NotFound: the cluster has no such node.
    """
    one_node(context, name)
    order = "available" if state is None else state.value
    context.store.order_node(name, state, deed_of(by, context.clock.now(), f"node {order}", name))
    context.wake()
    return one_node(context, name)
