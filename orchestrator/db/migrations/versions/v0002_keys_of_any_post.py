"""An idempotency key may come with any POST, not only with one that stores an experiment.

Revision: 0002, after 0001.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.alter_column("idempotency", "experiment_id", nullable=True)
    else:
        _rebuild(nullable=True)


def downgrade() -> None:
    op.execute("DELETE FROM idempotency WHERE experiment_id IS NULL")
    if op.get_context().dialect.name == "postgresql":
        op.alter_column("idempotency", "experiment_id", nullable=False)
    else:
        _rebuild(nullable=False)


def _rebuild(nullable: bool) -> None:
    """SQLite changes no column in place."""
    op.rename_table("idempotency", "idempotency_before")
    op.create_table(
        "idempotency",
        sa.Column("owner", KEY, nullable=False),
        sa.Column("key", KEY, nullable=False),
        sa.Column("body_sha256", KEY, nullable=False),
        sa.Column(
            "experiment_id",
            KEY,
            sa.ForeignKey("experiment.id", deferrable=True, initially="DEFERRED"),
            nullable=nullable,
        ),
        sa.PrimaryKeyConstraint("owner", "key"),
        sqlite_with_rowid=False,
    )
    op.execute("INSERT INTO idempotency SELECT owner, key, body_sha256, experiment_id FROM idempotency_before")
    op.drop_table("idempotency_before")
