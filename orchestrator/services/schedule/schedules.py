"""Schedules: make, change, pause, remove one, submit its spec now. ``services.scheduler`` submits it at its times."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from pydantic import Field, ValidationError, field_validator

from orchestrator.domain.around.access import Actor
from orchestrator.domain.around.cron import Cron, parse_cron
from orchestrator.domain.around.schedule import (
    FIRE_PREFIX,
    SCHEDULE_PREFIX,
    Fire,
    FireState,
    Misfire,
    NewFire,
    Overlap,
    Schedule,
    Trigger,
    judged,
    next_due,
    told,
)
from orchestrator.domain.asked.spec import NAME_PATTERN, StrictModel, problems_of
from orchestrator.domain.runs.run import Origin
from orchestrator.domain.words.errors import Conflict, InvalidRequest, Problem
from orchestrator.domain.words.ids import ALPHABET
from orchestrator.services.clock import new_id
from orchestrator.services.context import Context
from orchestrator.services.experiment import submit
from orchestrator.services.facts.zones import zone_of
from orchestrator.services.once import idempotency
from orchestrator.services.tokens import deed_of

DAY_S = 86400.0
LONGEST_S = 366 * DAY_S
UPCOMING = 5  # times that are shown: a judgement
_TRIES = 5  # of a change that another one came before

Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$", description="what people call it: a-z, 0-9 and -; its own")]
CronText = Annotated[
    str,
    Field(
        max_length=200,
        description="minute, hour, day of month, month, day of week: values, ranges, lists, steps, names; or such as "
        "@daily",
        examples=["0 2 * * MON-FRI"],
    ),
]
Timezone = Annotated[str, Field(max_length=100, description="IANA name of the zone that cron means", examples=["UTC"])]
Spec = dict[str, Any]
MaxAge = Annotated[
    float,
    Field(
        strict=True,
        ge=0,
        le=LONGEST_S,
        description="seconds after which a time that came late, or waits, is given up as missed",
    ),
]
Jitter = Annotated[
    float,
    Field(
        strict=True,
        ge=0,
        le=DAY_S,
        description="seconds by which each time is put off at most, never beyond the next one: drawn from the schedule "
        "and the time, the same on every server",
    ),
]
_MISFIRE = "which times are submitted later that no server looked after in time: skip (none), one (the newest), all"
_OVERLAP = (
    "what becomes of a time while an experiment of the schedule goes on: skip (it is left out), queue (it waits, for "
    "max_age_s at most), allow (it is submitted)"
)


def _check_cron(text: str) -> str:
    parse_cron(text)
    return text


def _check_timezone(name: str) -> str:
    zone_of(name)
    return name


class _Checked(StrictModel):
    """What a request to make or change a schedule has in common. A field that is None is not given."""

    @field_validator("cron", check_fields=False)
    @classmethod
    def _cron(cls, text: str | None) -> str | None:
        return None if text is None else _check_cron(text)

    @field_validator("timezone", check_fields=False)
    @classmethod
    def _timezone(cls, name: str | None) -> str | None:
        return None if name is None else _check_timezone(name)


class ScheduleRequest(_Checked):
    """A schedule to be made."""

    name: Name
    cron: CronText
    timezone: Timezone = "UTC"
    spec: Spec = Field(description="what is submitted each time")
    misfire: Misfire = Field(default=Misfire.ONE, description=_MISFIRE)
    max_age_s: MaxAge = DAY_S
    overlap: Overlap = Field(default=Overlap.SKIP, description=_OVERLAP)
    jitter_s: Jitter = 0.0
    paused: bool = Field(default=False, strict=True, description="its times are recorded as skipped")


class ScheduleChange(_Checked):
    """What is to change of a schedule; the rest stays. A spec is replaced as a whole."""

    name: Name | None = None
    cron: CronText | None = None
    timezone: Timezone | None = None
    spec: Spec | None = Field(default=None, description="what is submitted each time")
    misfire: Misfire | None = Field(default=None, description=_MISFIRE)
    max_age_s: MaxAge | None = None
    overlap: Overlap | None = Field(default=None, description=_OVERLAP)
    jitter_s: Jitter | None = None
    paused: Annotated[bool, Field(strict=True)] | None = None


@dataclass(frozen=True)
class Rules:
    """What a schedule's texts mean."""

    cron: Cron
    zone: ZoneInfo

    @classmethod
    def of(cls, schedule: Schedule) -> "Rules":
        """Raises ValueError: a stored text means nothing any more, such as a zone that this host does not know."""
        return cls(parse_cron(schedule.cron), zone_of(schedule.timezone))

    def next_due(self, schedule: Schedule, after: float) -> float | None:
        return next_due(schedule, self.cron, self.zone, after)


