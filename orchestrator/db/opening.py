"""Opening the store: at the start of the service, which may come before the database does; and only to look."""

import time
from collections.abc import Callable

from orchestrator.db.connection import engine as engines
from orchestrator.db.connection import right
from orchestrator.db.connection.looking import OfThisVersion
from orchestrator.db.store import SqlStore
from orchestrator.domain.around.server import Server
from orchestrator.domain.words.errors import StoreFull, StoreUnavailable

PAUSE_S = 1.0


def open_to_serve(url: str, server: Server, say: Callable[[str], None], *, follows: bool = False) -> SqlStore:
    """The store of ``url`` for ``server``, which leads until it closes the store; where it ``follows`` and another one
    leads, as soon as that is over.

    Raises:
        AlreadyServed: another server leads, and this one does not follow.
        SettingsError, StoreUnavailable: see ``SqlStore``.
    """
    taken = right.take(url, server, say, follows=follows)
    try:
        return SqlStore(url, taken)
    except BaseException:
        taken.close()
        raise


def open_store(
    url: str,
    patience_s: float,
    say: Callable[[str], None],
    *,
    open_now: Callable[[str], SqlStore],
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> SqlStore:
    """The store of ``url``. A PostgreSQL that does not answer yet is waited for, and ``say`` is told so once.

    Args:
        patience_s: seconds to wait for PostgreSQL; a SQLite file is there or not.

    Raises:
        StoreUnavailable: the database does not answer within ``patience_s``.
        SettingsError, AlreadyServed: see ``open_to_serve``.
    """
    waits = not engines.is_sqlite(engines.parse_url(url))
    deadline = monotonic() + patience_s
    told = False
    while True:
        try:
            return open_now(url)
        except StoreFull:
            raise
        except StoreUnavailable as error:
            if not waits:
                raise
            if monotonic() >= deadline:
                raise StoreUnavailable(f"{error}; waited {patience_s:g} s for it (TBD_DATABASE_WAIT_S)") from error
            if not told:
                say(f"{error}; waiting for it, {patience_s:g} s at most (TBD_DATABASE_WAIT_S)")
                told = True
        sleep(PAUSE_S)


class LookingStore(SqlStore):
    """The store of ``url`` for who only looks: nothing is made, changed or brought up to date.

    Raises:
        SettingsError: ``url`` is none of SQLite or PostgreSQL. What is wrong with the database its methods raise.
    """

    def __init__(self, url: str) -> None:
        self.database = OfThisVersion(url)
        self.right = None
