"""Netbenches: start one; look at what was found."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.requests import Ctx, Cursor, IdempotencyKey, JsonBody, Limit, OfOwner, json_body_of
from orchestrator.api.routers.experiments import submitted
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.api.views.experiments import ExperimentView
from orchestrator.api.views.netbench import ExchangeView
from orchestrator.domain.runs.filters import TransferFilter
from orchestrator.services.probe import microbenchmark, netbench

router = APIRouter(prefix="/netbench", tags=["netbench"])
BODY = json_body_of("NetbenchRequest", topology="2x1")


@router.post("", status_code=201, response_model=ExperimentView, openapi_extra=BODY)
def submit_netbench(context: Ctx, who: Who, body: JsonBody, key: IdempotencyKey = None) -> Response:
    """Measure messages between the ranks of a topology. It is an experiment: follow and cancel it as one."""
    return submitted(*microbenchmark.carry_out(context, netbench.spec_of(body), who, key))


@router.get("", response_model=PageView[ExchangeView])
def list_exchanges(
    context: Ctx,
    owner: OfOwner = None,
    experiment: str | None = None,
    run: str | None = None,
    topology: str | None = None,
    fabric: str | None = None,
    library: str | None = None,
    operation: Literal["point_to_point", "all_reduce"] | None = None,
    device: str | None = None,
    nodes: Annotated[str | None, Query(max_length=10_000, description="names of all its nodes, with commas")] = None,
    busy_cores: bool | None = None,
    valid: Annotated[bool | None, Query(description="only of runs that are valid, or are not")] = None,
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
