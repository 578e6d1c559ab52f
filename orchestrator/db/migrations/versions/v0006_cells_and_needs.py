"""Results are paged by cells, the queue is read by what runs ask for, and runs are counted: rows and indexes for that.

Revision: 0006, after 0005.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
HIGHEST = 9_999_999
PART = 1000

# What this migration reads and writes of the tables, as they are while it runs.
EXPERIMENT = sa.table("experiment", sa.column("id"), sa.column("owner"), sa.column("created_at"))
RESULT = sa.table("result", sa.column("run_id"), sa.column("fingerprint"))
RUN = sa.table(
    "run",
    *(sa.column(name) for name in ("id", "experiment_id", "plan", "cell_key", "model", "framework", "created_at")),
    sa.column("needs"),
)
CELL = sa.table(
    "cell",
    *(sa.column(name) for name in ("id", "experiment_id", "owner", "created_at", "cell_key", "model", "framework")),
    sa.column("device_models"),
)


def upgrade() -> None:
    op.create_table("waiting", sa.Column("needs", KEY, primary_key=True), sa.Column("reason", sa.Text, nullable=False))
    op.create_table(
        "cell",
        sa.Column("id", KEY, primary_key=True),
        sa.Column("experiment_id", KEY, sa.ForeignKey("experiment.id"), nullable=False),
        sa.Column("owner", KEY, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("cell_key", KEY, nullable=False),
        sa.Column("model", KEY, nullable=False),
        sa.Column("framework", KEY, nullable=False),
        sa.Column("device_models", KEY),
        sa.UniqueConstraint("experiment_id", "cell_key"),
    )
    op.create_table(
        "run_count",
        sa.Column("experiment_id", KEY, sa.ForeignKey("experiment.id"), nullable=False),
        sa.Column("state", KEY, nullable=False),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("experiment_id", "state"),
        sqlite_with_rowid=False,
    )
    op.execute("INSERT INTO run_count SELECT experiment_id, state, count(*) FROM run GROUP BY experiment_id, state")
    op.add_column("run", sa.Column("needs", KEY, nullable=False, server_default=sa.text("''")))
    _fill_needs()
    _fill_cells()
    op.drop_column("run", "waiting")
    _index()


def _index() -> None:
    op.drop_index("ix_run_model", "run")
    op.create_index("ix_run_model", "run", ["model", "created_at", "id", "state", "framework"])
    op.create_index("ix_run_framework", "run", ["framework", "created_at", "id", "state"])
    op.create_index("ix_run_cell", "run", ["experiment_id", "cell_key", "created_at", "id"])
    op.create_index("ix_run_same", "run", ["cell_key", "state", "created_at", "id"])
    op.create_index("ix_run_left", "run", ["experiment_id", "state"])
    queue: list[str | sa.TextClause] = [
        "state",
        "cancel_requested",
        "needs",
        sa.text("priority DESC"),
        "created_at",
        "id",
    ]
    op.create_index("ix_run_queue", "run", queue)
    op.create_index("ix_cell_experiment", "cell", ["experiment_id", "created_at", "id"])
    op.create_index("ix_cell_owner", "cell", ["owner", "created_at", "id", "device_models"])
    names = ["created_at", "id", "framework", "device_models"]
    op.create_index("ix_cell_model", "cell", ["owner", "model", *names])
    op.create_index("ix_cell_framework", "cell", ["owner", "framework", "created_at", "id", "device_models"])


def _fill_needs() -> None:
    """What the plan of each run asks of nodes, as ``domain.plan.Needs`` had it when this was written."""
    connection = op.get_bind()
    for part in _parts(sa.select(RUN.c.id, RUN.c.plan)):
        new = [{"its_id": row.id, "its_needs": _needs(json.loads(row.plan))} for row in part]
        statement = sa.update(RUN).where(RUN.c.id == sa.bindparam("its_id")).values(needs=sa.bindparam("its_needs"))
        connection.execute(statement, new)


def _parts(query: sa.Select[Any]) -> Iterator[list[Any]]:
    """The rows of ``query`` over runs, some at a time, in the order of the runs' ids."""
    connection = op.get_bind()
    last = ""
    while part := connection.execute(query.where(RUN.c.id > last).order_by(RUN.c.id).limit(PART)).all():
        yield list(part)
        last = part[-1].id


def _needs(plan: dict[str, Any]) -> str:
    nodes, devices = (int(number) for number in plan["topology"].split("x"))
    needs = {
        "nodes": nodes,
        "devices_per_node": devices,
        "device": plan["device"],
        "gpu_model": plan.get("gpu_model"),
        "node_names": sorted(plan.get("node_names") or ()),
        "fabric": plan.get("fabric") if nodes > 1 else None,
    }
    return hashlib.sha256(json.dumps(needs, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


def _fill_cells() -> None:
    """A row for each cell, numbered within its experiment by the age of its first run."""
    connection = op.get_bind()
    first = sa.func.min(RUN.c.created_at).label("first_at"), sa.func.min(RUN.c.id).label("first_id")
    names = sa.func.min(RUN.c.model).label("model"), sa.func.min(RUN.c.framework).label("framework")
    experiments = {row.id: row for row in connection.execute(sa.select(EXPERIMENT))}
    query = sa.select(RUN.c.experiment_id, RUN.c.cell_key, *first, *names)
    found = connection.execute(query.group_by(RUN.c.experiment_id, RUN.c.cell_key)).all()
    models = _device_models()
    number, before, new = 0, None, []
    for row in sorted(found, key=lambda row: (row.experiment_id, row.first_at, row.first_id)):
        number = number + 1 if row.experiment_id == before else 0
        before = row.experiment_id
        of = experiments[row.experiment_id]
        new.append(
            {
                "id": f"{of.id}-{HIGHEST - number:07d}",
                "experiment_id": of.id,
                "owner": of.owner,
                "created_at": of.created_at,
                "cell_key": row.cell_key,
                "model": row.model,
                "framework": row.framework,
                "device_models": models.get((of.id, row.cell_key)),
            }
        )
    for start in range(0, len(new), PART):
        connection.execute(sa.insert(CELL), new[start : start + PART])


def _device_models() -> dict[tuple[str, str], str]:
    """(experiment, cell) -> the GPUs on which it ran, where it ran on any."""
    query = sa.select(RUN.c.id, RUN.c.experiment_id, RUN.c.cell_key, RESULT.c.fingerprint)
    query = query.join_from(RUN, RESULT, RESULT.c.run_id == RUN.c.id).where(RESULT.c.fingerprint.is_not(None))
    found = {}
    for part in _parts(query):
        for row in part:
            workload = json.loads(row.fingerprint).get("workload") or {}
            if workload.get("device") == "cuda" and workload.get("device_models"):
                names = ", ".join(workload["device_models"]).lower()
                found[row.experiment_id, row.cell_key] = json.dumps(names)[1:-1]
    return found


def downgrade() -> None:
    op.drop_index("ix_run_queue", "run")
    for name in ("same", "cell", "left", "framework", "model"):
        op.drop_index(f"ix_run_{name}", "run")
    op.create_index("ix_run_model", "run", ["model", "created_at", "id"])
    op.add_column("run", sa.Column("waiting", sa.Text))
    op.drop_column("run", "needs")
    op.drop_table("run_count")
    op.drop_table("cell")
    op.drop_table("waiting")
