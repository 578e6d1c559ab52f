"""Webhooks, the messages that wait for them, and which alerts no message has told of.

Revision: v0005, after v0004.
"""

import sqlalchemy as sa
from alembic import op

from orchestrator.db.tables.metadata import Key

revision = "v0005"
down_revision = "v0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("alert", sa.Column("is_untold", sa.Boolean, nullable=False, server_default=sa.text("false")))
    op.create_index("ix_alert_untold", "alert", ["is_untold", "updated_at"])
    op.create_table(
        "webhook",
        sa.Column("id", Key, primary_key=True),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("n_delivered", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("n_given_up", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("last_message_id", Key),
        sa.Column("last_at", sa.Double),
        sa.Column("last_answer", sa.Text),
        sa.Column("failing_since", sa.Double),
    )
    op.create_index("ix_webhook_created", "webhook", ["created_at", "id"])
    op.create_table(
        "message",
        sa.Column("id", Key, primary_key=True),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "delivery",
        sa.Column("webhook_id", Key, sa.ForeignKey("webhook.id"), nullable=False),
        sa.Column("message_id", Key, sa.ForeignKey("message.id"), nullable=False),
        sa.Column("due_at", sa.Double, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("webhook_id", "message_id"),
    )
    op.create_index("ix_delivery_due", "delivery", ["webhook_id", "due_at", "message_id"])
    op.create_index("ix_delivery_message", "delivery", ["message_id"])


def downgrade() -> None:
    for table in ("delivery", "message", "webhook"):
        op.drop_table(table)
    op.drop_index("ix_alert_untold", "alert")
    op.drop_column("alert", "is_untold")
