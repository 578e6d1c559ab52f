"""The table of alerts of the regression gate.

Revision: v0004, after v0003.
"""

import sqlalchemy as sa
from alembic import op

from orchestrator.db.tables.metadata import Key

revision = "v0004"
down_revision = "v0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "alert",
        sa.Column("id", Key, primary_key=True),
        sa.Column("schedule_id", Key, nullable=False),
        sa.Column("state", Key, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("updated_at", sa.Double, nullable=False),
        sa.Column("experiment_id", Key),
        sa.Column("told", sa.Text, nullable=False),
    )
    op.create_index("ix_alert_created", "alert", ["created_at", "id"])
    op.create_index("ix_alert_schedule", "alert", ["schedule_id", "created_at", "id"])
    op.create_index("ix_alert_state", "alert", ["state", "created_at", "id"])


def downgrade() -> None:
    op.drop_table("alert")
