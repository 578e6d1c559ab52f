"""The nightly board: cells of schedules, night by night."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from orchestrator.api.requests import Ctx, Cursor, Limit, OfOwner
from orchestrator.api.views.common import PageView, answer, page_view
from orchestrator.api.views.nightly import NightlyView, nightly_view
from orchestrator.services.schedule.board import MOST_NIGHTS, NIGHTS, boards

router = APIRouter(tags=["schedules"])
MOST_BOARDS = 20  # of a page: each is computed from the runs of its nights


@router.get("/nightly", response_model=PageView[NightlyView])
def list_nightly_boards(
    context: Ctx,
    schedule: Annotated[str | None, Query(max_length=100, description="its name or id; without it all of them")] = None,
    nights: Annotated[int, Query(ge=1, le=MOST_NIGHTS, description="the last so many")] = NIGHTS,
    owner: OfOwner = None,
    limit: Limit = MOST_BOARDS,
    cursor: Cursor = None,
) -> Response:
    """What became of the cells of schedules in their last nights: each green, amber, red, missing, invalid or
    running, with its reason. Newest schedule first, its nights oldest first. A page has 20 schedules at most."""
    page = boards(context, schedule, owner, nights=nights, limit=min(limit, MOST_BOARDS), cursor=cursor)
    return answer(page_view(page, nightly_view))
