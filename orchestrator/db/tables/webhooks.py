"""The tables of webhooks and of the outbox: messages, and for whom they wait."""

from sqlalchemy import Column, Double, ForeignKey, Index, Integer, PrimaryKeyConstraint, Table, Text, text

from orchestrator.db.tables.metadata import Key, metadata

# The secret stands here as it is: who signs needs it.
webhook = Table(
    "webhook",
    metadata,
    Column("id", Key, primary_key=True),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("n_delivered", Integer, nullable=False, server_default=text("0")),
    Column("n_given_up", Integer, nullable=False, server_default=text("0")),
    Column("last_message_id", Key),
    Column("last_at", Double),
    Column("last_answer", Text),
    Column("failing_since", Double),
    Index("ix_webhook_created", "created_at", "id"),
)

# A message is there as long as it waits for somebody.
message = Table(
    "message",
    metadata,
    Column("id", Key, primary_key=True),
    Column("created_at", Double, nullable=False),
    Column("until", Double, nullable=False),
    Column("body", Text, nullable=False),
)

delivery = Table(
    "delivery",
    metadata,
    Column("webhook_id", Key, ForeignKey("webhook.id"), nullable=False),
    Column("message_id", Key, ForeignKey("message.id"), nullable=False),
    Column("due_at", Double, nullable=False),
    Column("tries", Integer, nullable=False),
    PrimaryKeyConstraint("webhook_id", "message_id"),
    Index("ix_delivery_due", "webhook_id", "due_at", "message_id"),
    Index("ix_delivery_message", "message_id"),
)
