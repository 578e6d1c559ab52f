"""The regression gate at work: takes note of candidates, has them tried side by side, and says what that told.

One pass looks at every schedule whose newest night is over, and at every confirmation that goes on. What it decides is
stored at once: an alert and the experiment that tries it are one transaction, under an id that follows from what the
alert is of. So a server that dies at any moment, and two at once, try nothing twice.
"""

import hashlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from orchestrator.analysis.gate import candidates as judged_candidates
from orchestrator.analysis.gate.confirmation import Design
from orchestrator.analysis.gate.suspects import Suspect
from orchestrator.domain.around.access import is_shut_out
from orchestrator.domain.around.alerts import (
    ALERT_PREFIX,
    Alert,
    AlertFilter,
    AlertState,
    Candidate,
    Elsewhere,
    Told,
    Trial,
    Undone,
)
from orchestrator.domain.around.schedule import Schedule, told
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.run import ExperimentState
from orchestrator.services.context import Context
from orchestrator.services.gate import elsewhere, equal_arms, outbox
from orchestrator.services.gate.again import sides_of
from orchestrator.services.gate.trials import Budget, experiment_of, outcome_of
from orchestrator.services.lookout import POLL_S, Lookout
from orchestrator.services.reconcile.reconciler import Bell
from orchestrator.services.schedule.board import Column, Judged, alerts_of, candidate_of, judged_cells, nights_of
from orchestrator.services.schedule.schedules import all_schedules

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Found:
    """A candidate of a night that nobody has taken note of yet."""

    judged: Judged
    suspect: Suspect
    candidate: Candidate
    sides: tuple[Plan, Plan] | str


