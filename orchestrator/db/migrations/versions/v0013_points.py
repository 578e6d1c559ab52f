"""Points: which series the cells belong to.

Revision: 0013, after 0012.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "point",
        sa.Column("experiment_id", KEY, sa.ForeignKey("experiment.id"), nullable=False),
        sa.Column("cell_key", KEY, nullable=False),
        sa.Column("workload_key", KEY, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("stamp", KEY),
        sa.Column("found", sa.Text),
        sa.PrimaryKeyConstraint("experiment_id", "cell_key", "workload_key"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_point_workload", "point", ["workload_key", "created_at", "experiment_id", "cell_key"])
    op.create_index("ix_cell_same", "cell", ["cell_key", "created_at", "id"])
    # A fingerprint that names no device tells no workload (``cells.workload_of``).
    op.execute(
        "INSERT INTO point (experiment_id, cell_key, workload_key, created_at) "
        "SELECT DISTINCT cell.experiment_id, cell.cell_key, result.workload_key, cell.created_at "
        "FROM cell JOIN run ON run.experiment_id = cell.experiment_id AND run.cell_key = cell.cell_key "
        "JOIN result ON result.run_id = run.id WHERE result.workload_key IS NOT NULL "
        "AND result.fingerprint LIKE '%\"device_models\":[%' AND result.fingerprint NOT LIKE '%\"device_models\":[]%'"
    )


def downgrade() -> None:
    op.drop_index("ix_cell_same", "cell")
    op.drop_table("point")
