"""What netbenches find gets a table of its own.

Revision: 0003, after 0002.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "exchange",
        sa.Column("id", KEY, primary_key=True),
        sa.Column("run_id", KEY, sa.ForeignKey("run.id"), nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("valid", sa.Boolean, nullable=False),
        sa.Column("topology", KEY, nullable=False),
        sa.Column("fabric", KEY),
        sa.Column("device", KEY, nullable=False),
        sa.Column("nodes", KEY, nullable=False),
        sa.Column("library", KEY, nullable=False),
        sa.Column("operation", KEY, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("world_size", sa.Integer, nullable=False),
        sa.Column("ranks", KEY, nullable=False),
        sa.Column("busy_cores", sa.Boolean, nullable=False),
        sa.Column("repetitions", sa.Integer, nullable=False),
        sa.Column("duration_min_s", sa.Double, nullable=False),
        sa.Column("duration_p50_s", sa.Double, nullable=False),
        sa.Column("duration_mean_s", sa.Double, nullable=False),
        sa.Column("duration_p90_s", sa.Double, nullable=False),
        sa.Column("duration_max_s", sa.Double, nullable=False),
        sa.Column("algorithm_bytes_per_s", sa.Double, nullable=False),
        sa.Column("bus_bytes_per_s", sa.Double, nullable=False),
        sa.Column("code_version", KEY, nullable=False),
    )
    op.create_index("ix_exchange_created", "exchange", ["created_at", "id"])
    op.create_index("ix_exchange_run", "exchange", ["run_id"])


def downgrade() -> None:
    op.drop_table("exchange")
