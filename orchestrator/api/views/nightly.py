"""The nightly board, as it is answered."""

from typing import Literal

from orchestrator.api.views.common import Time, View, fields_of
from orchestrator.api.views.compared.comparison import ChangeView
from orchestrator.api.views.results import AxesView, axes_view
from orchestrator.services.schedule.board import Board, Column, Field, Line


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


class CellNightsView(View):
    """A cell and its ``nights``, in the order of those of the board."""

    axes: AxesView
    nights: list[CellNightView]


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
    return CellNightsView(axes=axes_view(line.plan), nights=[CellNightView.of(one) for one in line.fields])
