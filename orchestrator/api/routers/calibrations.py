"""Calibrations: start one; look at what was found, of which device, over time."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.requests import Ctx, Cursor, IdempotencyKey, JsonBody, Limit, OfOwner, json_body_of
from orchestrator.api.routers.experiments import submitted
from orchestrator.api.views.calibrations import CalibrationView
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.api.views.experiments import ExperimentView
from orchestrator.domain.runs.filters import CalibrationFilter
from orchestrator.services.probe import calibrate, microbenchmark

router = APIRouter(prefix="/calibrations", tags=["calibrations"])
BODY = json_body_of("CalibrationRequest", topology="1x1")


@router.post("", status_code=201, response_model=ExperimentView, openapi_extra=BODY)
def submit_calibration(context: Ctx, who: Who, body: JsonBody, key: IdempotencyKey = None) -> Response:
    """Find what devices can do at best. It is an experiment: follow and cancel it as one."""
    return submitted(*microbenchmark.carry_out(context, calibrate.spec_of(body), who, key))


@router.get("", response_model=PageView[CalibrationView])
def list_calibrations(
    context: Ctx,
    owner: OfOwner = None,
    experiment: str | None = None,
    run: str | None = None,
    node: str | None = None,
    device: Annotated[str | None, Query(description="id of the device")] = None,
    device_name: str | None = None,
    arithmetic: Literal["fp32", "tf32", "bf16", "fp16"] | None = None,
    valid: Annotated[bool | None, Query(description="only of runs that are valid, or are not")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """What calibrations found, the newest first: the history of each device."""
    wanted = CalibrationFilter(
        owner=owner,
        experiment_id=experiment,
        run_id=run,
        node=node,
        device_id=device,
        device_name=device_name,
        arithmetic=arithmetic,
        valid=valid,
    )
    page = context.store.calibrations(wanted, limit=limit, cursor=cursor)
    return answer(page_view(page, CalibrationView.of))
