"""Predictions as they are answered."""

from pydantic import Field

from orchestrator.api.views.common import Quantity, Time, View, fields_of
from orchestrator.api.views.compared.waterfall import MissingView, UntilView
from orchestrator.api.views.results import AxesView, axes_view
from orchestrator.domain.around.predictions import PredictedPart, Prediction, RestsOn
from orchestrator.services.prediction.judged import Judged
from orchestrator.services.prediction.predict import Predicted, Until


@fields_of(PredictedPart)
class PredictedPartView(View):
    """A part of the iteration; they add up to it."""


@fields_of(RestsOn)
class RestsOnView(View):
    """What it was made of: profiled runs of one device, and the netbench whose exchanges were fitted or the ``fabric``
    that was asked for. ``beyond``: exchanges of other sizes than were measured; ``judged``: earlier predictions of the
    strategy whose errors the interval has in it."""


class PredictionView(View):
    """One cell that was asked for. ``throughput`` has a 90 % interval. ``measured`` (in its unit) is the mean of the
    ``n_measured`` newest runs of the cell, null before there are any, and ``error_ratio`` the prediction over that,
    less one. ``until`` is answered where it was asked for."""

    id: str
    created_at: Time
    owner: str
    cell_key: str
    axes: AxesView
    throughput: Quantity
    efficiency: float
    iteration_s: float
    parts: list[PredictedPartView]
    rests_on: RestsOnView
    measured: float | None
    n_measured: int
    error_ratio: float | None
    until: UntilView | None


class PredictedView(View):
    """The predictions of a spec, and what would supply what the other cells lack."""

    items: list[PredictionView] = Field(description="one a cell")
    missing: list[MissingView]


def predicted_view(found: Predicted, judged: list[Judged]) -> PredictedView:
    items = [prediction_view(one, until) for one, until in zip(judged, found.until, strict=True)]
    return PredictedView(items=items, missing=[MissingView.of(one) for one in found.missing])


def prediction_view(judged: Judged, until: Until | None = None) -> PredictionView:
    one: Prediction = judged.prediction
    return PredictionView(
        id=one.id,
        created_at=one.created_at,
        owner=one.owner,
        cell_key=one.plan.cell_key,
        axes=axes_view(one.plan),
        throughput=Quantity.of(one.told.throughput),
        efficiency=one.told.efficiency,
        iteration_s=one.told.iteration_s,
        parts=[PredictedPartView.of(part) for part in one.told.parts],
        rests_on=RestsOnView.of(one.told.rests_on),
        measured=judged.measured,
        n_measured=judged.n,
        error_ratio=judged.error_ratio,
        until=UntilView.maybe(until),
    )
