"""An index for each foreign key that had none: without it every row that goes has the database walk the other table.

Revision: 0007, after 0006.
"""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("ix_label_experiment", "label", ["experiment_id"])
    op.create_index("ix_idempotency_experiment", "idempotency", ["experiment_id"])
    op.create_index("ix_result_attempt", "result", ["attempt_id"])


def downgrade() -> None:
    op.drop_index("ix_result_attempt", "result")
    op.drop_index("ix_idempotency_experiment", "idempotency")
    op.drop_index("ix_label_experiment", "label")
