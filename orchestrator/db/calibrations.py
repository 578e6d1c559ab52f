"""What calibrations found: one row per device and arithmetic of a run."""

from collections.abc import Sequence

from pydantic import TypeAdapter
from sqlalchemy import Connection, Select, delete, insert, select

from orchestrator.db import paging, rows
from orchestrator.db.schema import calibration, experiment, run
from orchestrator.domain.calibration import Calibration, DeviceKey
from orchestrator.domain.filters import CalibrationFilter
from orchestrator.domain.measurement import Analysis
from orchestrator.domain.stored import Page, StoredCalibration

_CALIBRATION = TypeAdapter(Calibration)

# Positions count down in the ids, because lists are paged from the highest id to the lowest.
_HIGHEST = 99_999


def replace(connection: Connection, run_id: str, analysis: Analysis | None) -> None:
    """Store those of ``analysis`` in place of what an earlier attempt of the run may have left."""
    connection.execute(delete(calibration).where(calibration.c.run_id == run_id))
    if analysis is None or not analysis.calibrations:
        return
    created_at = connection.execute(select(run.c.created_at).where(run.c.id == run_id)).scalar_one()
    shared = {
        "run_id": run_id,
        "created_at": created_at,
        "valid": analysis.validity.sound,
        "code_version": analysis.code_version,
    }
    found = []
    for position, one in enumerate(analysis.calibrations):
        before = connection.execute(_valid(_key(one), one.arithmetic).where(calibration.c.created_at <= created_at))
        row = before.first()
        own = one.to_json() | {"shape": rows.to_text(list(one.shape)), "rates": rows.to_text(dict(one.rates))}
        own |= {"id": f"{run_id}-{_HIGHEST - position:05d}"}
        found.append(shared | own | {"previous_flops_per_s": row.flops_per_s if row else None})
    connection.execute(insert(calibration), found)


def page(
    connection: Connection, owner: str | None, wanted: CalibrationFilter, limit: int, cursor: str | None
) -> Page[StoredCalibration]:
    """See ``domain.ports.Store.calibrations``."""
    query = select(calibration, run.c.experiment_id).join(run, run.c.id == calibration.c.run_id)
    if owner is not None:
        query = query.join(experiment, experiment.c.id == run.c.experiment_id).where(experiment.c.owner == owner)
    if wanted.experiment_id is not None:
        query = query.where(run.c.experiment_id == wanted.experiment_id)
    for name in ("run_id", "node", "device_id", "device_name", "arithmetic", "valid"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(calibration.c[name] == value)
    found, next_cursor = paging.page(connection, query, calibration, limit, cursor)
    made, damaged = rows.sorted_out(found, stored)
    return Page(made, next_cursor, damaged)


def latest(connection: Connection, devices: Sequence[DeviceKey], arithmetic: str) -> dict[DeviceKey, StoredCalibration]:
    """See ``domain.ports.Store.calibrated``."""
    found: dict[DeviceKey, StoredCalibration] = {}
    for key in devices:
        row = connection.execute(_valid(key, arithmetic)).first()
        for one in rows.sorted_out([] if row is None else [row], stored)[0]:
            found[key] = one
    return found


def _key(one: Calibration) -> DeviceKey:
    return DeviceKey(one.node, one.device_id, one.device_name, one.cores)


def _valid(key: DeviceKey, arithmetic: str) -> Select[tuple[object, ...]]:
    """The valid ones of a device, the newest first."""
    own = calibration.c
    return (
        select(calibration, run.c.experiment_id)
        .join(run, run.c.id == own.run_id)
        .where(own.node == key.node, own.device_id == key.device_id, own.arithmetic == arithmetic)
        .where(own.device_name == key.device_name, own.cores == key.cores, own.valid)
        .order_by(own.created_at.desc(), own.id.desc())
        .limit(1)
    )


def stored(row: rows.AnyRow) -> StoredCalibration:
    """Raises ``DamagedRow``."""
    return rows.read("calibration", row.id, row.experiment_id, lambda: _stored(row))


def _stored(row: rows.AnyRow) -> StoredCalibration:
    fields = {name: getattr(row, name) for name in Calibration.__dataclass_fields__}
    m, n, k = rows.names_of(row.shape)
    own = Calibration(**fields | {"shape": (m, n, k), "rates": rows.loaded(row.rates)})
    _CALIBRATION.validate_python(vars(own))
    return StoredCalibration(
        experiment_id=row.experiment_id,
        run_id=row.run_id,
        created_at=rows.time_of(row.created_at),
        valid=row.valid,
        calibration=own,
        previous_flops_per_s=row.previous_flops_per_s,
        code_version=row.code_version,
    )
