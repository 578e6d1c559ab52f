"""History: the series that there are, and one of them with its baselines and borders."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from orchestrator.api.requests import MAX_PAGE, Ctx, Cursor, Label, Limit, OfOwner, parse_label
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.api.views.history import HistoryView, SeriesView, history_view
from orchestrator.domain.runs.filters import SeriesFilter
from orchestrator.services.history.workload import history

router = APIRouter(prefix="/history", tags=["history"])


@router.get("", response_model=PageView[SeriesView])
def list_series(
    context: Ctx,
    owner: OfOwner = None,
    series: Annotated[str | None, Query(max_length=100, description="how its key begins")] = None,
    model: str | None = None,
    framework: str | None = None,
    gpu_model: str | None = None,
    label: Label = None,
    experiment: Annotated[str | None, Query(max_length=100, description="that it has a point of")] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """The series that there are, that of the newest experiment first: those with a cell that agrees with all that is
    given."""
    wanted = SeriesFilter(owner, series, model, framework, gpu_model, parse_label(label), experiment)
    return answer(page_view(context.store.series(wanted, limit=limit, cursor=cursor), SeriesView.of))


@router.get("/{series}", response_model=HistoryView)
def get_history(
    context: Ctx,
    series: Annotated[str, Path(max_length=100, description="its key, or how no other key begins")],
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="most points: the newest")] = MAX_PAGE,
) -> Response:
    """The history of one series: its points, the baselines that they form, and what can be said of their borders."""
    return answer(history_view(history(context, series, limit)))
