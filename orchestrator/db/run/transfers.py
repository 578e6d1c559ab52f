"""What netbenches found: one row per operation, size, ranks and load of a run."""

from sqlalchemy import Connection, insert, select

from orchestrator.db.reading import rows
from orchestrator.db.run import of_runs
from orchestrator.db.tables.schema import attempt, exchange, run
from orchestrator.domain.runs.filters import TransferFilter
from orchestrator.domain.runs.stored import Page, StoredTransfer
from orchestrator.domain.value.measurement import Analysis

_ASKED = ("run_id", "topology", "fabric", "library", "operation", "device", "busy_cores", "valid")


def add(connection: Connection, run_id: str, analysis: Analysis) -> None:
    """Store those of ``analysis``."""
    if not analysis.transfers:
        return
    latest = select(attempt.c.placement).where(attempt.c.run_id == run_id).order_by(attempt.c.number.desc()).limit(1)
    placement = connection.execute(latest).scalar_one_or_none()
    plan = rows.plan_of(connection.execute(select(run.c.plan).where(run.c.id == run_id)).scalar_one())
    shared = of_runs.shared(connection, run_id, analysis) | {
        "topology": plan.topology,
        "fabric": plan.fabric,
        "device": plan.device,
        "nodes": rows.to_text(sorted(rows.placement_of(placement).nodes) if placement else []),
    }
    found = [
        shared | one.to_json() | {"id": of_runs.identifier(run_id, position), "ranks": rows.to_text(list(one.ranks))}
        for position, one in enumerate(analysis.transfers)
    ]
    connection.execute(insert(exchange), found)


def page(
    connection: Connection, wanted: TransferFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[StoredTransfer]:
    """See ``domain.ports.Store.transfers``."""
    wanted = wanted or TransferFilter()
    query = of_runs.matching(exchange, wanted, *_ASKED)
    if wanted.nodes is not None:
        query = query.where(exchange.c.nodes == rows.to_text(sorted(wanted.nodes)))
    return of_runs.page(connection, query, exchange, stored, limit, cursor)


def stored(row: rows.AnyRow) -> StoredTransfer:
    """Raises ``DamagedRow``."""
    return of_runs.stored(exchange, StoredTransfer, row, "ranks", "nodes")
