"""The audit trail. A deed is stored in the transaction of what was done: neither is there without the other."""

from sqlalchemy import Connection, select

from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import paging, rows
from orchestrator.db.tables.access import deed
from orchestrator.domain.around.access import Deed
from orchestrator.domain.runs.stored import Page

_INSERT = Insert(deed)


def record(connection: Connection, done: Deed | None) -> None:
    """Store it; None is what nobody asked for."""
    if done is not None:
        _INSERT.one(connection, rows.values_of(deed, done, created_at=done.at))


def page(
    connection: Connection,
    *,
    who: str | None = None,
    target: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> Page[Deed]:
    query = select(deed)
    for column, value in ((deed.c.who, who), (deed.c.target, target)):
        if value is not None:
            query = query.where(column == value)
    found, next_cursor = paging.page(connection, query, deed, limit, cursor)
    return Page([_read(row) for row in found], next_cursor)


def _read(row: rows.AnyRow) -> Deed:
    return rows.made_of(Deed, row, at=row.created_at)
