"""Who did what."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from orchestrator.api.requests import Ctx, Cursor, Limit
from orchestrator.api.views.access import DeedView
from orchestrator.api.views.common import PageView, answer, page_view

router = APIRouter(prefix="/audit", tags=["access"])
Word = Annotated[str | None, Query(max_length=200)]


@router.get("", response_model=PageView[DeedView])
def list_deeds(
    context: Ctx, who: Word = None, target: Word = None, limit: Limit = 50, cursor: Cursor = None
) -> Response:
    """What was done, newest first. A deed is stored together with what was done; what was refused is in the server's
    log."""
    page = context.store.deeds(who=who, target=target, limit=limit, cursor=cursor)
    return answer(page_view(page, DeedView.of))
