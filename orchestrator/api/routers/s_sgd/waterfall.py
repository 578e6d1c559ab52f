"""Why a run of several devices takes as long as it does."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from orchestrator.api.requests import Ctx
from orchestrator.api.routers.runs import OneRun
from orchestrator.api.views.common import answer
from orchestrator.api.views.compared.waterfall import WaterfallView, waterfall_view
from orchestrator.services.experiment import query
from orchestrator.services.prediction.predict import reach
from orchestrator.services.result.explain import explain

router = APIRouter(prefix="/runs", tags=["runs"])


@router.get("/{run_id}/waterfall", response_model=WaterfallView)
def get_run_waterfall(
    context: Ctx,
    run: OneRun,
    other: Annotated[str | None, Query(description="a run of the same cell in another framework")] = None,
) -> Response:
    """Where an iteration of the run's cell goes: from one device to what was measured, over all runs of the cell that
    count. What is not told is named, with the command that would supply it."""
    found = explain(context, run, query.run(context, other) if other else None)
    return answer(waterfall_view(found, reach(context, run.plan)))
