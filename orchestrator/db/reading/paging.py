"""Pages of a list by (a time, id), the newest or the oldest first: keyset pagination, so that a page costs the same
anywhere."""

from enum import Enum
from typing import Any

from sqlalchemy import Connection, Select, Table, literal, tuple_

from orchestrator.db.connection import cursors
from orchestrator.db.reading.rows import AnyRow, bounded


def page(
    connection: Connection,
    query: Select[Any],
    table: Table,
    limit: int,
    cursor: str | None,
    by: str = "created_at",
    oldest_first: bool = False,
) -> tuple[list[AnyRow], str | None]:
    """The rows of ``query`` (over ``table``) that follow ``cursor``, and the cursor of the next page or None. ``by`` is
    the column of the time.

    Raises:
        InvalidRequest: the cursor is not one of ours.
    """
    limit = bounded(max(limit, 1))
    key = (table.c[by], table.c.id)
    if cursor is not None:
        time, identifier = cursors.decode(cursor)
        last = tuple_(literal(time, key[0].type), literal(identifier, key[1].type))
        query = query.where(tuple_(*key) > last if oldest_first else tuple_(*key) < last)
    query = query.order_by(*(column if oldest_first else column.desc() for column in key)).limit(limit + 1)
    rows = list(connection.execute(query))
    if len(rows) <= limit:
        return rows, None
    return rows[:limit], after(rows[limit - 1], by)


def agreeing(query: Select[Any], table: Table, wanted: object, *names: str) -> Select[Any]:
    """``query`` where each column of ``names`` is what ``wanted``, a filter, gives under that name, if anything."""
    for name in names:
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(table.c[name] == (value.value if isinstance(value, Enum) else value))
    return query


def after(row: AnyRow, by: str = "created_at") -> str:
    """The cursor of the page that follows ``row``."""
    return cursors.encode((getattr(row, by), row.id))
