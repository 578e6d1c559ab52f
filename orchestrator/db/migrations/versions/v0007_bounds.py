"""How long the agents of an attempt live without contact, when its processes were last known to live, by when
everything of an experiment has to be over, and whose turn it is.

Revision: v0007, after v0006.
"""

import sqlalchemy as sa
from alembic import op

from orchestrator.db.tables.metadata import Key

revision = "v0007"
down_revision = "v0006"
branch_labels = None
depends_on = None

_WAITS = ["state", "cancel_requested", "paused", "needs"]
_ORDER = [sa.text("priority DESC"), sa.text("created_at"), sa.text("id")]


def upgrade() -> None:
    for name in ("fence_s", "alive_at"):
        op.add_column("attempt", sa.Column(name, sa.Double))
    op.add_column("experiment", sa.Column("deadline_at", sa.Double))
    op.add_column("run", sa.Column("owner", Key, nullable=False, server_default=sa.text("''")))
    op.execute("UPDATE run SET owner = (SELECT owner FROM experiment WHERE experiment.id = run.experiment_id)")
    op.drop_index("ix_run_queue", "run")
    op.create_index("ix_run_queue", "run", [*_WAITS, "owner", *_ORDER])
    op.create_table(
        "owner_use",
        sa.Column("owner", Key, primary_key=True),
        sa.Column("device_s", sa.Double, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
    )


def downgrade() -> None:
    op.drop_table("owner_use")
    op.drop_index("ix_run_queue", "run")
    op.create_index("ix_run_queue", "run", [*_WAITS, *_ORDER])
    op.drop_column("run", "owner")
    op.drop_column("experiment", "deadline_at")
    for name in ("alive_at", "fence_s"):
        op.drop_column("attempt", name)
