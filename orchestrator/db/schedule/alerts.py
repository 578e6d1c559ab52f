"""Alerts: their rows. What the functions promise stands in ``domain.around.alerts``."""

from sqlalchemy import Connection, select, update

from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import paging, rows
from orchestrator.db.tables.alerts import alert
from orchestrator.domain.around.alerts import MOVES, TOLD_OF, Alert, AlertFilter, AlertState, Told
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.words.errors import NotFound

_INSERT = Insert(alert, unless_same=["id"])


def add(connection: Connection, new: Alert) -> bool:
    told = rows.to_text(new.told.to_json())
    row = rows.values_of(alert, new, told=told, is_untold=new.state in TOLD_OF)
    return _INSERT.one(connection, row) == 1


def move(
    connection: Connection,
    alert_id: str,
    expected: AlertState,
    to: AlertState,
    told: Told,
    at: float,
    seen_at: float | None = None,
) -> bool:
    if to is not expected and to not in MOVES[expected]:
        raise ValueError(f"an alert cannot move from {expected} to {to}")
    still = update(alert).where(alert.c.id == alert_id, alert.c.state == expected.value)
    if seen_at is not None:
        still = still.where(alert.c.updated_at == seen_at)
    values = {"state": to.value, "told": rows.to_text(told.to_json()), "updated_at": at}
    if to in TOLD_OF and to is not expected:
        values["is_untold"] = True
    return connection.execute(still.values(values)).rowcount == 1


def one(connection: Connection, alert_id: str) -> Alert:
    found = connection.execute(select(alert).where(alert.c.id == alert_id)).one_or_none()
    if found is None:
        raise NotFound("alert", alert_id)
    return read(found)


def page(
    connection: Connection, wanted: AlertFilter | None = None, *, limit: int = 50, cursor: str | None = None
) -> Page[Alert]:
    asked = paging.agreeing(select(alert), alert, wanted or AlertFilter(), "schedule_id", "state")
    found, next_cursor = paging.page(connection, asked, alert, limit, cursor)
    made, damaged = rows.sorted_out(found, read)
    return Page(made, next_cursor, damaged)


def read(row: rows.AnyRow) -> Alert:
    """Raises DamagedRow."""

    def made() -> Alert:
        return Alert(
            id=row.id,
            schedule_id=row.schedule_id,
            state=AlertState(row.state),
            created_at=rows.time_of(row.created_at),
            updated_at=rows.time_of(row.updated_at),
            experiment_id=row.experiment_id,
            told=Told.from_json(rows.loaded(row.told)),
        )

    return rows.read("alert", row.id, None, made)
