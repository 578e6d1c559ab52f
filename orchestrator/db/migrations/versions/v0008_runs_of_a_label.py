"""Labels say when the newest run of their experiment was made: where a list of a label's runs begins and ends.

Revision: 0008, after 0007.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("label", sa.Column("newest_run_at", sa.Double, nullable=False, server_default=sa.text("0")))
    newest = "SELECT max(run.created_at) FROM run WHERE run.experiment_id = label.experiment_id"
    op.execute(f"UPDATE label SET newest_run_at = coalesce(({newest}), 0)")
    op.create_index("ix_label_runs", "label", ["name", "value", "newest_run_at", "experiment_id"])


def downgrade() -> None:
    op.drop_index("ix_label_runs", "label")
    op.drop_column("label", "newest_run_at")
