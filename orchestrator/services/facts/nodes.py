"""The nodes of the cluster with what a person ordered of them: drain, quarantine, resume."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orchestrator.domain.around.access import Actor
from orchestrator.domain.around.device_health import DeviceEvent
from orchestrator.domain.asked.placement import Node, NodeState
from orchestrator.domain.words.errors import NotFound
from orchestrator.services.context import Context
from orchestrator.services.facts.devices import health_of, open_events
from orchestrator.services.tokens import deed_of


def ordered_nodes(context: Context) -> Sequence[Node]:
    """All nodes by name."""
    orders, events = context.store.node_orders(), open_events(context)
    nodes = sorted(context.cluster.nodes(), key=lambda node: node.name)
    return [as_known(context, as_ordered(node, orders), events) for node in nodes]


def as_known(context: Context, node: Node, events: Sequence[DeviceEvent]) -> Node:
    """The node with how its devices are; ``events``: of ``open_events``."""
    health = health_of(context, node, events)
    return replace(node, health=health) if health else node


def as_ordered(node: Node, orders: Mapping[str, NodeState]) -> Node:
    """The node with what a person ordered of it as its state, unless it does not answer."""
    if node.state is NodeState.UNREACHABLE or node.name not in orders:
        return node
    return replace(node, state=orders[node.name])


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
