"""What calibrations found: one row per device and arithmetic of a run."""

from collections.abc import Sequence

from sqlalchemy import Connection, Select, insert, select

from orchestrator.db.reading import rows
from orchestrator.db.run import of_runs
from orchestrator.db.tables.schema import calibration, run
from orchestrator.domain.runs.filters import CalibrationFilter
from orchestrator.domain.runs.stored import Page, StoredCalibration
from orchestrator.domain.value.calibration import Calibration, DeviceKey
from orchestrator.domain.value.measurement import Analysis

_ASKED = ("run_id", "node", "device_id", "device_name", "arithmetic", "valid")


def add(connection: Connection, run_id: str, analysis: Analysis) -> None:
    """Store those of ``analysis``."""
    if not analysis.calibrations:
        return
    shared = of_runs.shared(connection, run_id, analysis)
    found = []
    for position, one in enumerate(analysis.calibrations):
        earlier = _valid(_key(one), one.arithmetic).where(calibration.c.created_at <= shared["created_at"])
        before = connection.execute(earlier).first()
        own = one.to_json() | {"shape": rows.to_text(list(one.shape)), "rates": rows.to_text(dict(one.rates))}
        own |= {"id": of_runs.identifier(run_id, position)}
        found.append(shared | own | {"previous_flops_per_s": before.flops_per_s if before else None})
    connection.execute(insert(calibration), found)


def page(
    connection: Connection, wanted: CalibrationFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[StoredCalibration]:
    """See ``domain.ports.Store.calibrations``."""
    wanted = wanted or CalibrationFilter()
    return of_runs.page(connection, of_runs.matching(calibration, wanted, *_ASKED), calibration, stored, limit, cursor)


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
    return of_runs.stored(calibration, StoredCalibration, row, "shape", "rates")
