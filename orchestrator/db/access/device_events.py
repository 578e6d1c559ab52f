"""What happened to devices: events, which end when they count no more, and stay."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection, select, update

from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import paging, rows
from orchestrator.db.tables.schema import device_event
from orchestrator.domain.around.device_health import DeviceEvent, EventKind
from orchestrator.domain.runs.stored import Page

_INSERT = Insert(device_event, unless_same=("id",))


def add(connection: Connection, events: Sequence[DeviceEvent]) -> int:
    """See ``domain.ports.Store.add_device_events``."""
    made = [rows.values_of(device_event, one, created_at=one.at, kind=one.kind.value) for one in events]
    return sum(_INSERT.one(connection, one) for one in made)


def open_ones(connection: Connection, crashes_after: float) -> list[DeviceEvent]:
    """See ``domain.ports.Store.open_device_events``."""
    columns = device_event.c
    recent = columns.created_at >= crashes_after
    query = select(device_event).where(columns.ended_at.is_(None), (columns.kind != EventKind.CRASH.value) | recent)
    found, _ = rows.sorted_out(connection.execute(query.order_by(columns.created_at, columns.id)), read)
    return found


def page(
    connection: Connection, node: str, device: str, *, limit: int = 50, cursor: str | None = None
) -> Page[DeviceEvent]:
    query = select(device_event).where(device_event.c.node == node, device_event.c.device == device)
    found, next_cursor = paging.page(connection, query, device_event, limit, cursor)
    events, damaged = rows.sorted_out(found, read)
    return Page(events, next_cursor, damaged)


def end(connection: Connection, node: str, device: str, at: float, kinds: Collection[EventKind]) -> int:
    """Those of a device that are open and of ``kinds`` count no more; how many."""
    columns = device_event.c
    which = (columns.node == node, columns.device == device, columns.ended_at.is_(None))
    ending = update(device_event).where(*which, among(columns.kind, [kind.value for kind in kinds])).values(ended_at=at)
    return connection.execute(ending).rowcount


def read(row: rows.AnyRow) -> DeviceEvent:
    """Raises ``DamagedRow``."""
    return rows.read(
        "device_event",
        row.id,
        None,
        lambda: rows.made_of(DeviceEvent, row, at=row.created_at, kind=EventKind(row.kind)),
    )
