"""The tables of schedules, of what became of their times, and of where experiments came from."""

from sqlalchemy import Boolean, Column, Double, ForeignKey, Index, Integer, Table, Text, UniqueConstraint

from orchestrator.db.tables.metadata import Key, metadata

# ``spec`` is JSON as it was accepted. ``considered_until``: every time up to it has its fire; ``due_at``: when the next
# one is to be considered. Whoever changes a row raises ``version``, and changes it only where it is what was read.
schedule = Table(
    "schedule",
    metadata,
    Column("id", Key, primary_key=True),
    Column("name", Key, nullable=False),
    Column("owner", Key, nullable=False),
    Column("cron", Key, nullable=False),
    Column("timezone", Key, nullable=False),
    Column("spec", Text, nullable=False),
    Column("misfire", Key, nullable=False),
    Column("max_age_s", Double, nullable=False),
    Column("overlap", Key, nullable=False),
    Column("jitter_s", Double, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("considered_until", Double, nullable=False),
    Column("due_at", Double),
    Column("version", Integer, nullable=False),
    UniqueConstraint("name"),
    Index("ix_schedule_created", "created_at", "id"),
    Index("ix_schedule_owner", "owner", "created_at", "id"),
    Index("ix_schedule_due", "due_at"),
    Index("ix_schedule_considered", "considered_until"),
)

# One row for each time, whatever became of it: that there is one keeps every server from firing it again. It names its
# experiment without hanging on it: a night stays on record when its experiment is removed.
fire = Table(
    "fire",
    metadata,
    Column("id", Key, primary_key=True),
    Column("schedule_id", Key, ForeignKey("schedule.id"), nullable=False),
    Column("fire_at", Double, nullable=False),
    Column("due_at", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("trigger", Key, nullable=False),
    Column("state", Key, nullable=False),
    Column("reason", Text),
    Column("experiment_id", Key),
    Column("n_times", Integer, nullable=False),
    UniqueConstraint("schedule_id", "fire_at"),
    Index("ix_fire_state", "state", "schedule_id", "fire_at", "id"),
)

# Which schedule and which fire made an experiment. It goes with the experiment, and outlives the schedule.
origin = Table(
    "origin",
    metadata,
    Column("experiment_id", Key, ForeignKey("experiment.id"), primary_key=True),
    Column("schedule_id", Key, nullable=False),
    Column("fire_id", Key, nullable=False),
    Column("fire_at", Double, nullable=False),
    Index("ix_origin_schedule", "schedule_id", "experiment_id"),
)
