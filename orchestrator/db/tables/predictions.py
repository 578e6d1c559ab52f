"""The table of predictions."""

from sqlalchemy import Column, Double, Index, Table, Text

from orchestrator.db.tables.metadata import Key, metadata

# A row hangs on no run: a prediction outlives what it was made of. ``plan`` and ``told`` are JSON.
prediction = Table(
    "prediction",
    metadata,
    Column("id", Key, primary_key=True),
    Column("owner", Key, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("model", Key, nullable=False),
    Column("framework", Key, nullable=False),
    Column("strategy", Key, nullable=False),
    Column("plan", Text, nullable=False),
    Column("told", Text, nullable=False),
    Index("ix_prediction_created", "created_at", "id"),
    Index("ix_prediction_owner", "owner", "created_at", "id"),
    Index("ix_prediction_of", "framework", "strategy", "created_at", "id"),
)
