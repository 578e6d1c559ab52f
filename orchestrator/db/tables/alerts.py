"""The table of alerts."""

from sqlalchemy import Boolean, Column, Double, Index, Table, Text, text

from orchestrator.db.tables.metadata import Key, metadata

# A row hangs on no experiment: an alert outlives its confirmation. ``told`` is JSON. ``is_untold``: it became what
# webhooks are told of, and no message has told of it.
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
    Column("is_untold", Boolean, nullable=False, server_default=text("false")),
    Index("ix_alert_created", "created_at", "id"),
    Index("ix_alert_schedule", "schedule_id", "created_at", "id"),
    Index("ix_alert_state", "state", "created_at", "id"),
    Index("ix_alert_untold", "is_untold", "updated_at"),
)
