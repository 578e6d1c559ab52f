"""Sessions of browsers: their rows, of which there are few: what is over goes when another one is made."""

from sqlalchemy import Connection, delete, select

from orchestrator.db.access import deeds
from orchestrator.db.connection.among import among
from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import rows
from orchestrator.db.tables.access import session
from orchestrator.domain.around.access import Deed, Session

_INSERT = Insert(session)


def add(connection: Connection, new: Session, most: int, deed: Deed) -> None:
    """See ``domain.around.access.AccessStore.add_session``."""
    connection.execute(delete(session).where(session.c.expires_at <= new.created_at))
    theirs = select(session.c.id).where(session.c.token_id == new.token_id)
    newest_first = theirs.order_by(session.c.created_at.desc(), session.c.id.desc())
    surplus = list(connection.execute(newest_first).scalars())[most - 1 :]
    connection.execute(delete(session).where(among(session.c.id, surplus)))
    _INSERT.one(connection, rows.values_of(session, new))
    deeds.record(connection, deed)


def end(connection: Connection, session_id: str) -> None:
    connection.execute(delete(session).where(session.c.id == session_id))


def living(connection: Connection, now: float) -> list[Session]:
    """One that cannot be read lets nobody in."""
    found = connection.execute(select(session).where(session.c.expires_at > now))
    return rows.sorted_out(found, _read)[0]


def _read(row: rows.AnyRow) -> Session:
    return rows.read("session", row.id, None, lambda: rows.made_of(Session, row))
