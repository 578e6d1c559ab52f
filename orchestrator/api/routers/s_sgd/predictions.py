"""Predictions of what was not measured: ask for them, and look how near they came."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from orchestrator.analysis.s_sgd.labels import Beside
from orchestrator.api.door.identity import Who
from orchestrator.api.requests import Ctx, Cursor, JsonBody, Limit, OfOwner
from orchestrator.api.routers.experiments import SPEC_BODY
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.api.views.compared.prediction import PredictedView, PredictionView, predicted_view, prediction_view
from orchestrator.domain.around.predictions import PredictionFilter
from orchestrator.domain.runs.stored import Page
from orchestrator.services.prediction.judged import judged
from orchestrator.services.prediction.predict import predict

router = APIRouter(prefix="/predictions", tags=["predictions"])


@router.post("", response_model=PredictedView, openapi_extra=SPEC_BODY)
def create_predictions(
    context: Ctx,
    who: Who,
    body: JsonBody,
    fabric: Annotated[
        str | None, Query(max_length=100, description="in the place of that between nodes: 100 Gbit/s, 2 us")
    ] = None,
    until: Annotated[
        float | None, Query(description="an efficiency, above 0 and below 1: how many nodes have it")
    ] = None,
    beside: Annotated[
        Literal[Beside.IDLE, Beside.BUSY_CORES, Beside.BACKWARD_PASS] | None,
        Query(
            description="only exchanges that were timed beside this: netbenches, or with backward-pass the profiles of "
            "replays; by default busy cores on CPU devices"
        ),
    ] = None,
) -> Response:
    """Predict the cells of a spec from steps of one device and netbenches. Nothing is run; what was predicted is
    stored."""
    found = predict(context, body, by=who, fabric=fabric, until=until, beside=beside)
    return answer(predicted_view(found, judged(context, found.items)))


@router.get("", response_model=PageView[PredictionView])
def list_predictions(
    context: Ctx,
    owner: OfOwner = None,
    model: str | None = None,
    framework: str | None = None,
    strategy: str | None = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """Predictions, newest first, each with what was measured of its cell, also before it."""
    page = context.store.predictions(PredictionFilter(owner, model, framework, strategy), limit=limit, cursor=cursor)
    return answer(page_view(Page(judged(context, page.items), page.next_cursor, page.damaged), prediction_view))
