"""What netbenches found: one row per operation, size, ranks and load of a run."""

from pydantic import TypeAdapter
from sqlalchemy import Connection, delete, insert, select

from orchestrator.db import paging, rows
from orchestrator.db.schema import attempt, exchange, experiment, run
from orchestrator.domain.filters import TransferFilter
from orchestrator.domain.measurement import Analysis, Transfer
from orchestrator.domain.stored import Page, StoredTransfer

_TRANSFER = TypeAdapter(Transfer)

# Positions count down in the ids, because lists are paged from the highest id to the lowest.
_HIGHEST = 99_999


def replace(connection: Connection, run_id: str, analysis: Analysis | None) -> None:
    """Store those of ``analysis`` in place of what an earlier attempt of the run may have left."""
    connection.execute(delete(exchange).where(exchange.c.run_id == run_id))
    if analysis is None or not analysis.transfers:
        return
    latest = select(attempt.c.placement).where(attempt.c.run_id == run_id).order_by(attempt.c.number.desc()).limit(1)
    of = connection.execute(select(run.c.created_at, run.c.plan).where(run.c.id == run_id)).one()
    placement = connection.execute(latest).scalar_one_or_none()
    plan = rows.plan_of(of.plan)
    shared = {
        "run_id": run_id,
        "created_at": of.created_at,
        "valid": analysis.validity.sound,
        "topology": plan.topology,
        "fabric": plan.fabric,
        "device": plan.device,
        "nodes": rows.to_text(sorted(rows.placement_of(placement).nodes) if placement else []),
        "code_version": analysis.code_version,
    }
    connection.execute(
        insert(exchange), [shared | _own(run_id, position, one) for position, one in enumerate(analysis.transfers)]
    )


def _own(run_id: str, position: int, one: Transfer) -> dict[str, object]:
    return one.to_json() | {"id": f"{run_id}-{_HIGHEST - position:05d}", "ranks": rows.to_text(list(one.ranks))}


def page(
    connection: Connection, owner: str | None, wanted: TransferFilter, limit: int, cursor: str | None
) -> Page[StoredTransfer]:
    """See ``domain.ports.Store.transfers``."""
    query = select(exchange, run.c.experiment_id).join(run, run.c.id == exchange.c.run_id)
    if owner is not None:
        query = query.join(experiment, experiment.c.id == run.c.experiment_id).where(experiment.c.owner == owner)
    if wanted.experiment_id is not None:
        query = query.where(run.c.experiment_id == wanted.experiment_id)
    if wanted.nodes is not None:
        query = query.where(exchange.c.nodes == rows.to_text(sorted(wanted.nodes)))
    for name in ("run_id", "topology", "fabric", "library", "operation", "device", "busy_cores", "valid"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(exchange.c[name] == value)
    found, next_cursor = paging.page(connection, query, exchange, limit, cursor)
    made, damaged = rows.sorted_out(found, stored)
    return Page(made, next_cursor, damaged)


def stored(row: rows.AnyRow) -> StoredTransfer:
    """Raises ``DamagedRow``."""
    return rows.read("exchange", row.id, row.experiment_id, lambda: _stored(row))


def _stored(row: rows.AnyRow) -> StoredTransfer:
    fields = {name: getattr(row, name) for name in Transfer.__dataclass_fields__}
    own = Transfer(**fields | {"ranks": tuple(rows.names_of(row.ranks))})
    _TRANSFER.validate_python(vars(own))
    return StoredTransfer(
        experiment_id=row.experiment_id,
        run_id=row.run_id,
        created_at=rows.time_of(row.created_at),
        valid=row.valid,
        topology=row.topology,
        fabric=row.fabric,
        device=row.device,
        nodes=tuple(rows.names_of(row.nodes)),
        transfer=own,
        code_version=row.code_version,
    )
