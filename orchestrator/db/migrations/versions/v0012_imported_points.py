"""Points that other tools measured.

Revision: 0012, after 0011.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "imported_point",
        sa.Column("id", KEY, primary_key=True),
        sa.Column("owner", KEY, nullable=False),
        sa.Column("source", KEY, nullable=False),
        sa.Column("tool", KEY, nullable=False),
        sa.Column("tool_version", KEY),
        sa.Column("series", KEY, nullable=False),
        sa.Column("session", KEY, nullable=False),
        sa.Column("benchmark", KEY, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.Column("throughput", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("workload", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("rig", sa.Text, nullable=False),
        sa.Column("processes", sa.Text, nullable=False),
        sa.Column("digest", KEY, nullable=False),
        sa.Column("imported_at", sa.Double, nullable=False),
    )
    op.create_index("ix_imported_point_at", "imported_point", ["at", "id"])
    op.create_index("ix_imported_point_owner", "imported_point", ["owner", "at", "id"])
    op.create_index("ix_imported_point_series", "imported_point", ["series", "at", "id"])


def downgrade() -> None:
    op.drop_table("imported_point")
