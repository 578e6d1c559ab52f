"""Submits schedules at their times. The server of a database runs one; should two overlap, each time has one record.

One pass looks at what is due by the clock of the port, judges it (``domain.schedule``), and stores what became of each
time together with the experiment that it submits. So a server that dies at any moment leaves times either settled or
not yet considered, and the next one goes on.

The clock may jump. Forward: the times in between are late, as after an outage. Back by more than ``SET_BACK_S``: what
was recorded meanwhile and submitted nothing is forgotten, and those times are considered anew; what was submitted is
not submitted twice.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from orchestrator.domain.around.access import Actor, Scope, is_shut_out
from orchestrator.domain.around.schedule import (
    FIRE_PREFIX,
    SET_BACK_S,
    Fire,
    FireState,
    Judged,
    NewFire,
    Overlap,
    Schedule,
    Trigger,
    judged,
    told,
)
from orchestrator.domain.asked.placement import NodeState
from orchestrator.domain.words.errors import ClusterUnavailable, Conflict, InvalidRequest, NotFound
from orchestrator.services.clock import new_id
from orchestrator.services.context import Context
from orchestrator.services.lookout import POLL_S, TROUBLE_S, Lookout
from orchestrator.services.reconcile.reconciler import Bell
from orchestrator.services.schedule import schedules

log = logging.getLogger(__name__)

# Judgements.
MOST_TOLD = 5  # times of one schedule that the log names in one pass


class Scheduler(Lookout):
    """Submits what schedules ask for.

    Args:
        poll_s: the longest pause between looks, in seconds.
    """

    def __init__(self, context: Context, bell: Bell, poll_s: float = POLL_S) -> None:
        super().__init__("scheduler", bell)
        self._context = context
        self._poll_s = poll_s
        # Schedule -> why its times of now could not be submitted, for the record of what is late by then.
        self._held: dict[str, str] = {}

    def look(self) -> float:
        """One pass: settle every time that is due; the seconds until the next look.

        Raises:
            StoreUnavailable: the database is away; what was settled before stays so.
        """
        now = self._context.clock.now()
        for schedule in self._context.store.schedules_ahead(now + SET_BACK_S):
            self._set_back(schedule, now)
        soon = self._context.store.schedules_due(now + self._poll_s)
        due = [one for one in soon if one.due_at is not None and one.due_at <= now]
        settled = [self._settle(one, now) for one in due]
        if not self._end_waits(now) or not all(settled):
            return min(TROUBLE_S, self._poll_s)
        later = [one.due_at - now for one in soon if one.due_at is not None and one.due_at > now]
        return 0.0 if due else min([self._poll_s, *later])

    def _set_back(self, schedule: Schedule, now: float) -> None:
        if self._context.store.set_back(schedule, now):
            until = told(schedule.considered_until)
            log.warning("the clock was set back: times of %s up to %s are considered anew", schedule.id, until)

    def _settle(self, schedule: Schedule, now: float) -> bool:
        """Settle what is due of one schedule; False where it has to be tried again."""
        rules = self._rules(schedule)
        if rules is None:
            return False
        try:
            found = judged(schedule, rules.cron, rules.zone, now, self._held.get(schedule.id, "no server looked"))
            new = self._all_settled(schedule, found, now)
        except ClusterUnavailable as error:
            self._hold(schedule, str(error))
            return False
        considered = max((one.considered for one in found), default=schedule.considered_until)
        if self._context.store.settle(schedule, considered, rules.next_due(schedule, considered), new):
            self._held.pop(schedule.id, None)
            self._tell(schedule, new)
        return True

    def _rules(self, schedule: Schedule) -> schedules.Rules | None:
        """What its texts mean; None where they mean nothing here: another host may know."""
        try:
            return schedules.Rules.of(schedule)
        except ValueError as error:
            self._hold(schedule, str(error))
            return None

    def _hold(self, schedule: Schedule, why: str) -> None:
        if schedule.id not in self._held:
            log.warning("schedule %s (%s) is held: %s", schedule.name, schedule.id, why)
        self._held[schedule.id] = why

    def _tell(self, schedule: Schedule, new: Sequence[NewFire]) -> None:
        if any(one.experiment for one in new):
            self._context.wake()
        lost = [one.fire for one in new if one.fire.state in (FireState.MISSED, FireState.REFUSED)]
        for fire in lost[:MOST_TOLD]:
            what = (schedule.name, schedule.id, told(fire.at), fire.state, fire.reason)
            log.warning("schedule %s (%s): the time of %s is %s: %s", *what)
        if len(lost) > MOST_TOLD:
            log.warning("schedule %s (%s): and %d more times", schedule.name, schedule.id, len(lost) - MOST_TOLD)

    def _all_settled(self, schedule: Schedule, found: Sequence[Judged], now: float) -> list[NewFire]:
        """What becomes of each time, oldest first. Raises ``ClusterUnavailable``."""
        ahead = _Ahead(self._context, schedule)
        return [self._settled(schedule, one, now, ahead) for one in found]

    def _settled(self, schedule: Schedule, one: Judged, now: float, ahead: "_Ahead") -> NewFire:
        state = one.state or FireState.SUBMITTED
        fire = Fire(new_id(FIRE_PREFIX), schedule.id, one.at, one.due_at, now, Trigger.CRON, state, one.reason)
        if one.state is not None:
            return NewFire(replace(fire, n_times=one.n_times))
        what = ahead.what()
        if what and schedule.overlap is Overlap.SKIP:
            return NewFire(replace(fire, state=FireState.SKIPPED, reason=f"{what} goes on; overlap is skip"))
        if what and schedule.overlap is Overlap.QUEUE:
            ahead.add(f"the time of {told(one.at)}")
            return NewFire(replace(fire, state=FireState.WAITING, reason=f"until {what} is over; overlap is queue"))
        new = self._submitted(schedule, fire)
        if new.experiment is not None:
            ahead.add(new.experiment.id)
        return new

    def _submitted(self, schedule: Schedule, fire: Fire) -> NewFire:
        """``fire`` with its experiment, or why it is refused. Raises ``ClusterUnavailable``."""
        if is_shut_out(schedule.owner, self._context.store.all_tokens().items):
            reason = f"every token by which {schedule.owner} may submit has been revoked"
            return NewFire(replace(fire, state=FireState.REFUSED, reason=reason))
        nodes = self._context.cluster.nodes()
        if not any(node.state is not NodeState.UNREACHABLE for node in nodes):
            raise ClusterUnavailable("no node can be reached")  # what ``auto`` stands for is not known either
        by = Actor(schedule.owner, Scope.SUBMIT, None, f"(schedule {schedule.name})")
        try:
            return schedules.submitted(self._context, schedule, fire, by)
        except InvalidRequest as error:
            return NewFire(replace(fire, state=FireState.REFUSED, reason=f"the spec is refused: {error}"))

    def _end_waits(self, now: float) -> bool:
        """Move on what has waited enough, oldest first; False where something has to be tried again."""
        is_done = True
        blocked: set[str] = set()
        for fire in self._context.store.waiting_fires():
            if fire.schedule_id not in blocked:
                blocked.add(fire.schedule_id)  # unless this one gives way at once
                try:
                    if self._gives_way(fire, now):
                        blocked.discard(fire.schedule_id)
                except ClusterUnavailable as error:
                    log.warning("%s of %s is held: %s", fire.id, fire.schedule_id, error)
                    is_done = False
                except (NotFound, Conflict):  # removed, or damaged, meanwhile
                    continue
        return is_done

    def _gives_way(self, fire: Fire, now: float) -> bool:
        """Move one waiting fire on if it may; whether the next one of its schedule is at the head of the queue now."""
        schedule = self._context.store.schedule(fire.schedule_id)
        waited_s = now - fire.due_at
        if waited_s > schedule.max_age_s:
            reason = f"waited {waited_s:.0f} s for its turn; max_age_s is {schedule.max_age_s:g}"
            ended = NewFire(replace(fire, state=FireState.MISSED, reason=reason))
        elif schedule.paused:
            ended = NewFire(replace(fire, state=FireState.SKIPPED, reason="the schedule was paused while it waited"))
        elif schedule.overlap is not Overlap.ALLOW and self._context.store.active_of_schedule(schedule.id):
            return False
        else:
            ended = self._submitted(schedule, fire)
        if self._context.store.end_waiting(ended):
            self._tell(schedule, [ended])
        return ended.experiment is None


class _Ahead:
    """What of a schedule is not over: its experiments, and times that wait. Looked up when it is asked for."""

    def __init__(self, context: Context, schedule: Schedule) -> None:
        self._context = context
        self._schedule = schedule
        self._names: list[str] | None = None
        self._more: list[str] = []

    def add(self, name: str) -> None:
        self._more.append(name)

    def what(self) -> str | None:
        """The latest of what is not over, in words; None where there is nothing, or it does not matter."""
        if self._schedule.overlap is Overlap.ALLOW:
            return None
        if self._names is None:
            store = self._context.store
            waiting = [one for one in store.waiting_fires() if one.schedule_id == self._schedule.id]
            self._names = [
                *store.active_of_schedule(self._schedule.id),
                *(f"the time of {told(w.at)}" for w in waiting),
            ]
        names = [*self._names, *self._more]
        return names[-1] if names else None
