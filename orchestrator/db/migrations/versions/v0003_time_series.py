"""The table of what is drawn of a run over its time. Runs that ended before get theirs when somebody looks.

Revision: v0003, after v0002.
"""

import sqlalchemy as sa
from alembic import op

from orchestrator.db.tables.metadata import Key

revision = "v0003"
down_revision = "v0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "time_series",
        sa.Column("run_id", Key, sa.ForeignKey("run.id"), nullable=False),
        sa.Column("metric", Key, nullable=False),
        sa.Column("subject", Key, nullable=False),
        sa.Column("level", sa.Integer, nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("first_s", sa.Double, nullable=False),
        sa.Column("last_s", sa.Double, nullable=False),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("at_s", sa.LargeBinary, nullable=False),
        sa.Column("least", sa.LargeBinary, nullable=False),
        sa.Column("greatest", sa.LargeBinary),
        sa.PrimaryKeyConstraint("run_id", "metric", "subject", "level", "part"),
    )
    columns = ["run_id", "metric", "subject", "level", "first_s", "last_s", "n"]
    op.create_index("ix_time_series_part", "time_series", columns)


def downgrade() -> None:
    op.drop_table("time_series")
