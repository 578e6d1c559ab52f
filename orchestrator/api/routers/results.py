"""Results: one row per cell; and comparisons."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from orchestrator.api.requests import MAX_PAGE, Ctx, Cursor, Label, Limit, OfOwner, Order, WholeLimit, parse_label
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.api.views.compared.comparison import ComparisonsView, ComparisonView, pairs_view, sides_view
from orchestrator.api.views.compared.scaling import ScalingView, scaling_view
from orchestrator.api.views.results import ResultRowView, result_row_view
from orchestrator.domain.runs.filters import CellFilter
from orchestrator.services.result import results
from orchestrator.services.result.comparison import pairs, sides
from orchestrator.services.result.scaling import scaling

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
