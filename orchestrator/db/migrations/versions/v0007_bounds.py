"""How long the agents of an attempt live without contact, when its processes were last known to live, and by when
everything of an experiment has to be over.

Revision: v0007, after v0006.
"""

import sqlalchemy as sa
from alembic import op

revision = "v0007"
down_revision = "v0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("fence_s", "alive_at"):
        op.add_column("attempt", sa.Column(name, sa.Double))
    op.add_column("experiment", sa.Column("deadline_at", sa.Double))


def downgrade() -> None:
    op.drop_column("experiment", "deadline_at")
    for name in ("alive_at", "fence_s"):
        op.drop_column("attempt", name)
