"""Tokens: their rows. Of their secrets the database knows a digest only."""

from collections.abc import Sequence

from sqlalchemy import Connection, select, update

from orchestrator.db.access import deeds
from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import paging, rows
from orchestrator.db.tables.access import token
from orchestrator.domain.around.access import Deed, Token
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.words.errors import NotFound

_INSERT = Insert(token)


def add(connection: Connection, new: Token, deed: Deed) -> None:
    _INSERT.one(connection, rows.values_of(token, new))
    deeds.record(connection, deed)


def revoke(connection: Connection, token_id: str, at: float, deed: Deed) -> Token:
    """Raises NotFound. The first time stays, and so does who did it then."""
    statement = update(token).where(token.c.id == token_id, token.c.revoked_at.is_(None)).values(revoked_at=at)
    if connection.execute(statement).rowcount:
        deeds.record(connection, deed)
    found = connection.execute(select(token).where(token.c.id == token_id)).one_or_none()
    if found is None:
        raise NotFound("token", token_id)
    return _read(found)


def page(connection: Connection, *, limit: int = 50, cursor: str | None = None) -> Page[Token]:
    found, next_cursor = paging.page(connection, select(token), token, limit, cursor)
    made, damaged = rows.sorted_out(found, _read)
    return Page(made, next_cursor, damaged)


def all_of_them(connection: Connection) -> Page[Token]:
    """Oldest first: there are few, and each request may come with any."""
    made, damaged = rows.sorted_out(connection.execute(select(token).order_by(token.c.created_at, token.c.id)), _read)
    return Page(made, None, damaged)


def note_use(connection: Connection, token_ids: Sequence[str], at: float) -> None:
    connection.execute(update(token).where(among(token.c.id, token_ids)).values(last_used_at=at))


def _read(row: rows.AnyRow) -> Token:
    """Raises DamagedRow."""
    return rows.read("token", row.id, None, lambda: rows.made_of(Token, row))
