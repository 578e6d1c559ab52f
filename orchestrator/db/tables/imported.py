"""The table of points that other tools measured."""

from sqlalchemy import Column, Double, Index, Table, Text

from orchestrator.db.tables.metadata import Key, metadata

# A row hangs on nothing of ours: no run, no experiment. ``found`` is the whole point as JSON, what else there is finds
# it; ``digest`` tells the files of a session from others of the same name.
imported_point = Table(
    "imported_point",
    metadata,
    Column("id", Key, primary_key=True),
    Column("owner", Key, nullable=False),
    Column("source", Key, nullable=False),
    Column("tool", Key, nullable=False),
    Column("series", Key, nullable=False),
    Column("benchmark", Key, nullable=False),
    Column("at", Double, nullable=False),
    Column("digest", Key, nullable=False),
    Column("found", Text, nullable=False),
    Index("ix_imported_point_at", "at", "id"),
    Index("ix_imported_point_owner", "owner", "at", "id"),
    Index("ix_imported_point_series", "series", "at", "id"),
)
