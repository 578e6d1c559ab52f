"""What netbenches and calibrations have in common as tables: a row is one of the things that a run has found."""

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import Connection, Select, Table, select

from orchestrator.db.reading import owners, paging, rows
from orchestrator.db.tables.schema import experiment, run
from orchestrator.domain.runs.filters import CalibrationFilter, TransferFilter
from orchestrator.domain.runs.stored import Page, StoredCalibration, StoredTransfer
from orchestrator.domain.value.measurement import Analysis

Stored = TypeVar("Stored", StoredCalibration, StoredTransfer)

_KINDS: dict[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (StoredCalibration, StoredTransfer)}

# Positions count down in the ids, because lists are paged from the highest id to the lowest.
_HIGHEST = 99_999


def identifier(run_id: str, position: int) -> str:
    """The id of what the run found as number ``position``, from 0."""
    return f"{run_id}-{_HIGHEST - position:05d}"


def shared(connection: Connection, run_id: str, analysis: Analysis) -> dict[str, Any]:
    """The columns that are the same for all that the run found."""
    return {
        "run_id": run_id,
        "created_at": connection.execute(select(run.c.created_at).where(run.c.id == run_id)).scalar_one(),
        "valid": analysis.validity.sound,
        "code_version": analysis.code_version,
    }


def matching(table: Table, wanted: TransferFilter | CalibrationFilter, *names: str) -> Select[Any]:
    """The rows of ``table``, each with its experiment's id, that agree with ``wanted``; ``names``: its own columns."""
    query = select(table, run.c.experiment_id).join(run, run.c.id == table.c.run_id)
    query = query.join(experiment, experiment.c.id == run.c.experiment_id).where(owners.seen(wanted.owner))
    query = paging.agreeing(query, run, wanted, "experiment_id")
    return paging.agreeing(query, table, wanted, *names)


def page(
    connection: Connection,
    query: Select[Any],
    table: Table,
    stored: Callable[[rows.AnyRow], Stored],
    limit: int,
    cursor: str | None,
) -> Page[Stored]:
    """A page of the rows of ``query`` (over ``table``), each as ``stored`` makes it."""
    found, next_cursor = paging.page(connection, query, table, limit, cursor)
    made, damaged = rows.sorted_out(found, stored)
    return Page(made, next_cursor, damaged)


def stored(table: Table, kind: type[Stored], row: rows.AnyRow, *columns: str) -> Stored:
    """What a row of ``table`` holds; ``columns`` are those that hold JSON.

    Raises:
        DamagedRow: it cannot be read.
    """

    def made() -> Stored:
        fields = {name: getattr(row, name) for name in kind.__dataclass_fields__}
        fields |= {name: rows.loaded(fields[name]) for name in columns} | {"created_at": rows.time_of(row.created_at)}
        found: Stored = _KINDS[kind].validate_python(fields)
        return found

    return rows.read(table.name, row.id, row.experiment_id, made)
