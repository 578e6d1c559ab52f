"""The tables of the service itself: what was ordered of nodes, and whether the database accepts writes."""

from sqlalchemy import Column, Integer, Table

from orchestrator.db.metadata import Count, Key, metadata

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
