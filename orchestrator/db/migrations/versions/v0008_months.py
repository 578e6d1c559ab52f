"""For which run the devices of an attempt were kept, and when its readings were removed.

Revision: v0008, after v0007.
"""

import sqlalchemy as sa
from alembic import op

from orchestrator.db.tables.metadata import Key

revision = "v0008"
down_revision = "v0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempt", sa.Column("lent_by", Key))
    op.add_column("attempt", sa.Column("thinned_at", sa.Double))
    op.create_index("ix_attempt_ended", "attempt", ["ended_at", "id"])


def downgrade() -> None:
    op.drop_index("ix_attempt_ended", "attempt")
    for name in ("thinned_at", "lent_by"):
        op.drop_column("attempt", name)