def add(context: Context, body: Any, by: Actor, idempotency_key: str | None = None) -> tuple[Schedule, bool]:
    """Store the schedule that ``body`` describes; (it, whether it is new). Its first time is after now.

    Raises:
        InvalidRequest: with a JSON pointer to each thing that is wrong; below ``/spec`` as ``submit`` would say.
        Conflict: there is one of that name.
        IdempotencyMismatch: the key was used before with another body.
    """
    asked = _parsed(ScheduleRequest, body, "a schedule is an object of fields, such as {name: …, cron: …, spec: …}")
    now = context.clock.now()
    key = None if idempotency_key is None else idempotency(by.owner, idempotency_key, "schedule", body)
    fields = asked.model_dump() | {"spec": _accepted(context, asked.spec)}
    new = Schedule(
        id=new_id(SCHEDULE_PREFIX) if key is None else _id_of(by.owner, key.key, key.body_sha256),
        owner=by.owner,
        created_at=now,
        considered_until=now,
        due_at=None,
        **fields,
    )
    new = replace(new, due_at=Rules.of(new).next_due(new, now))
    stored, created = context.store.add_schedule(new, key, deed_of(by, now, "schedule add", new.id))
    if created:
        context.wake()
    return stored, created


def _id_of(*parts: str) -> str:
    """The id of what a request with an idempotency key makes: sent again, it makes the same."""
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    return f"{SCHEDULE_PREFIX}_{''.join(ALPHABET[byte % 32] for byte in digest[:20])}"


