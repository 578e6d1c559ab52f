"""The tables, and the revision of the schema that this code speaks.

JSON stands in text columns, ASCII only: both databases hold every text that JSON can escape (NUL, lone surrogates),
which PostgreSQL's own JSON types do not. Times are seconds since the epoch.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from orchestrator.db.tables.access import deed, session, token  # noqa: F401 - whoever takes tables from here knows them all
from orchestrator.db.tables.alerts import alert  # noqa: F401
from orchestrator.db.tables.history import point  # noqa: F401
from orchestrator.db.tables.imported import imported_point  # noqa: F401
from orchestrator.db.tables.metadata import Count, Key, metadata
from orchestrator.db.tables.predictions import prediction  # noqa: F401
from orchestrator.db.tables.schedule import fire, origin, schedule  # noqa: F401
from orchestrator.db.tables.service import device_event, heartbeat, node_order, server  # noqa: F401
from orchestrator.db.tables.webhooks import delivery, message, webhook  # noqa: F401

# The newest migration; a test holds them equal. So opening a database that is up to date does not import alembic.
REVISION = "v0008"

experiment = Table(
    "experiment",
    metadata,
    Column("id", Key, primary_key=True),
    Column("owner", Key, nullable=False),
    Column("name", Key, nullable=False),
    Column("spec", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("state", Key, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("cancel_requested", Boolean, nullable=False),
    Column("paused", Boolean, nullable=False, server_default=text("false")),
    Column("deadline_at", Double),
    Index("ix_experiment_created", "created_at", "id"),
    Index("ix_experiment_owner", "owner", "created_at", "id"),
    Index("ix_experiment_name", "name", "created_at", "id"),
    Index("ix_experiment_state", "state", "created_at", "id"),
)

# Labels stand in the spec; this copy is for finding. ``name`` and ``value`` as ``rows.searchable`` writes them;
# ``newest_run_at``: when the newest run of the experiment was made, 0 where it has none.
label = Table(
    "label",
    metadata,
    Column("name", Key, nullable=False),
    Column("value", Key, nullable=False),
    Column("experiment_id", Key, ForeignKey("experiment.id"), nullable=False),
    Column("newest_run_at", Double, nullable=False, server_default=text("0")),
    PrimaryKeyConstraint("name", "value", "experiment_id"),
    Index("ix_label_experiment", "experiment_id"),
    Index("ix_label_runs", "name", "value", "newest_run_at", "experiment_id"),
    sqlite_with_rowid=False,
)

# Written before the experiment that it names, in the same transaction: hence the deferred constraint. A request that
# stores no experiment names none.
idempotency = Table(
    "idempotency",
    metadata,
    Column("owner", Key, nullable=False),
    Column("key", Key, nullable=False),
    Column("body_sha256", Key, nullable=False),
    Column("experiment_id", Key, ForeignKey("experiment.id", deferrable=True, initially="DEFERRED")),
    PrimaryKeyConstraint("owner", "key"),
    Index("ix_idempotency_experiment", "experiment_id"),
    sqlite_with_rowid=False,
)

run = Table(
    "run",
    metadata,
    Column("id", Key, primary_key=True),
    Column("experiment_id", Key, ForeignKey("experiment.id"), nullable=False),
    Column("plan", Text, nullable=False),
    Column("plan_key", Key, nullable=False),
    Column("cell_key", Key, nullable=False),
    Column("model", Key, nullable=False),
    Column("framework", Key, nullable=False),
    Column("state", Key, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("cancel_requested", Boolean, nullable=False),
    Column("failure", Text),
    # What its plan asks of nodes (``Plan.needs``): runs that ask for the same are placed alike.
    Column("needs", Key, nullable=False, server_default=text("''")),
    Column("paused", Boolean, nullable=False, server_default=text("false")),  # its experiment is
    Column("owner", Key, nullable=False, server_default=text("''")),  # of its experiment
    UniqueConstraint("experiment_id", "plan_key"),
    # What lists may also be filtered by stands at the end of an index: rows that do not match are passed over there.
    Index("ix_run_created", "created_at", "id"),
    Index("ix_run_experiment", "experiment_id", "created_at", "id", "state"),
    Index("ix_run_state", "state", "created_at", "id"),
    Index("ix_run_model", "model", "created_at", "id", "state", "framework"),
    Index("ix_run_framework", "framework", "created_at", "id", "state"),
    Index("ix_run_cell", "experiment_id", "cell_key", "created_at", "id"),
    Index("ix_run_same", "cell_key", "state", "created_at", "id"),
    Index("ix_run_left", "experiment_id", "state"),
)
# The queue: what is to be cancelled, and by what is asked for and by owner the order of placing.
Index(
    "ix_run_queue",
    run.c.state,
    run.c.cancel_requested,
    run.c.paused,
    run.c.needs,
    run.c.owner,
    run.c.priority.desc(),
    run.c.created_at,
    run.c.id,
)

# The cells of experiments in the order of their sweeps: lists of results are pages of these. ``created_at`` is that of
# the experiment; numbers count down in the ids, because lists are paged from the highest id to the lowest.
# ``device_models``: the GPUs on which it ran, as ``rows.searchable`` writes them; NULL for other devices, or not yet.
cell = Table(
    "cell",
    metadata,
    Column("id", Key, primary_key=True),
    Column("experiment_id", Key, ForeignKey("experiment.id"), nullable=False),
    Column("owner", Key, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("cell_key", Key, nullable=False),
    Column("model", Key, nullable=False),
    Column("framework", Key, nullable=False),
    Column("device_models", Key),
    UniqueConstraint("experiment_id", "cell_key"),
    Index("ix_cell_experiment", "experiment_id", "created_at", "id"),
    Index("ix_cell_created", "created_at", "id", "device_models"),
    Index("ix_cell_owner", "owner", "created_at", "id", "device_models"),
    Index("ix_cell_model", "model", "created_at", "id", "framework", "device_models"),
    Index("ix_cell_framework", "framework", "created_at", "id", "device_models"),
    Index("ix_cell_same", "cell_key", "created_at", "id"),
)

# How many runs of an experiment are in each state.
run_count = Table(
    "run_count",
    metadata,
    Column("experiment_id", Key, ForeignKey("experiment.id"), nullable=False),
    Column("state", Key, nullable=False),
    Column("runs", Integer, nullable=False),
    PrimaryKeyConstraint("experiment_id", "state"),
    sqlite_with_rowid=False,
)

# Why queued runs that ask for the same (``run.needs``) are not placed.
waiting = Table(
    "waiting",
    metadata,
    Column("needs", Key, primary_key=True),
    Column("reason", Text, nullable=False),
)

attempt = Table(
    "attempt",
    metadata,
    Column("id", Key, primary_key=True),
    Column("run_id", Key, ForeignKey("run.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("token", Key, nullable=False),
    Column("placement", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("failure", Text),
    Column("stop_requested", Key),
    Column("fence_s", Double),  # of its agents, as they told
    Column("alive_at", Double),  # where it was over for the database: when its processes were last known to live
    Column("lent_by", Key),  # the run for which some of its devices were kept when it began
    Column("thinned_at", Double),  # when its readings were removed
    UniqueConstraint("run_id", "number"),
    Index("ix_attempt_ended", "ended_at", "id"),
)

# What the attempts of an owner that are over have used, as much as counts at ``at``: see ``run.turns``.
owner_use = Table(
    "owner_use",
    metadata,
    Column("owner", Key, primary_key=True),
    Column("device_s", Double, nullable=False),
    Column("at", Double, nullable=False),
)

# What the latest concluded attempt of a run came to: apart from ``run``, so that lists stay light. ``throughput`` is
# that of the analysis, where it is a finite number.
result = Table(
    "result",
    metadata,
    Column("run_id", Key, ForeignKey("run.id"), primary_key=True),
    Column("attempt_id", Key, ForeignKey("attempt.id")),
    Column("analysis", Text),
    Column("throughput", Double),
    Column("fingerprint", Text),
    Column("workload_key", Key),
    Index("ix_result_workload", "workload_key"),
    Index("ix_result_attempt", "attempt_id"),
)

# What netbenches found: the rows of ``result.analysis`` with where they were measured, for questions across runs.
# ``found`` is the whole of it as JSON, and the other columns find it. ``id`` makes pages list a run's rows in the order
# in which they were measured; ``nodes`` is a JSON list, sorted.
exchange = Table(
    "exchange",
    metadata,
    Column("id", Key, primary_key=True),
    Column("run_id", Key, ForeignKey("run.id"), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("valid", Boolean, nullable=False),
    Column("topology", Key, nullable=False),
    Column("fabric", Key),
    Column("device", Key, nullable=False),
    Column("nodes", Key, nullable=False),
    Column("library", Key, nullable=False),
    Column("operation", Key, nullable=False),
    Column("busy_cores", Boolean, nullable=False),
    Column("found", Text, nullable=False),
    Index("ix_exchange_created", "created_at", "id"),
    Index("ix_exchange_run", "run_id"),
)

# What the profiling phases of a run have found, as JSON: long tables, which only who asks for them reads.
profile = Table(
    "profile",
    metadata,
    Column("run_id", Key, ForeignKey("run.id"), primary_key=True),
    Column("found", Text, nullable=False),
)

# What is drawn of a run over its time (``db.run.time_series``): the points of one part of one level as packed doubles.
# The index has all that says which parts are to be read.
time_series = Table(
    "time_series",
    metadata,
    Column("run_id", Key, ForeignKey("run.id"), nullable=False),
    Column("metric", Key, nullable=False),
    Column("subject", Key, nullable=False),
    Column("level", Integer, nullable=False),
    Column("part", Integer, nullable=False),
    Column("first_s", Double, nullable=False),
    Column("last_s", Double, nullable=False),
    Column("n", Integer, nullable=False),
    Column("at_s", LargeBinary, nullable=False),
    Column("least", LargeBinary, nullable=False),
    Column("greatest", LargeBinary),
    PrimaryKeyConstraint("run_id", "metric", "subject", "level", "part"),
    Index("ix_time_series_part", "run_id", "metric", "subject", "level", "first_s", "last_s", "n"),
)

# What calibrations found, likewise: a row per device and arithmetic of a run.
calibration = Table(
    "calibration",
    metadata,
    Column("id", Key, primary_key=True),
    Column("run_id", Key, ForeignKey("run.id"), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("valid", Boolean, nullable=False),
    Column("node", Key, nullable=False),
    Column("device_id", Key, nullable=False),
    Column("device_name", Key, nullable=False),
    Column("cores", Integer, nullable=False),
    Column("arithmetic", Key, nullable=False),
    Column("found", Text, nullable=False),
    Index("ix_calibration_created", "created_at", "id"),
    Index("ix_calibration_run", "run_id"),
    Index("ix_calibration_device", "node", "device_id", "arithmetic", "created_at"),
)

# The event logs. ``body`` is the entry as it came, whatever keys it has.
entry = Table(
    "entry",
    metadata,
    Column("attempt_id", Key, ForeignKey("attempt.id"), nullable=False),
    Column("node", Key, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("kind", Key, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("attempt_id", "node", "seq"),
    Index("ix_entry_kind", "attempt_id", "kind", "node", "seq"),
    sqlite_with_rowid=False,
)

# Rows are never deleted from the newest end, so SQLite's plain row numbers grow without AUTOINCREMENT.
change = Table(
    "change",
    metadata,
    Column("number", Count, primary_key=True),
    Column("at", Double, nullable=False),
    Column("experiment_id", Key, ForeignKey("experiment.id"), nullable=False),
    Column("run_id", Key),
    Column("state", Key, nullable=False),
    Column("data", Text, nullable=False),
    Index("ix_change_experiment", "experiment_id", "number"),
)
