"""The first schema, whole.

Revision: 0001, after none.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
COUNT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "experiment",
        sa.Column("id", KEY, primary_key=True),
        sa.Column("owner", KEY, nullable=False),
        sa.Column("name", KEY, nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("facts", sa.Text, nullable=False),
        sa.Column("state", KEY, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
    )
    op.create_table(
        "label",
        sa.Column("name", KEY, nullable=False),
        sa.Column("value", KEY, nullable=False),
        sa.Column("experiment_id", KEY, sa.ForeignKey("experiment.id"), nullable=False),
        sa.PrimaryKeyConstraint("name", "value", "experiment_id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "idempotency",
        sa.Column("owner", KEY, nullable=False),
        sa.Column("key", KEY, nullable=False),
        sa.Column("body_sha256", KEY, nullable=False),
        sa.Column(
            "experiment_id", KEY, sa.ForeignKey("experiment.id", deferrable=True, initially="DEFERRED"), nullable=False
        ),
        sa.PrimaryKeyConstraint("owner", "key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run",
        sa.Column("id", KEY, primary_key=True),
        sa.Column("experiment_id", KEY, sa.ForeignKey("experiment.id"), nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("plan_key", KEY, nullable=False),
        sa.Column("cell_key", KEY, nullable=False),
        sa.Column("model", KEY, nullable=False),
        sa.Column("framework", KEY, nullable=False),
        sa.Column("state", KEY, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("waiting", sa.Text),
        sa.Column("failure", sa.Text),
        sa.UniqueConstraint("experiment_id", "plan_key"),
    )
    op.create_table(
        "attempt",
        sa.Column("id", KEY, primary_key=True),
        sa.Column("run_id", KEY, sa.ForeignKey("run.id"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("token", KEY, nullable=False),
        sa.Column("placement", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("failure", sa.Text),
        sa.Column("stop_requested", KEY),
        sa.UniqueConstraint("run_id", "number"),
    )
    op.create_table(
        "result",
        sa.Column("run_id", KEY, sa.ForeignKey("run.id"), primary_key=True),
        sa.Column("attempt_id", KEY, sa.ForeignKey("attempt.id")),
        sa.Column("analysis", sa.Text),
        sa.Column("valid", sa.Boolean),
        sa.Column("fingerprint", sa.Text),
        sa.Column("workload_key", KEY),
        sa.Column("subject_key", KEY),
        sa.Column("rig_key", KEY),
    )
    op.create_table(
        "measurement",
        sa.Column("run_id", KEY, sa.ForeignKey("run.id"), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("metric", KEY, nullable=False),
        sa.Column("subject", KEY),
        sa.Column("value", sa.Double),
        sa.Column("unit", KEY, nullable=False),
        sa.Column("ci_low", sa.Double),
        sa.Column("ci_high", sa.Double),
        sa.Column("confidence", sa.Double),
        sa.Column("n", sa.Double),
        sa.Column("method", KEY, nullable=False),
        sa.Column("code_version", KEY, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "position"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "entry",
        sa.Column("attempt_id", KEY, sa.ForeignKey("attempt.id"), nullable=False),
        sa.Column("node", KEY, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("kind", KEY, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("attempt_id", "node", "seq"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "change",
        sa.Column("number", COUNT, primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("experiment_id", KEY, sa.ForeignKey("experiment.id"), nullable=False),
        sa.Column("run_id", KEY),
        sa.Column("state", KEY, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
    )
    op.create_table(
        "node_order",
        sa.Column("node", KEY, primary_key=True),
        sa.Column("state", KEY, nullable=False),
    )
    op.create_table(
        "heartbeat",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("beats", COUNT, nullable=False),
    )
    op.create_index("ix_experiment_created", "experiment", ["created_at", "id"])
    op.create_index("ix_experiment_owner", "experiment", ["owner", "created_at", "id"])
    op.create_index("ix_experiment_name", "experiment", ["name", "created_at", "id"])
    op.create_index("ix_experiment_state", "experiment", ["state", "created_at", "id"])
    op.create_index("ix_run_created", "run", ["created_at", "id"])
    op.create_index("ix_run_experiment", "run", ["experiment_id", "created_at", "id", "state"])
    op.create_index("ix_run_state", "run", ["state", "created_at", "id"])
    op.create_index("ix_run_model", "run", ["model", "created_at", "id"])
    op.create_index("ix_result_workload", "result", ["workload_key"])
    op.create_index("ix_entry_kind", "entry", ["attempt_id", "kind", "node", "seq"])
    op.create_index("ix_change_experiment", "change", ["experiment_id", "number"])
    op.execute("INSERT INTO heartbeat (id, beats) VALUES (1, 0)")


def downgrade() -> None:
    op.drop_table("heartbeat")
    op.drop_table("node_order")
    op.drop_table("change")
    op.drop_table("entry")
    op.drop_table("measurement")
    op.drop_table("result")
    op.drop_table("attempt")
    op.drop_table("run")
    op.drop_table("idempotency")
    op.drop_table("label")
    op.drop_table("experiment")