def _accepted(context: Context, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The spec as it is stored, defaults included: what a default is may change, a series should not."""
    try:
        return submit.plan(context, spec)[0].to_json()
    except InvalidRequest as error:
        problems = [Problem(f"/spec{problem.pointer}", problem.message) for problem in error.problems]
        raise InvalidRequest(problems) from None


def _parsed(kind: type[Any], body: Any, what: str) -> Any:
    if not isinstance(body, Mapping):
        raise InvalidRequest([Problem("", what)])
    try:
        return kind.model_validate(dict(body))
    except ValidationError as error:
        raise InvalidRequest(problems_of(kind, body, error)) from None


def all_schedules(context: Context) -> list[Schedule]:
    """All that can be read, the newest first."""
    found: list[Schedule] = []
    cursor: str | None = None
    while True:
        page = context.store.schedules(limit=200, cursor=cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


def check_may_change(context: Context, schedule_id: str, by: Actor) -> None:
    """Refuse what only the owner of a schedule, or an admin, may do with it.

    Raises:
        NotFound: there is none.
        NotAllowed: it is somebody else's.
    """
    by.check_may_change(schedule_id, context.store.owner_of_schedule(schedule_id))


def change(context: Context, schedule_id: str, body: Any, by: Actor) -> Schedule:
    """Change the fields that ``body`` names; the schedule as it is then. Another cron, zone or jitter, and the end of a
    pause, hold for times from now on.

    Raises:
        NotFound, NotAllowed: as ``check_may_change``.
        InvalidRequest: as ``add``.
        Conflict: there is another one of the new name; or its zone is not known to this host any more.
    """
    check_may_change(context, schedule_id, by)
    asked = _parsed(ScheduleChange, body, "a change is an object of fields, such as {paused: true}")
    fields = {name: value for name, value in asked.model_dump().items() if value is not None}
    if "spec" in fields:
        fields["spec"] = _accepted(context, fields["spec"])
    for _ in range(_TRIES):
        schedule = context.store.schedule(schedule_id)
        now = context.clock.now()
        changed = _changed(schedule, fields, now)
        if changed == schedule:
            return schedule
        if changed.considered_until != schedule.considered_until and (left := _left_behind(schedule, now)):
            context.store.settle(schedule, now, schedule.due_at, left)
            continue
        if context.store.change_schedule(changed, deed_of(by, now, _action(schedule, changed), schedule_id)):
            context.wake()
            return context.store.schedule(schedule_id)
    raise Conflict(f"{schedule_id} is being changed by others: try again")


def _changed(schedule: Schedule, fields: Mapping[str, Any], now: float) -> Schedule:
    changed = replace(schedule, **fields)
    if changed == schedule:
        return schedule
    timing = ("cron", "timezone", "jitter_s")
    is_resumed = schedule.paused and not changed.paused
    if is_resumed or any(getattr(schedule, name) != getattr(changed, name) for name in timing):
        changed = replace(changed, considered_until=now)
        try:
            changed = replace(changed, due_at=Rules.of(changed).next_due(changed, now))
        except ValueError as error:
            raise Conflict(f"{schedule.id} means nothing here: {error}. Change that first") from None
    return changed


def _left_behind(schedule: Schedule, now: float) -> list[NewFire]:
    """The times up to now that nobody has looked after (some may be due later, by their jitter): a change must not make
    them vanish."""
    try:
        rules = Rules.of(schedule)
    except ValueError:  # nobody can tell which times they were
        return []
    found = judged(replace(schedule, paused=True, jitter_s=0.0), rules.cron, rules.zone, now)
    reason = None if schedule.paused else f"the schedule was changed at {told(now)}, before it was looked after"
    return [
        NewFire(
            Fire(
                id=new_id(FIRE_PREFIX),
                schedule_id=schedule.id,
                at=one.at,
                due_at=one.due_at,
                created_at=now,
                trigger=Trigger.CRON,
                state=FireState.SKIPPED,
                reason=reason or one.reason,
                n_times=one.n_times,
            )
        )
        for one in found
    ]


def _action(before: Schedule, after: Schedule) -> str:
    if before.paused != after.paused:
        return "schedule pause" if after.paused else "schedule resume"
    return "schedule change"


def remove(context: Context, schedule_id: str, by: Actor) -> None:
    """Remove it with its fires. The experiments that it made stay, and go on.

    Raises:
        NotFound, NotAllowed: as ``check_may_change``.
    """
    check_may_change(context, schedule_id, by)
    context.store.remove_schedule(schedule_id, deed_of(by, context.clock.now(), "schedule remove", schedule_id))


def run_now(context: Context, schedule_id: str, by: Actor, idempotency_key: str | None = None) -> tuple[Fire, bool]:
    """Submit its spec now, as its owner, also while it is paused or another experiment of it goes on. Its times stay as
    they are. (The fire, whether it is new.)

    Raises:
        NotFound, NotAllowed: as ``check_may_change``.
        InvalidRequest: the spec no longer fits the suite.
        IdempotencyMismatch: the key was used for another request.
    """
    check_may_change(context, schedule_id, by)
    schedule = context.store.schedule(schedule_id)
    now = context.clock.now()
    fire = Fire(new_id(FIRE_PREFIX), schedule_id, now, now, now, Trigger.MANUAL, FireState.SUBMITTED)
    key = None if idempotency_key is None else idempotency(by.owner, idempotency_key, "run", schedule_id)
    stored, created = context.store.add_manual_fire(submitted(context, schedule, fire, by), key)
    if created:
        context.wake()
    return stored, created


def submitted(context: Context, schedule: Schedule, fire: Fire, by: Actor) -> NewFire:
    """``fire`` with the experiment that it submits: as ``services.submit`` makes it, of the schedule's owner.

    Raises:
        InvalidRequest: the spec no longer fits the suite.
    """
    experiment, runs = submit.new_experiment(context, schedule.spec, schedule.owner)
    experiment = replace(experiment, origin=Origin(schedule.id, fire.id, fire.at))
    made = replace(fire, state=FireState.SUBMITTED, reason=None, experiment_id=experiment.id)
    action = "schedule run" if fire.trigger is Trigger.MANUAL else "submit"
    return NewFire(made, experiment, runs, deed_of(by, experiment.created_at, action, experiment.id))


def upcoming(schedule: Schedule, now: float) -> Sequence[float]:
    """The next times of a schedule, none while it is paused or its zone is not known here."""
    if schedule.paused:
        return []
    try:
        rules = Rules.of(schedule)
    except ValueError:
        return []
    return list(islice(rules.cron.times(rules.zone, max(now, schedule.considered_until)), UPCOMING))
