"""The table of alerts."""

from sqlalchemy import Column, Double, Index, Table, Text

from orchestrator.db.tables.metadata import Key, metadata

# A row hangs on no experiment: an alert outlives its confirmation. ``told`` is JSON.
alert = Table(
    "alert",
    metadata,
    Column("id", Key, primary_key=True),
    Column("schedule_id", Key, nullable=False),
    Column("state", Key, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("updated_at", Double, nullable=False),
    Column("experiment_id", Key),
    Column("told", Text, nullable=False),
    Index("ix_alert_created", "created_at", "id"),
    Index("ix_alert_schedule", "schedule_id", "created_at", "id"),
    Index("ix_alert_state", "state", "created_at", "id"),
)
