"""What probes found, a table for each kind of them: a row is one of the things that a run has found.

Of a netbench one for each operation, size, ranks and load; of a calibration one for each device and arithmetic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Connection, Select, Table, insert, select

from orchestrator.db.reading import owners, paging, rows
from orchestrator.db.tables.schema import attempt, calibration, exchange, experiment, run
from orchestrator.domain.runs.filters import CalibrationFilter, TransferFilter
from orchestrator.domain.runs.stored import Page, StoredCalibration, StoredTransfer
from orchestrator.domain.value.calibration import Calibration, DeviceKey
from orchestrator.domain.value.measurement import Analysis

Stored = TypeVar("Stored", StoredCalibration, StoredTransfer)

# Positions count down in the ids, because lists are paged from the highest id to the lowest.
_HIGHEST = 99_999


@dataclass(frozen=True)
class Kind(Generic[Stored]):
    """What one kind of probe finds. ``asked``: the columns by which its rows can be found."""

    table: Table
    reader: TypeAdapter[Stored]
    asked: Sequence[str]

    def stored(self, row: rows.AnyRow) -> Stored:
        """What a row of the table holds, with its experiment's id.

        Raises:
            DamagedRow: it cannot be read.
        """

        def made() -> Stored:
            of_run = {name: getattr(row, name) for name in ("run_id", "experiment_id", "valid")}
            of_run["created_at"] = rows.time_of(row.created_at)
            return self.reader.validate_python(rows.loaded(row.found) | of_run)

        return rows.read(self.table.name, row.id, row.experiment_id, made)


TRANSFERS = Kind(
    exchange,
    TypeAdapter(StoredTransfer),
    asked=("run_id", "topology", "fabric", "library", "operation", "device", "busy_cores", "valid"),
)
CALIBRATIONS = Kind(
    calibration,
    TypeAdapter(StoredCalibration),
    asked=("run_id", "node", "device_id", "device_name", "arithmetic", "valid"),
)
KINDS: tuple[Kind[Any], ...] = (TRANSFERS, CALIBRATIONS)


def add(connection: Connection, run_id: str, analysis: Analysis) -> None:
    """Store what ``analysis`` has of them."""
    if analysis.transfers:
        place = _place(connection, run_id)
        _insert(connection, TRANSFERS, run_id, analysis, [one.to_json() | place for one in analysis.transfers])
    if analysis.calibrations:
        before = [_before(connection, run_id, one) for one in analysis.calibrations]
        found = [one.to_json() | more for one, more in zip(analysis.calibrations, before, strict=True)]
        _insert(connection, CALIBRATIONS, run_id, analysis, found)


def _place(connection: Connection, run_id: str) -> dict[str, Any]:
    latest = select(attempt.c.placement).where(attempt.c.run_id == run_id).order_by(attempt.c.number.desc()).limit(1)
    placement = connection.execute(latest).scalar_one_or_none()
    plan = rows.plan_of(connection.execute(select(run.c.plan).where(run.c.id == run_id)).scalar_one())
    nodes = sorted(rows.placement_of(placement).nodes) if placement else []
    return {"topology": str(plan.topology), "fabric": plan.fabric, "device": plan.device, "nodes": nodes}


def _before(connection: Connection, run_id: str, one: Calibration) -> dict[str, Any]:
    key = DeviceKey(one.node, one.device_id, one.device_name, one.cores)
    earlier = _newest(connection, key, one.arithmetic, calibration.c.created_at <= _created_at(connection, run_id))
    return {"previous_flops_per_s": earlier.flops_per_s if earlier else None}


def _created_at(connection: Connection, run_id: str) -> float:
    found: float = connection.execute(select(run.c.created_at).where(run.c.id == run_id)).scalar_one()
    return found


def _insert(
    connection: Connection, kind: Kind[Any], run_id: str, analysis: Analysis, found: Sequence[Mapping[str, Any]]
) -> None:
    shared = {
        "run_id": run_id,
        "created_at": _created_at(connection, run_id),
        "valid": analysis.validity.sound,
    }
    made = []
    for position, one in enumerate(found):
        named = {name: one[name] for name in kind.table.columns.keys() if name in one}  # noqa: SIM118
        columns = {name: rows.to_text(value) if isinstance(value, list) else value for name, value in named.items()}
        whole = rows.to_text({**one, "code_version": analysis.code_version})
        made.append(shared | columns | {"id": f"{run_id}-{_HIGHEST - position:05d}", "found": whole})
    connection.execute(insert(kind.table), made)


def transfers(
    connection: Connection, wanted: TransferFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[StoredTransfer]:
    """See ``domain.ports.Store.transfers``."""
    return _page(connection, TRANSFERS, wanted or TransferFilter(), limit, cursor)


def calibrations(
    connection: Connection, wanted: CalibrationFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[StoredCalibration]:
    """See ``domain.ports.Store.calibrations``."""
    return _page(connection, CALIBRATIONS, wanted or CalibrationFilter(), limit, cursor)


def _page(
    connection: Connection,
    kind: Kind[Stored],
    wanted: TransferFilter | CalibrationFilter,
    limit: int,
    cursor: str | None,
) -> Page[Stored]:
    table = kind.table
    query = every(kind).join(experiment, experiment.c.id == run.c.experiment_id)
    query = paging.agreeing(query.where(owners.seen(wanted.owner)), run, wanted, "experiment_id")
    query = paging.agreeing(query, table, wanted, *kind.asked)
    if isinstance(wanted, TransferFilter) and wanted.nodes is not None:
        query = query.where(table.c.nodes == rows.to_text(sorted(wanted.nodes)))
    found, next_cursor = paging.page(connection, query, table, limit, cursor)
    made, damaged = rows.sorted_out(found, kind.stored)
    return Page(made, next_cursor, damaged)


def every(kind: Kind[Any]) -> Select[Any]:
    """All rows of a kind, each with its experiment's id."""
    return select(kind.table, run.c.experiment_id).join(run, run.c.id == kind.table.c.run_id)


def latest(connection: Connection, devices: Sequence[DeviceKey], arithmetic: str) -> dict[DeviceKey, StoredCalibration]:
    """See ``domain.ports.Store.calibrated``."""
    found = {key: _newest(connection, key, arithmetic) for key in devices}
    return {key: one for key, one in found.items() if one is not None}


def _newest(
    connection: Connection, key: DeviceKey, arithmetic: str, *conditions: ColumnElement[bool]
) -> StoredCalibration | None:
    """The newest valid one of a device; none where that cannot be read."""
    own = calibration.c
    query = (
        every(CALIBRATIONS)
        .where(own.node == key.node, own.device_id == key.device_id, own.arithmetic == arithmetic)
        .where(own.device_name == key.device_name, own.cores == key.cores, own.valid, *conditions)
        .order_by(own.created_at.desc(), own.id.desc())
        .limit(1)
    )
    made, _ = rows.sorted_out(connection.execute(query), CALIBRATIONS.stored)
    return made[0] if made else None
