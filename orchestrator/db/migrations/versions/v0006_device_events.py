"""What happened to devices.

Revision: v0006, after v0005.
"""

import sqlalchemy as sa
from alembic import op

from orchestrator.db.tables.metadata import Key

revision = "v0006"
down_revision = "v0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "device_event",
        sa.Column("id", Key, primary_key=True),
        sa.Column("node", Key, nullable=False),
        sa.Column("device", Key, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("kind", Key, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("code", sa.Integer),
        sa.Column("boot_id", Key),
        sa.Column("cell_key", Key),
        sa.Column("run_id", Key),
        sa.Column("ended_at", sa.Double),
    )
    op.create_index("ix_device_event_device", "device_event", ["node", "device", "created_at", "id"])
    op.create_index("ix_device_event_open", "device_event", ["ended_at", "kind", "created_at"])


def downgrade() -> None:
    op.drop_table("device_event")
