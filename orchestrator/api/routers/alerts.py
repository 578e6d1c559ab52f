"""Alerts of the regression gate: what looked slower, was tried, and what that told."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from orchestrator.analysis.gate.confirmation import LEVEL
from orchestrator.api.door.identity import Who
from orchestrator.api.requests import Ctx, Cursor, IdempotencyKey, Limit, carried_out_once
from orchestrator.api.views.alerts import AlertView, EqualArmsView, alert_view
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.domain.around.alerts import AlertFilter, AlertState
from orchestrator.services.gate.equal_arms import false_alarms
from orchestrator.services.schedule.acknowledge import acknowledge
from orchestrator.services.schedule.schedules import all_schedules

router = APIRouter(prefix="/alerts", tags=["schedules"])


@router.get("", response_model=PageView[AlertView])
def list_alerts(
    context: Ctx,
    state: AlertState | None = None,
    schedule_id: Annotated[str | None, Query(max_length=100)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """What the gate has taken note of, newest first. Open ones are confirmed, and nobody has looked after them."""
    wanted = AlertFilter(schedule_id, None if state is None else state.value)
    return answer(page_view(context.store.alerts(wanted, limit=limit, cursor=cursor), alert_view))


@router.get("/equal-arms", response_model=EqualArmsView)
def get_equal_arms(context: Ctx) -> Response:
    """How often the gate calls a cell slower than itself: of each schedule one pair a night, within the budget."""
    return answer(EqualArmsView.of(false_alarms(context, all_schedules(context)), level=LEVEL))


@router.get("/{alert_id}", response_model=AlertView)
def get_alert(context: Ctx, alert_id: str) -> Response:
    """One alert."""
    return answer(alert_view(context.store.alert(alert_id)))


@router.post("/{alert_id}/acknowledge", response_model=AlertView)
def acknowledge_alert(context: Ctx, who: Who, alert_id: str, key: IdempotencyKey = None) -> Response:
    """Say that it is known: what it tells of is a new baseline. Its schedule's owner may, and admins. Idempotent."""
    found, headers = carried_out_once(
        context,
        who.owner,
        key,
        ("acknowledge", alert_id),
        lambda: acknowledge(context, alert_id, who),
        lambda: context.store.alert(alert_id),
    )
    return answer(alert_view(found), headers=headers)
