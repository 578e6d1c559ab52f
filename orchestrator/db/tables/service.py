"""The tables of the service itself: what was ordered of nodes, who serves, and whether the database accepts writes."""

from sqlalchemy import Column, Double, Integer, Table

from orchestrator.db.tables.metadata import Count, Key, metadata

node_order = Table(
    "node_order",
    metadata,
    Column("node", Key, primary_key=True),
    Column("state", Key, nullable=False),
)

# One row, rewritten to see whether the database accepts writes.
heartbeat = Table(
    "heartbeat",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("beats", Count, nullable=False),
)

# One row, of PostgreSQL only (``db.right``): how many servers there were, and the last one's name, or none where that
# one has ended in order.
server = Table(
    "server",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("term", Count, nullable=False),
    Column("url", Key),
    Column("host", Key),
    Column("pid", Count),
    Column("since", Double),
)
