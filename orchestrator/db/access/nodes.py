"""What a person ordered of nodes, and the heartbeat that shows whether the database accepts writes."""

from collections.abc import Mapping

from sqlalchemy import Connection, delete, select, update

from orchestrator.db.connection.statements import Insert
from orchestrator.db.tables.schema import heartbeat, node_order
from orchestrator.domain.asked.placement import NodeState

_INSERT = Insert(node_order, "node", "state", or_nothing_on=("node",))
ORDERS = (NodeState.DRAINING, NodeState.QUARANTINED)


def orders(connection: Connection) -> Mapping[str, NodeState]:
    return {node: NodeState(state) for node, state in connection.execute(select(node_order.c.node, node_order.c.state))}


def order(connection: Connection, node: str, state: NodeState | None) -> bool:
    """Replace the order for ``node``, or (None) take it back. Whether that is new."""
    which = node_order.c.node == node
    if state is None:
        return connection.execute(delete(node_order).where(which)).rowcount > 0
    if _INSERT.one(connection, (node, state.value)):
        return True
    changed = update(node_order).where(which, node_order.c.state != state.value).values(state=state.value)
    return connection.execute(changed).rowcount > 0


def beat(connection: Connection) -> None:
    """Write something."""
    connection.execute(update(heartbeat).values(beats=heartbeat.c.beats + 1))
