"""The table of browsers' sessions.

Revision: v0002, after v0001.
"""

import sqlalchemy as sa
from alembic import op

from orchestrator.db.tables.metadata import Key

revision = "v0002"
down_revision = "v0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "session",
        sa.Column("id", Key, primary_key=True),
        sa.Column("token_id", Key, sa.ForeignKey("token.id"), nullable=False),
        sa.Column("secret_sha256", Key, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("expires_at", sa.Double, nullable=False),
    )
    op.create_index("ix_session_expires", "session", ["expires_at"])
    op.create_index("ix_session_token", "session", ["token_id", "created_at", "id"])


def downgrade() -> None:
    op.drop_table("session")
