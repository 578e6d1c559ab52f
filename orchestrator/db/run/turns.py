"""How much owners have used lately: what their turns in the queue go by."""

import math

from sqlalchemy import Connection, select, update

from orchestrator.db.connection.statements import Insert
from orchestrator.db.reading import rows
from orchestrator.db.tables.schema import attempt, owner_use, run
from orchestrator.domain.words.errors import DamagedRow

HALF_LIFE_S = 86400.0  # a judgement: what was used yesterday counts half
_INSERT_MISSING = Insert(owner_use, unless_same=("owner",))


def note(connection: Connection, run_id: str, at: float) -> None:
    """Add what the latest attempt of a run had, which is over ``at``: its devices for as long as it held them."""
    had = select(run.c.owner, attempt.c.placement, attempt.c.created_at).join(attempt, attempt.c.run_id == run.c.id)
    latest = had.where(run.c.id == run_id).order_by(attempt.c.number.desc()).limit(1)
    found = connection.execute(latest).one_or_none()
    if found is None:
        return
    try:
        devices = sum(len(share.devices) for share in rows.placement_of(found.placement).shares)
    except (DamagedRow, ValueError):
        return  # whoever reads it is told; nobody's turn depends on it
    _INSERT_MISSING.one(connection, (found.owner, 0.0, at))
    its = owner_use.c.owner == found.owner
    used = connection.execute(select(owner_use).where(its).with_for_update()).one()
    more = devices * max(0.0, at - found.created_at)
    connection.execute(update(owner_use).where(its).values(device_s=_left(used, at) + more, at=max(used.at, at)))


def uses(connection: Connection, at: float) -> dict[str, float]:
    """See ``domain.ports.Store.uses``."""
    return {row.owner: _left(row, at) for row in connection.execute(select(owner_use))}


def _left(row: rows.AnyRow, at: float) -> float:
    """Device-seconds of ``row`` that still count ``at``; all of them by a clock that was set back."""
    return float(row.device_s * math.pow(0.5, max(0.0, at - row.at) / HALF_LIFE_S))
