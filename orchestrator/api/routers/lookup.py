"""What a short text stands for: people seldom write whole ids."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from orchestrator.api.requests import Ctx, Limit
from orchestrator.api.views.common import PageView, Time, View, answer, fields_of
from orchestrator.domain.runs.stored import Found

router = APIRouter(tags=["experiments"])


@fields_of(Found)
class FoundView(View):
    """An experiment or a run; ``name`` is the experiment's."""

    created_at: Time


Text = Annotated[str, Query(max_length=100, pattern="^[A-Za-z0-9_-]+$", description="a name, or how an id begins")]


@router.get("/lookup", response_model=PageView[FoundView])
def list_matches(context: Ctx, text: Text, limit: Limit = 50) -> Response:
    """What the text may stand for: first the experiments of that name, then the experiments and runs whose id begins
    with it (exp_ and run_ may be left out), of each the newest first. There is no second page: write more of the id."""
    found = context.store.find(text, limit=limit)
    return answer(PageView[FoundView](items=[FoundView.of(one) for one in found]))
