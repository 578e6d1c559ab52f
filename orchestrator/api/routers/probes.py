"""Probes, which train nothing: netbenches and calibrations. Start one; look at what was found."""

from collections.abc import Callable
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.requests import Ctx, Cursor, IdempotencyKey, JsonBody, Limit, OfOwner, json_body_of
from orchestrator.api.routers.experiments import submitted
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.api.views.experiments import ExperimentView
from orchestrator.api.views.probes import CalibrationView, ExchangeView
from orchestrator.domain.runs.filters import CalibrationFilter, TransferFilter
from orchestrator.services.probe.calibrate import CalibrationRequest
from orchestrator.services.probe.netbench import NetbenchRequest
from orchestrator.services.probe.request import ProbeRequest, carry_out

router = APIRouter()
OfRuns = Annotated[bool | None, Query(description="only of runs that are valid, or are not")]


def _post(path: str, kind: type[ProbeRequest]) -> Callable[[Callable[..., Response]], Callable[..., Response]]:
    """The decorator of what starts a probe of ``kind``."""
    body = json_body_of(kind.__name__, topology=kind.example)
    return router.post(path, tags=[path[1:]], status_code=201, response_model=ExperimentView, openapi_extra=body)


@_post("/netbench", NetbenchRequest)
def submit_netbench(context: Ctx, who: Who, body: JsonBody, key: IdempotencyKey = None) -> Response:
    """Measure messages between the ranks of a topology. It is an experiment: follow and cancel it as one."""
    return submitted(*carry_out(context, NetbenchRequest, body, who, key))


@router.get("/netbench", tags=["netbench"], response_model=PageView[ExchangeView])
def list_exchanges(
    context: Ctx,
    owner: OfOwner = None,
    experiment: str | None = None,
    run: str | None = None,
    topology: str | None = None,
    fabric: str | None = None,
    library: str | None = None,
    operation: Literal["point_to_point", "push", "pull", "all_reduce"] | None = None,
    device: str | None = None,
    nodes: Annotated[str | None, Query(max_length=10_000, description="names of all its nodes, with commas")] = None,
    busy_cores: bool | None = None,
    valid: OfRuns = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """What netbenches found: the newest run first, each in the order of its measurements."""
    wanted = TransferFilter(
        owner=owner,
        experiment_id=experiment,
        run_id=run,
        topology=topology,
        fabric=fabric,
        library=library,
        operation=operation,
        device=device,
        nodes=None if nodes is None else tuple(nodes.split(",")),
        busy_cores=busy_cores,
        valid=valid,
    )
    page = context.store.transfers(wanted, limit=limit, cursor=cursor)
    return answer(page_view(page, ExchangeView.of))


@_post("/calibrations", CalibrationRequest)
def submit_calibration(context: Ctx, who: Who, body: JsonBody, key: IdempotencyKey = None) -> Response:
    """Find what devices can do at best. It is an experiment: follow and cancel it as one."""
    return submitted(*carry_out(context, CalibrationRequest, body, who, key))


@router.get("/calibrations", tags=["calibrations"], response_model=PageView[CalibrationView])
def list_calibrations(
    context: Ctx,
    owner: OfOwner = None,
    experiment: str | None = None,
    run: str | None = None,
    node: str | None = None,
    device: Annotated[str | None, Query(description="id of the device")] = None,
    device_name: str | None = None,
    arithmetic: Literal["fp32", "tf32", "bf16", "fp16"] | None = None,
    valid: OfRuns = None,
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
