"""Schedules: when each fires, and what becomes of a time that came late. Pure: no clock, no zones read, no chance.

A *time* of a schedule is an instant that its cron expression names. Each time ends as one ``Fire``, a record, whatever
became of it: what was not submitted has its reason there.
"""

import hashlib
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from itertools import islice, takewhile
from typing import Any, Protocol

from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.cron import Cron
from orchestrator.domain.runs.filters import FireFilter, ScheduleFilter
from orchestrator.domain.runs.run import Experiment, Run
from orchestrator.domain.runs.stored import Idempotency, Page

SCHEDULE_PREFIX, FIRE_PREFIX = "sch", "fire"

# Judgements.
GRACE_S = 60.0  # what comes within it of its time is on time: a server may have been restarted
# A clock that is behind what was considered by more than this has been set back; by less, servers' clocks differ.
SET_BACK_S = 300.0
MOST_LATE = 1000  # late times that get a record each; those before them share one
LOOK_BACK_S = 400 * 86400.0  # times before this are only counted, and that only up to
MOST_COUNTED = 100_000


class Misfire(StrEnum):
    """What is submitted of the times that came late, because no server looked when they came."""

    SKIP = "skip"  # none
    ONE = "one"  # the newest
    ALL = "all"  # every one


class Overlap(StrEnum):
    """What becomes of a time while an experiment of the same schedule goes on."""

    SKIP = "skip"  # it is left out
    QUEUE = "queue"  # it waits, until max_age_s
    ALLOW = "allow"  # it is submitted


class Trigger(StrEnum):
    CRON = "cron"
    MANUAL = "manual"  # somebody said run now


class FireState(StrEnum):
    """What became of a time. Only ``waiting`` moves on, to any of the others."""

    SUBMITTED = "submitted"  # there is an experiment
    WAITING = "waiting"  # for the experiment before it to end
    SKIPPED = "skipped"  # on purpose: an experiment went on, or the schedule was paused
    MISSED = "missed"  # no server looked, or it waited too long
    REFUSED = "refused"  # its spec, or its owner, is no longer accepted


@dataclass(frozen=True)
class Schedule:
    """A spec that is submitted again and again, as its owner. Times in seconds since the epoch.

    ``spec`` is read anew for each time. ``considered_until``: every time up to it has its record. ``due_at``: when the
    next one is to be considered. ``version`` grows with each change of the row.
    """

    id: str
    name: str
    owner: str
    cron: str
    timezone: str
    spec: Mapping[str, Any]
    misfire: Misfire
    max_age_s: float
    overlap: Overlap
    jitter_s: float
    paused: bool
    created_at: float
    considered_until: float
    due_at: float | None
    version: int = 1


@dataclass(frozen=True)
class Fire:
    """One time of a schedule and what became of it. ``at`` is the time, ``due_at`` with its jitter; ``created_at`` when
    it was recorded. ``n_times``: how many times the record stands for, from ``at`` on; more than one only where very
    many were missed. ``experiment_state`` is that of now, None where it was removed."""

    id: str
    schedule_id: str
    at: float
    due_at: float
    created_at: float
    trigger: Trigger
    state: FireState
    reason: str | None = None
    experiment_id: str | None = None
    n_times: int = 1
    experiment_state: str | None = None


@dataclass(frozen=True)
class NewFire:
    """A fire to be stored, with what it submits where it does."""

    fire: Fire
    experiment: Experiment | None = None
    runs: Sequence[Run] = ()
    deed: Deed | None = None


class ScheduleStore(Protocol):
    """The part of the store that holds schedules. See ``ports.Store`` for what all its methods may raise."""

    def add_schedule(self, new: Schedule, key: Idempotency | None, deed: Deed) -> tuple[Schedule, bool]:
        """Store it; (it, True). With an idempotency key that was used before, what was stored then, and False.

        Raises:
            Conflict: there is one of that name.
            IdempotencyMismatch: the key was used with another body.
            NotFound: the key was used, and what was stored then is removed.
        """

    def schedule(self, schedule_id: str) -> Schedule:
        """Raises ``DamagedRow`` where it cannot be read."""

    def owner_of_schedule(self, schedule_id: str) -> str:
        """Whose it is, also of one that cannot be read."""

    def schedules(
        self, wanted: ScheduleFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Schedule]:
        """Newest first. Raises ``InvalidRequest``: the cursor is not one of ours."""

    def change_schedule(self, changed: Schedule, deed: Deed) -> bool:
        """Replace the row whose version is that of ``changed``; False where it is another by now.

        Raises:
            Conflict: there is another one of its new name.
        """

    def remove_schedule(self, schedule_id: str, deed: Deed) -> None:
        """Remove it with its fires; experiments that it made stay."""

    def schedules_due(self, until: float) -> Sequence[Schedule]:
        """Those with a time to be considered by then, the earliest first, without those that cannot be read."""

    def schedules_ahead(self, of: float) -> Sequence[Schedule]:
        """Those that have considered times after ``of``."""

    def settle(self, schedule: Schedule, considered_until: float, due_at: float | None, new: Sequence[NewFire]) -> bool:
        """Store what became of times of ``schedule``, with the experiments that they submit, and that all up to
        ``considered_until`` were considered; in one transaction. A time that has a record keeps it, and submits
        nothing. False, and nothing is stored, where the schedule's version is another by now."""

    def set_back(self, seen: Schedule, now: float) -> bool:
        """The clock was set back to ``now``: forget what was recorded after that (by the clock of then) and submitted
        nothing, so that those times are considered anew. False where the schedule's version is another by now."""

    def add_manual_fire(self, new: NewFire, key: Idempotency | None) -> tuple[Fire, bool]:
        """Store a fire that somebody asked for, with its experiment; (it, True). With an idempotency key that was used
        before, the fire of then, and False.

        Raises:
            NotFound: there is no such schedule any more.
            IdempotencyMismatch: the key was used with another request.
        """

    def end_waiting(self, ended: NewFire) -> bool:
        """A waiting fire has become ``ended``; False where it waits no longer."""

    def waiting_fires(self) -> Sequence[Fire]:
        """All that wait, the oldest time first."""

    def fire(self, fire_id: str) -> Fire: ...

    def fires(self, wanted: FireFilter, *, limit: int = 50, cursor: str | None = None) -> Page[Fire]:
        """The latest time first. Raises ``InvalidRequest``: the cursor is not one of ours."""

    def last_fires(self, schedule_ids: Collection[str]) -> Mapping[str, Fire]:
        """Schedule -> the fire of its latest time, where it has one."""

    def active_of_schedule(self, schedule_id: str) -> Sequence[str]:
        """The experiments that it made and that are not over, oldest first."""


