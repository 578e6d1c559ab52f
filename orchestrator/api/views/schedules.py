"""Schedules and their fires as they are answered."""

from collections.abc import Mapping, Sequence

from orchestrator.api.views.common import Time, View, fields_of
from orchestrator.domain.around.schedule import Fire, Schedule


@fields_of(Fire, without=("at", "created_at"))
class FireView(View):
    """One time of a schedule and what became of it: submitted (``experiment_id``), waiting, skipped, missed or refused,
    with the ``reason``. ``fire_at`` is the time, ``due_at`` the same with its jitter, ``recorded_at`` when a server
    looked; ``trigger`` is cron or manual. ``n_times``: how many times this record stands for, from ``fire_at`` on; more
    than one only where very many were missed. ``experiment_state`` is null where the experiment was removed."""

    fire_at: Time
    recorded_at: Time
    trigger: str


@fields_of(Schedule, without=("considered_until", "due_at", "version"))
class ScheduleView(View):
    """A spec that is submitted again and again, as its owner. ``upcoming``: its next times, none while it is paused."""

    misfire: str
    overlap: str
    upcoming: list[Time]
    last_fire: FireView | None


def fire_view(fire: Fire) -> FireView:
    return FireView.of(fire, fire_at=fire.at, recorded_at=fire.created_at, trigger=fire.trigger.value)


def schedule_view(schedule: Schedule, upcoming: Sequence[float], last: Mapping[str, Fire]) -> ScheduleView:
    """``last``: the fire of the latest time of each schedule."""
    fire = last.get(schedule.id)
    return ScheduleView.of(
        schedule,
        misfire=schedule.misfire.value,
        overlap=schedule.overlap.value,
        upcoming=upcoming,
        last_fire=fire_view(fire) if fire else None,
    )
