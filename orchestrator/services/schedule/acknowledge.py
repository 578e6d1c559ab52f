"""Acknowledge an alert: what it tells of is the usual speed from now on."""

from dataclasses import replace

from orchestrator.domain.around.access import Actor
from orchestrator.domain.around.alerts import MOVES, Alert, AlertState
from orchestrator.domain.words.errors import Conflict
from orchestrator.services.context import Context
from orchestrator.services.schedule.schedules import check_may_change
from orchestrator.services.tokens import deed_of


def acknowledge(context: Context, alert_id: str, by: Actor) -> Alert:
    """Note that ``by`` has seen it; it as it is then. Idempotent.

    Raises:
        NotFound: there is none, or its schedule was removed.
        NotAllowed: its schedule is somebody else's.
        Conflict: it says nothing that could be acknowledged (yet).
    """
    found = context.store.alert(alert_id)
    check_may_change(context, found.schedule_id, by)
    if found.state is AlertState.ACKNOWLEDGED:
        return found
    if AlertState.ACKNOWLEDGED not in MOVES[found.state]:
        raise Conflict(f"{alert_id} is {found.state}: only what is open or unconfirmed can be acknowledged")
    now = context.clock.now()
    told = replace(found.told, by=by.owner)
    deed = deed_of(by, now, "acknowledge", alert_id)
    if not context.store.move_alert(alert_id, found.state, AlertState.ACKNOWLEDGED, told, now, deed):
        raise Conflict(f"{alert_id} changed just now: look again")
    context.wake()
    return context.store.alert(alert_id)
