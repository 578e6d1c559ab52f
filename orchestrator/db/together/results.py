"""What a run came to: the end of its attempt, analysis, fingerprint and profiles in one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, select

from orchestrator.db.access.device_events import add as add_events
from orchestrator.db.history import points
from orchestrator.db.reading import rows
from orchestrator.db.run import cell_rows, cells, probes, profiles, runs, time_series, turns
from orchestrator.db.tables import schema
from orchestrator.db.tables.schema import attempt, result
from orchestrator.domain.around.device_health import DeviceEvent
from orchestrator.domain.runs.run import TERMINAL, RunState
from orchestrator.domain.value.failure import Failure
from orchestrator.domain.value.measurement import Analysis


def conclude(
    connection: Connection,
    run_id: str,
    to: RunState,
    *,
    at: float,
    failure: Failure | None = None,
    analysis: Analysis | None = None,
    fingerprint: Mapping[str, Any] | None = None,
    device_events: Sequence[DeviceEvent] = (),
) -> bool:
    """See ``domain.ports.Store.conclude``. A run that goes back to the queue keeps its failure at the attempt only."""
    if not runs.move(connection, run_id, RunState.COLLECTING, to, at=at, failure=failure, analysis=analysis):
        return False
    turns.note(connection, run_id, at)
    add_events(connection, device_events)
    if analysis is not None or fingerprint is not None:
        replace_result(connection, run_id, analysis, fingerprint or {})
    if to in TERMINAL:
        cell_rows.keep(connection, run_id)
    return True


def move(
    connection: Connection, run_id: str, expected: RunState, to: RunState, *, at: float, failure: Failure | None = None
) -> bool:
    """See ``domain.ports.Store.move_run``."""
    moved = runs.move(connection, run_id, expected, to, at=at, failure=failure)
    if moved and to in TERMINAL:
        cell_rows.keep(connection, run_id)
    return moved


def replace_result(
    connection: Connection, run_id: str, analysis: Analysis | None, fingerprint: Mapping[str, Any]
) -> None:
    """Of several attempts the latest counts."""
    for table in (*(kind.table for kind in probes.KINDS), schema.profile, schema.time_series, schema.result):
        connection.execute(delete(table).where(table.c.run_id == run_id))
    numbers = select(func.max(attempt.c.number)).where(attempt.c.run_id == run_id).scalar_subquery()
    latest = select(attempt.c.id).where(attempt.c.run_id == run_id, attempt.c.number == numbers)
    row = {
        "run_id": run_id,
        "attempt_id": connection.execute(latest).scalar_one_or_none(),
        "analysis": rows.json_or_none(analysis.to_json() if analysis else None),
        "throughput": rows.throughput_of(analysis),
        "fingerprint": rows.json_or_none(dict(fingerprint) or None),
        "workload_key": fingerprint.get("workload_key"),
    }
    connection.execute(result.insert(), row)
    cells.note_devices(connection, run_id, fingerprint)
    points.note_workload(connection, run_id, fingerprint)
    if analysis is None:
        return
    probes.add(connection, run_id, analysis)
    profiles.add(connection, run_id, analysis.profiles)
    time_series.add(connection, run_id, analysis.time_series)
