"""The table of points: which series a cell belongs to, and what its runs came to."""

from sqlalchemy import Column, Double, ForeignKey, Index, PrimaryKeyConstraint, Table, Text

from orchestrator.db.tables.metadata import Key, metadata

# A cell has a row for each workload that its runs have shown (GPUs of several models are several workloads).
# ``created_at`` is that of the experiment. ``found`` is what the runs came to as JSON, and ``version`` made it
# (``db.run.cell_rows``); a row whose key is empty has only these.
point = Table(
    "point",
    metadata,
    Column("experiment_id", Key, ForeignKey("experiment.id"), nullable=False),
    Column("cell_key", Key, nullable=False),
    Column("workload_key", Key, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("version", Key),
    Column("found", Text),
    PrimaryKeyConstraint("experiment_id", "cell_key", "workload_key"),
    Index("ix_point_workload", "workload_key", "created_at", "experiment_id", "cell_key"),
    sqlite_with_rowid=False,
)