class Gatekeeper(Lookout):
    """Looks after every schedule's newest night that is over, and every confirmation.

    Args:
        budget_ratio: device time of confirmations of a schedule / that of its nights, at most; 0: nothing is tried.
    """

    def __init__(self, context: Context, bell: Bell, budget_ratio: float, poll_s: float = POLL_S) -> None:
        super().__init__("gatekeeper", bell)
        self._context = context
        self._budget = Budget(context, budget_ratio)
        self._poll_s = poll_s

    def look(self) -> float:
        """One pass; the seconds until the next one.

        Raises:
            StoreUnavailable: the database is away.
            ClusterUnavailable: the cluster is.
        """
        for alert in self._in(AlertState.TRYING):
            if alert.told.elsewhere is None:
                self._conclude(alert)
            else:
                self._conclude_elsewhere(alert, alert.told.elsewhere)
        for alert in self._in(AlertState.OPEN):
            if alert.is_asked_anew:
                self._conclude_undone(alert)
        noted = (
            {one.id for one in all_schedules(self._context) if self._take_note(one)}
            if self._budget.ratio > 0.0
            else set()
        )
        asked = [one for one in self._in(AlertState.OPEN) if one.is_asked_anew]
        outbox.tell(self._context, noted | {one.schedule_id for one in [*self._in(AlertState.TRYING), *asked]})
        return self._poll_s

    def _in(self, state: AlertState) -> Sequence[Alert]:
        return self._context.store.alerts(AlertFilter(state=state.value), limit=200).items

    # candidates

    def _take_note(self, schedule: Schedule) -> bool:
        """Whether there is something of it that nobody knew, so that there may be more."""
        if schedule.paused or is_shut_out(schedule.owner, self._context.store.all_tokens().items):
            return False
        columns = nights_of(self._context, schedule)
        if not columns or any(one.experiment_state == ExperimentState.ACTIVE.value for one in columns):
            return False
        known = alerts_of(self._context, schedule)
        if any(one.state is AlertState.TRYING or one.is_asked_anew for one in known):
            return False  # one at a time: the next one is judged by what this one leaves of the budget
        found = list(self._found(schedule, columns, known))
        if not found:
            if self._ask_anew(schedule, columns, known):
                return True
            equal_arms.begin(self._context, self._budget, schedule, columns)
            return False
        cause = self._first_cause(schedule, found)
        tried = min(cause, key=lambda one: (isinstance(one.sides, str), one.candidate.difference))
        others = tuple(one.candidate for one in cause if one is not tried)
        return self._begin(schedule, columns, tried, others)

    def _found(self, schedule: Schedule, columns: Sequence[Column], known: Sequence[Alert]) -> "list[_Found]":
        found = []
        for key, judged in judged_cells(self._context, schedule, columns).items():
            for suspect in judged.suspects:
                if suspect.kind != "step" or suspect.ends is not None:
                    continue
                candidate = candidate_of(key, judged, suspect)
                if not any(_is_known(candidate, alert) for alert in known):
                    sides = sides_of(judged.plan, judged.places[suspect.place], suspect)
                    found.append(_Found(judged, suspect, candidate, sides))
        return found

    def _first_cause(self, schedule: Schedule, found: "Sequence[_Found]") -> "list[_Found]":
        """Those of them that may have one cause, of the oldest."""
        by_call = {
            judged_candidates.Candidate(
                series=one.candidate.cell,
                place=one.candidate.place,
                at=one.candidate.at,
                called_at=one.candidate.called_at,
                kind=one.suspect.kind,
                difference=one.candidate.difference,
                before="",
                after=repr(one.suspect.changes),
            ): one
            for one in found
        }
        schedules = {one.candidate.cell: schedule.id for one in found}
        return [by_call[one] for one in judged_candidates.causes_of(list(by_call), schedules)[0]]

    def _begin(
        self, schedule: Schedule, columns: Sequence[Column], found: "_Found", others: tuple[Candidate, ...]
    ) -> bool:
        now = self._context.clock.now()
        made = f"{schedule.id} {found.candidate.cell} {found.candidate.place} {found.candidate.at:.0f}"
        alert = Alert(
            id=f"{ALERT_PREFIX}_{hashlib.sha256(made.encode()).hexdigest()[:20]}",
            schedule_id=schedule.id,
            state=AlertState.UNCONFIRMED,
            created_at=now,
            updated_at=now,
            experiment_id=None,
            told=Told((found.candidate, *others), found.suspect.changes, ""),
        )
        if isinstance(found.sides, str):
            tried = f"unconfirmed: nothing can be tried side by side: {found.sides}"
            if self._context.store.add_alert(replace(alert, told=replace(alert.told, tried=tried))):
                log.info("%s: %s on %s: %s", alert.id, found.candidate.label, found.candidate.place, tried)
            return True
        what = f"{found.candidate.label} on {found.candidate.place} looks slower"
        planned = self._budget.planned(schedule, columns, found.judged, found.candidate.difference, what)
        if planned is not None:
            self._try(schedule, alert, found.sides, planned)
        return planned is not None

    # confirmations

    def _try(self, schedule: Schedule, alert: Alert, sides: tuple[Plan, Plan], planned: Design) -> None:
        experiment, runs = experiment_of(self._context, schedule, alert.id, sides, planned, alert.created_at)
        tried = f"being tried side by side in {experiment.id}, by {planned.most_blocks} blocks at most"
        told = replace(alert.told, tried=tried)
        trying = replace(alert, state=AlertState.TRYING, experiment_id=experiment.id, told=told)
        if self._context.store.add_alert(trying, experiment, runs):
            first = alert.told.candidates[0]
            log.info("%s: %s on %s looks slower: %s", alert.id, first.label, first.place, tried)
            self._context.wake()

    def _conclude(self, alert: Alert) -> None:
        """Say what a confirmation has told, where it is over; a loss is tried on equal devices too, before that."""
        assert alert.experiment_id is not None
        found = outcome_of(self._context, alert.experiment_id, alert.told.candidates[0].place)
        if found is None:
            return
        to, tried = {
            "slower": (AlertState.OPEN, f"confirmed {found.text}"),
            "no_such_loss": (AlertState.REFUTED, found.text),
            "untold": (AlertState.UNCONFIRMED, f"unconfirmed: {found.text}"),
        }[found.answer]
        told = replace(alert.told, tried=tried, effect=found.effect, operators=found.operators)
        there = elsewhere.begin(self._context, self._budget, alert) if to is AlertState.OPEN else None
        if there is None:
            self._move(alert, to, told)
        else:
            self._move(alert, AlertState.TRYING, replace(told, elsewhere=there[0]), there[1])

    def _conclude_elsewhere(self, alert: Alert, begun: Elsewhere) -> None:
        found = outcome_of(self._context, begun.trying, begun.place)
        if found is not None:
            self._move(alert, AlertState.OPEN, replace(alert.told, elsewhere=elsewhere.concluded(begun, found)))

    def _move(self, alert: Alert, to: AlertState, told: Told, trial: Trial | None = None) -> None:
        now = self._context.clock.now()
        if self._context.store.move_alert(alert.id, alert.state, to, told, now, seen_at=alert.updated_at, trial=trial):
            first = told.candidates[0]
            log.warning("%s: %s on %s is %s: %s", alert.id, first.label, first.place, to, told.text)
            if trial is not None:
                self._context.wake()

    # whether an alert is undone

    def _ask_anew(self, schedule: Schedule, columns: Sequence[Column], known: Sequence[Alert]) -> bool:
        """Where nights look again as they did before an open alert: try what is there now beside what was there before
        the alert. Whether there was something to note."""
        back = next(self._recoveries(schedule, columns, known), None)
        if back is None:
            return False
        alert, judged, suspect = back
        since, effect = f"looks as before since {told(suspect.begins.at)}", alert.told.effect
        if not suspect.changes:
            undone = Undone(suspect.begins.at, f"closed: {since}, and what had changed is as it was")
            self._move(alert, AlertState.CLOSED, replace(alert.told, undone=undone))
            return True
        sides = sides_of(judged.plan, judged.places[suspect.place], suspect)
        if isinstance(sides, str):
            undone = Undone(suspect.begins.at, f"{since}, which cannot be tried side by side: {sides}")
            self._move(alert, AlertState.OPEN, replace(alert.told, undone=undone))
            return True
        assert effect is not None
        assert effect.value is not None
        planned = self._budget.planned(schedule, columns, judged, effect.value, f"{alert.id} {since}")
        if planned is None:
            return False
        now = self._context.clock.now()
        experiment, runs = experiment_of(self._context, schedule, alert.id, sides, planned, now)
        undone = Undone(suspect.begins.at, f"{since}; being tried in {experiment.id}", experiment.id, now)
        self._move(alert, AlertState.OPEN, replace(alert.told, undone=undone), (experiment, runs))
        return True

    def _recoveries(
        self, schedule: Schedule, columns: Sequence[Column], known: Sequence[Alert]
    ) -> Iterator[tuple[Alert, Judged, Suspect]]:
        """Open alerts whose nights look as before, each with what it was tried of: from the night before it to the
        first one that looks so."""
        cells = judged_cells(self._context, schedule, columns)
        for alert in known:
            if alert.state is not AlertState.OPEN:
                continue
            for key, judged in cells.items():
                for suspect in judged.suspects:
                    later = suspect.recovered
                    if later is None or not candidate_of(key, judged, suspect).meets(alert.told.candidates[0]):
                        continue
                    if alert.told.undone is None or alert.told.undone.at < later.at:
                        yield alert, judged, replace(suspect, begins=later)

    def _conclude_undone(self, alert: Alert) -> None:
        """Say whether it is undone, where that was tried and is over."""
        undone = alert.told.undone
        assert undone is not None
        assert undone.trying is not None
        found = outcome_of(self._context, undone.trying, alert.told.candidates[0].place)
        if found is None:
            return
        since = f"looks as before since {told(undone.at)}"
        is_over = found.answer == "no_such_loss"
        text = f"closed: {since}: {found.text}" if is_over else f"{since}, but is not told to be: {found.text}"
        over = replace(undone, text=text, is_over=True)
        to = AlertState.CLOSED if is_over else AlertState.OPEN
        self._move(alert, to, replace(alert.told, undone=over))


def _is_known(candidate: Candidate, alert: Alert) -> bool:
    """Whether an alert speaks of it. One that was refuted, or cannot be tried, speaks of what was tried alone."""
    of_all = alert.state not in (AlertState.REFUTED, AlertState.UNCONFIRMED)
    return any(candidate.meets(one) for one in alert.told.candidates[: None if of_all else 1])
