"""Schedules, what became of their times, and which experiments they made.

Revision: 0011, after 0010.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "schedule",
        sa.Column("id", KEY, primary_key=True),
        sa.Column("name", KEY, nullable=False),
        sa.Column("owner", KEY, nullable=False),
        sa.Column("cron", KEY, nullable=False),
        sa.Column("timezone", KEY, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("misfire", KEY, nullable=False),
        sa.Column("max_age_s", sa.Double, nullable=False),
        sa.Column("overlap", KEY, nullable=False),
        sa.Column("jitter_s", sa.Double, nullable=False),
        sa.Column("paused", sa.Boolean, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("considered_until", sa.Double, nullable=False),
        sa.Column("due_at", sa.Double),
        sa.Column("version", sa.Integer, nullable=False),
        sa.UniqueConstraint("name"),
    )
    op.create_index("ix_schedule_created", "schedule", ["created_at", "id"])
    op.create_index("ix_schedule_owner", "schedule", ["owner", "created_at", "id"])
    op.create_index("ix_schedule_due", "schedule", ["due_at"])
    op.create_index("ix_schedule_considered", "schedule", ["considered_until"])
    _of_times()


def _of_times() -> None:
    op.create_table(
        "fire",
        sa.Column("id", KEY, primary_key=True),
        sa.Column("schedule_id", KEY, sa.ForeignKey("schedule.id"), nullable=False),
        sa.Column("fire_at", sa.Double, nullable=False),
        sa.Column("due_at", sa.Double, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("trigger", KEY, nullable=False),
        sa.Column("state", KEY, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("experiment_id", KEY),
        sa.Column("n_times", sa.Integer, nullable=False),
        sa.UniqueConstraint("schedule_id", "fire_at"),
    )
    op.create_index("ix_fire_state", "fire", ["state", "schedule_id", "fire_at", "id"])
    op.create_table(
        "origin",
        sa.Column("experiment_id", KEY, sa.ForeignKey("experiment.id"), primary_key=True),
        sa.Column("schedule_id", KEY, nullable=False),
        sa.Column("fire_id", KEY, nullable=False),
        sa.Column("fire_at", sa.Double, nullable=False),
    )
    op.create_index("ix_origin_schedule", "origin", ["schedule_id", "experiment_id"])


def downgrade() -> None:
    for table in ("origin", "fire", "schedule"):
        op.drop_table(table)