def due_times(schedule: Schedule, cron: Cron, zone: tzinfo, after: float) -> Iterator[tuple[float, float]]:
    """(time, when it is due) of the times after ``after``, in order: a time is due before the next one comes.

    Its jitter is a share, drawn from the schedule and the time alone, of ``jitter_s`` or of the way to the next time
    where that is shorter.
    """
    times = cron.times(zone, after)
    time = next(times, None)
    while time is not None:
        following = next(times, None)
        widest = schedule.jitter_s if following is None else min(schedule.jitter_s, following - time)
        yield time, time + (_share(schedule.id, time) * widest if widest else 0.0)
        time = following


def _share(schedule_id: str, time: float) -> float:
    """A share in [0, 1), the same on every server."""
    drawn = hashlib.sha256(f"{schedule_id} {time:.0f}".encode()).digest()
    return int.from_bytes(drawn[:6], "big") / 2**48


def next_due(schedule: Schedule, cron: Cron, zone: tzinfo, after: float) -> float | None:
    """When the first time after ``after`` is due."""
    return next((due for _, due in due_times(schedule, cron, zone, after)), None)


@dataclass(frozen=True)
class Judged:
    """A time that is due. ``state`` None: it is to be submitted, unless something else speaks against that. It stands
    for ``n_times`` times, all of those up to ``until`` (None: itself alone)."""

    at: float
    due_at: float
    state: FireState | None = None
    reason: str | None = None
    n_times: int = 1
    until: float | None = None

    @property
    def considered(self) -> float:
        """Every time up to it is considered with this one."""
        return self.at if self.until is None else self.until


def judged(
    schedule: Schedule, cron: Cron, zone: tzinfo, now: float, why_late: str = "no server looked"
) -> list[Judged]:
    """What is to become of the times that are due by ``now`` and were not considered yet, oldest first.

    Args:
        why_late: why nobody submitted at its time what is late by now.
    """
    bundle, due = _due(schedule, cron, zone, now)
    if schedule.paused:
        found = [Judged(at, due_at, FireState.SKIPPED, "the schedule is paused") for at, due_at in due]
    else:
        found = [_one(schedule, at, due_at, now, is_newest, why_late) for at, due_at, is_newest in _with_newest(due)]
    return bundle + found


def _with_newest(due: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float, bool]]:
    for place, (at, due_at) in enumerate(due, start=1):
        yield at, due_at, place == len(due)


def _one(schedule: Schedule, at: float, due_at: float, now: float, is_newest: bool, why_late: str) -> Judged:
    late_s = now - due_at
    if late_s <= GRACE_S:
        return Judged(at, due_at)
    why = None
    if late_s > schedule.max_age_s:
        why = f"max_age_s is {schedule.max_age_s:g}"
    elif schedule.misfire is Misfire.SKIP:
        why = "misfire is skip"
    elif schedule.misfire is Misfire.ONE and not is_newest:
        why = "misfire is one, and a later time was due as well"
    if why is None:
        return Judged(at, due_at)
    return Judged(at, due_at, FireState.MISSED, f"{why_late} until {told(now)}, {late_s:.0f} s late; {why}")


def _due(
    schedule: Schedule, cron: Cron, zone: tzinfo, now: float
) -> tuple[list[Judged], Sequence[tuple[float, float]]]:
    """The times that are due: (one record for those that are too many, the newest ones)."""
    start = max(schedule.considered_until, now - LOOK_BACK_S)
    before = takewhile(lambda time: time <= start, cron.times(zone, schedule.considered_until))
    older = list(islice(before, MOST_COUNTED)) if start > schedule.considered_until else []
    recent: deque[tuple[float, float]] = deque(maxlen=MOST_LATE)
    passed_over, first, last = len(older), older[0] if older else None, older[-1] if older else None
    for at, due_at in takewhile(lambda pair: pair[1] <= now, due_times(schedule, cron, zone, start)):
        if len(recent) == MOST_LATE:
            passed_over, last = passed_over + 1, recent[0][0]
            first = last if first is None else first
        recent.append((at, due_at))
    if first is None or last is None:
        return [], recent
    more, last = (" or more", max(last, start)) if len(older) == MOST_COUNTED else ("", last)
    reason = f"no server looked for very long: {passed_over}{more} times, up to {told(last)}, share this record"
    state = FireState.SKIPPED if schedule.paused else FireState.MISSED
    return [Judged(first, first, state, reason, passed_over, last)], recent


def told(time: float) -> str:
    """A time for a reason: RFC 3339, to the second."""
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%dT%H:%M:%SZ}"
