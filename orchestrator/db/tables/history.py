"""The table of points: which series a cell belongs to, and what was computed of it."""

from sqlalchemy import Column, Double, ForeignKey, Index, PrimaryKeyConstraint, Table, Text

from orchestrator.db.tables.metadata import Key, metadata

# A cell has a row for each workload that its runs have shown (GPUs of several models are several workloads). Where none
# has been shown the key is empty, and the row only keeps what was computed. ``created_at`` is that of the experiment.
# ``found`` is the point as JSON, computed of those runs that ``stamp`` tells of; it may be computed anew at any time.
point = Table(
    "point",
    metadata,
    Column("experiment_id", Key, ForeignKey("experiment.id"), nullable=False),
    Column("cell_key", Key, nullable=False),
    Column("workload_key", Key, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("stamp", Key),
    Column("found", Text),
    PrimaryKeyConstraint("experiment_id", "cell_key", "workload_key"),
    Index("ix_point_workload", "workload_key", "created_at", "experiment_id", "cell_key"),
    sqlite_with_rowid=False,
)
