"""The nightly board, as it is answered."""

from typing import Literal

from orchestrator.api.views.common import Time, View, fields_of
from orchestrator.api.views.compared.comparison import ChangeView
from orchestrator.api.views.results import AxesView, axes_view
from orchestrator.services.schedule.board import Board, Column, Field, Line, Seen


@fields_of(Column, without=("at",))
class NightView(View):
    """One night: a time of the schedule. ``state`` is what became of it: submitted, waiting, skipped, missed, refused;
    or unseen, where no server has looked after it yet. ``reason`` says why it submitted nothing. ``n_times``: it stands
    for so many times that were missed. ``experiment_state`` is null where the experiment was removed."""

    fire_at: Time
    state: Literal["submitted", "waiting", "skipped", "missed", "refused", "unseen"]


@fields_of(Field)
class CellNightView(View):
    """A cell in a night. ``code`` is the reason in a word: suspect, drift, failed, missed, cancelled, broken
    and so on. ``difference`` is that of a candidate, after / before - 1; ``changes`` are what was not the same in the
    last night before it."""

    colour: Literal["green", "amber", "red", "missing", "invalid", "running"]
    changes: list[ChangeView]


class SightView(View):
    """How small a drop is called on a place within three nights in nine of ten cases, as a ratio, by the noise of its
    ``n_nights`` since the last change. Deviations are of logarithms: of a night, and of a run within one (null where no
    night has two). ``runs``: a night, the mean."""

    place: str
    smallest_drop_ratio: float
    night_deviation: float
    run_deviation: float | None
    runs: float
    n_nights: int


class CellNightsView(View):
    """A cell and its ``nights``, in the order of those of the board. ``sights`` are of the places that have enough."""

    axes: AxesView
    nights: list[CellNightView]
    sights: list[SightView]


class NightlyView(View):
    """The last nights of a schedule, oldest first."""

    schedule_id: str
    schedule: str
    owner: str
    cron: str
    timezone: str
    paused: bool
    nights: list[NightView]
    cells: list[CellNightsView]


def nightly_view(found: Board) -> NightlyView:
    schedule = found.schedule
    return NightlyView.of(
        schedule,
        schedule_id=schedule.id,
        schedule=schedule.name,
        nights=[_night(one) for one in found.nights],
        cells=[_cell(one) for one in found.lines],
    )


def _night(one: Column) -> NightView:
    return NightView.of(one, fire_at=one.at)


def _cell(line: Line) -> CellNightsView:
    nights = [CellNightView.of(one) for one in line.fields]
    return CellNightsView(axes=axes_view(line.plan), nights=nights, sights=[_sight(one) for one in line.seen])


def _sight(one: Seen) -> SightView:
    seen = one.sight
    numbers = {"smallest_drop_ratio": seen.drop, "night_deviation": seen.deviation, "n_nights": seen.nights}
    return SightView.of(one, **numbers)
