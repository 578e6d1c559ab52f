"""Experiments may be paused, and their runs with them: the queue is looked through without those.

Revision: 0010, after 0009.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

ORDER: list[Any] = [sa.text("priority DESC"), "created_at", "id"]


def upgrade() -> None:
    for table in ("experiment", "run"):
        op.add_column(table, sa.Column("paused", sa.Boolean, nullable=False, server_default=sa.text("false")))
    op.drop_index("ix_run_queue", "run")
    op.create_index("ix_run_queue", "run", ["state", "cancel_requested", "paused", "needs", *ORDER])


def downgrade() -> None:
    op.drop_index("ix_run_queue", "run")
    op.create_index("ix_run_queue", "run", ["state", "cancel_requested", "needs", *ORDER])
    for table in ("run", "experiment"):
        op.drop_column(table, "paused")
