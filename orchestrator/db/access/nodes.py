"""What a person ordered of nodes, what is known of them, and the heartbeat that shows whether the database accepts
writes."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, delete, select, update

from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import rows
from orchestrator.db.tables.schema import heartbeat, known_node, node_order
from orchestrator.domain.asked.placement import NodeState

_INSERT = Insert(node_order, "node", "state", unless_same=("node",))
_KNOW = Insert(known_node)
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


def know(connection: Connection, told: Mapping[str, Mapping[str, Any]], gone: Collection[str]) -> None:
    connection.execute(delete(known_node).where(among(known_node.c.name, [*told, *gone])))
    _KNOW.many(connection, [(name, rows.to_text(one)) for name, one in told.items()])


def known(connection: Connection) -> Mapping[str, Mapping[str, Any]]:
    found = connection.execute(select(known_node).order_by(known_node.c.name))
    return {row.name: rows.loaded(row.told) for row in found}


def beat(connection: Connection) -> None:
    """Write something."""
    connection.execute(update(heartbeat).values(beats=heartbeat.c.beats + 1))
