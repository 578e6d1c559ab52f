"""The TBD paper's observations, judged by the results that there are."""

from typing import Annotated

from fastapi import APIRouter, Query, Response

from orchestrator.api.requests import Ctx
from orchestrator.api.views.common import PageView, View, answer
from orchestrator.services.result.observations import observations

router = APIRouter(prefix="/observations", tags=["results"])


class ObservationView(View):
    """``answer``: holds, does_not, not_enough_data, not_applicable; ``told`` and ``numbers`` say why."""

    number: int
    says: str
    test: str
    answer: str
    told: str
    numbers: list[str]


@router.get("", response_model=PageView[ObservationView])
def list_observations(
    context: Ctx,
    experiment: Annotated[
        list[str] | None, Query(max_length=100, description="ids, repeated: by their results alone")
    ] = None,
) -> Response:
    """Observations 1 to 12 of Zhu et al., IISWC 2018, each with its test and the numbers it was judged by."""
    items = [
        ObservationView.of(one, answer=one.finding.answer.value, told=one.finding.told, numbers=one.finding.numbers)
        for one in observations(context, experiment or ())
    ]
    return answer(PageView[ObservationView](items=items, next_cursor=None))
