"""Results: one row per cell; and comparisons."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from orchestrator.api.door.identity import Who
from orchestrator.api.requests import (
    MAX_PAGE,
    Ctx,
    Cursor,
    IdempotencyKey,
    JsonBody,
    Label,
    Limit,
    OfOwner,
    Order,
    WholeLimit,
    json_body_of,
    parse_label,
)
from orchestrator.api.routers.experiments import submitted
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.api.views.compared.comparison import (
    ComparisonsView,
    ComparisonView,
    SeveralView,
    SideBySideView,
    pairs_view,
    several_view,
    side_by_side_view,
    sides_view,
)
from orchestrator.api.views.compared.scaling import ScalingView, scaling_view
from orchestrator.api.views.experiments import ExperimentView
from orchestrator.api.views.results import ResultRowView, result_row_view
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.services.gate import side_by_side
from orchestrator.services.result import results
from orchestrator.services.result.comparison import pairs, sides
from orchestrator.services.result.scaling import scaling
from orchestrator.services.result.several import several

router = APIRouter(tags=["results"])


@router.get("/experiments/{experiment_id}/results", response_model=PageView[ResultRowView])
def list_experiment_results(
    context: Ctx, experiment_id: str, limit: WholeLimit = MAX_PAGE, cursor: Cursor = None
) -> Response:
    """The results of an experiment, one row per cell, also while it runs."""
    page = results.of_experiment(context, experiment_id, limit=limit, cursor=cursor)
    return answer(page_view(page, result_row_view))


@router.get("/experiments/{experiment_id}/comparisons", response_model=ComparisonsView)
def get_experiment_comparisons(
    context: Ctx,
    experiment_id: str,
    axis: Annotated[str | None, Query(max_length=200, description="of the spec, or options.NAME")] = None,
    baseline: Annotated[str | None, Query(max_length=200, description="its value to compare with")] = None,
) -> Response:
    """The cells of an experiment that differ in one axis only, against each other. Without ``axis`` it is the framework
    where there are several, else the first axis of several values."""
    return answer(pairs_view(pairs(context, experiment_id, axis, baseline)))


@router.get("/experiments/{experiment_id}/scaling", response_model=ScalingView)
def get_experiment_scaling(context: Ctx, experiment_id: str) -> Response:
    """Speed-up and efficiency of the cells of an experiment against one device, weak or strong, with intervals that
    have the noise of both; and the cells that are missing, with their reasons. Also while it runs."""
    return answer(scaling_view(scaling(context, experiment_id)))


@router.get("/results", response_model=PageView[ResultRowView])
def list_results(
    context: Ctx,
    owner: OfOwner = None,
    model: str | None = None,
    framework: str | None = None,
    gpu_model: str | None = None,
    label: Label = None,
    order: Order = "newest",
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Results across experiments, newest experiment first, cells in the order of its sweep; or all of that the other
    way round. A page may be shorter than its limit where cells have many runs."""
    wanted = CellFilter(
        owner,
        model=model,
        framework=framework,
        gpu_model=gpu_model,
        label=parse_label(label),
        oldest_first=order == "oldest",
    )
    page = results.page_of_rows(context, wanted, limit, cursor)
    return answer(page_view(page, result_row_view))


@router.get("/compare", response_model=ComparisonView)
def get_comparison(
    context: Ctx,
    baseline: Annotated[str, Query(description="an experiment or a run")],
    candidate: Annotated[str, Query(description="an experiment or a run")],
) -> Response:
    """The candidate against the baseline, cell by cell where the workload is the same."""
    return answer(sides_view(sides(context, baseline, candidate)))


@router.get("/comparisons", response_model=SeveralView)
def get_several(
    context: Ctx,
    of: Annotated[list[str], Query(min_length=1, max_length=101, description="experiments and runs, repeated")],
) -> Response:
    """Several experiments or runs, each against the first of them."""
    return answer(several_view(several(context, of)))


@router.post(
    "/compare",
    status_code=201,
    response_model=ExperimentView,
    openapi_extra=json_body_of("SideBySideRequest", baseline="exp_…", candidate="exp_…", detect=0.02),
)
def submit_side_by_side(context: Ctx, who: Who, body: JsonBody, key: IdempotencyKey = None) -> Response:
    """Try two subjects of one workload side by side: runs of both alternate on the same devices, as often as it takes
    to tell a loss of that size from none. It is an experiment: follow and cancel it as one."""
    return submitted(*side_by_side.begin(context, body, who, key))


@router.get("/experiments/{experiment_id}/side-by-side", response_model=SideBySideView)
def get_side_by_side(context: Ctx, experiment_id: str) -> Response:
    """What an experiment has told so far in which two subjects alternate, as a confirmation of the gate does too."""
    return answer(side_by_side_view(side_by_side.told(context, experiment_id)))
