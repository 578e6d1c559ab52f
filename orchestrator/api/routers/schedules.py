"""Schedules: make, look, change, remove, run now; and what became of their times."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.requests import (
    REPLAYED,
    RFC3339,
    Ctx,
    Cursor,
    IdempotencyKey,
    JsonBody,
    Limit,
    OfOwner,
    json_body_of,
    parse_time,
)
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.api.views.schedules import FireView, ScheduleView, fire_view, schedule_view
from orchestrator.domain.around.schedule import FireState, Schedule
from orchestrator.domain.runs.filters import FireFilter, ScheduleFilter
from orchestrator.services.context import Context
from orchestrator.services.schedule import schedules

router = APIRouter(prefix="/schedules", tags=["schedules"])
_SPEC = {"name": "nightly", "model": "resnet-50", "framework": "pytorch", "per_device_batch_size": 4, "size": "small"}
_NEW = json_body_of("ScheduleRequest", name="nightly", cron="0 2 * * *", timezone="Europe/Berlin", spec=_SPEC)
_CHANGE = json_body_of("ScheduleChange", paused=True)


def _view(context: Context, schedule: Schedule) -> ScheduleView:
    last = context.store.last_fires([schedule.id])
    return schedule_view(schedule, schedules.upcoming(schedule, context.clock.now()), last)


@router.post("", status_code=201, response_model=ScheduleView, openapi_extra=_NEW)
def create_schedule(context: Ctx, who: Who, body: JsonBody, key: IdempotencyKey = None) -> Response:
    """Make a schedule. Its first time is after now; it belongs to who asks, and so do the experiments that it makes."""
    made, created = schedules.add(context, body, who, key)
    headers = {"Location": f"/api/v1/schedules/{made.id}"} | ({} if created else REPLAYED)
    return answer(_view(context, made), 201, headers)


@router.get("", response_model=PageView[ScheduleView])
def list_schedules(
    context: Ctx,
    owner: OfOwner = None,
    name: Annotated[str | None, Query(max_length=100)] = None,
    paused: bool | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Schedules, newest first."""
    page = context.store.schedules(ScheduleFilter(owner, name, paused), limit=limit, cursor=cursor)
    now, last = context.clock.now(), context.store.last_fires([one.id for one in page.items])
    return answer(page_view(page, lambda one: schedule_view(one, schedules.upcoming(one, now), last)))


@router.get("/{schedule_id}", response_model=ScheduleView)
def get_schedule(context: Ctx, schedule_id: str) -> Response:
    """One schedule, with its next times and what became of its last one."""
    return answer(_view(context, context.store.schedule(schedule_id)))


@router.patch("/{schedule_id}", response_model=ScheduleView, openapi_extra=_CHANGE)
def change_schedule(context: Ctx, who: Who, schedule_id: str, body: JsonBody) -> Response:
    """Change what the body names, and leave the rest: ``{"paused": true}`` pauses it."""
    return answer(_view(context, schedules.change(context, schedule_id, body, who)))


@router.delete("/{schedule_id}", status_code=204, response_class=Response)
def delete_schedule(context: Ctx, who: Who, schedule_id: str) -> Response:
    """Remove a schedule and the record of its times. The experiments that it made stay, and go on."""
    schedules.remove(context, schedule_id, who)
    return Response(status_code=204)


@router.post("/{schedule_id}/run", status_code=201, response_model=FireView)
def run_schedule(context: Ctx, who: Who, schedule_id: str, key: IdempotencyKey = None) -> Response:
    """Submit its spec now, also while it is paused or an experiment of it goes on. Its times stay as they are."""
    fire, created = schedules.run_now(context, schedule_id, who, key)
    headers = {"Location": f"/api/v1/experiments/{fire.experiment_id}"} | ({} if created else REPLAYED)
    return answer(fire_view(fire), 201, headers)


@router.get("/{schedule_id}/fires", response_model=PageView[FireView])
def list_schedule_fires(
    context: Ctx,
    schedule_id: str,
    state: FireState | None = None,
    since: Annotated[str | None, Query(description="only times from then on", **RFC3339)] = None,
    until: Annotated[str | None, Query(description="only times before", **RFC3339)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """What became of its times, the latest first."""
    context.store.owner_of_schedule(schedule_id)
    wanted = FireFilter(schedule_id, state, parse_time("since", since), parse_time("until", until))
    return answer(page_view(context.store.fires(wanted, limit=limit, cursor=cursor), fire_view))
