"""The tables of the service itself: what was ordered of nodes, what happened to their devices, who serves, and whether
the database accepts writes."""

from sqlalchemy import Column, Double, Index, Integer, Table, Text

from orchestrator.db.tables.metadata import Count, Key, metadata

node_order = Table(
    "node_order",
    metadata,
    Column("node", Key, primary_key=True),
    Column("state", Key, nullable=False),
)

# It names runs without hanging on them: it outlives them. ``ended_at``: since when it counts no more.
device_event = Table(
    "device_event",
    metadata,
    Column("id", Key, primary_key=True),
    Column("node", Key, nullable=False),
    Column("device", Key, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("kind", Key, nullable=False),
    Column("text", Text, nullable=False),
    Column("code", Integer),
    Column("boot_id", Key),
    Column("cell_key", Key),
    Column("run_id", Key),
    Column("ended_at", Double),
    Index("ix_device_event_device", "node", "device", "created_at", "id"),
    Index("ix_device_event_open", "ended_at", "kind", "created_at"),
)

# One row, rewritten to see whether the database accepts writes.
heartbeat = Table(
    "heartbeat",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("beats", Count, nullable=False),
)

# One row, of PostgreSQL only (``db.connection.right``): who leads, the term in which it does, and until when, in
# seconds of the database's clock; none where it has ended in order.
server = Table(
    "server",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("term", Count, nullable=False),
    Column("url", Key),
    Column("host", Key),
    Column("pid", Count),
    Column("since", Double),
    Column("until", Double),
)

# What a server that follows has to know of the cluster: the nodes, each as the one that leads saw it last.
known_node = Table(
    "known_node",
    metadata,
    Column("name", Key, primary_key=True),
    Column("told", Text, nullable=False),
)
