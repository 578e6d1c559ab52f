"""The regression gate at work: takes note of candidates, has them tried side by side, and says what that told.

One pass looks at every schedule whose newest night is over, and at every confirmation that goes on. What it decides is
stored at once: an alert and the experiment that tries it are one transaction, under an id that follows from what the
alert is of. So a server that dies at any moment, and two at once, try nothing twice.
"""

import hashlib
import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from orchestrator.analysis.gate import candidates as judged_candidates
from orchestrator.analysis.gate.confirmation import ASKED_SHARE, CONFIDENCE, LEAST_ASKED, LEAST_BLOCKS, Design, design
from orchestrator.analysis.gate.suspects import KEPT, Suspect
from orchestrator.domain.around.access import is_shut_out
from orchestrator.domain.around.alerts import (
    ALERT_PREFIX,
    GATE,
    Alert,
    AlertFilter,
    AlertState,
    Candidate,
    Changed,
    Confirmation,
    Told,
)
from orchestrator.domain.around.schedule import Schedule
from orchestrator.domain.asked.facts import facts_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.expansion.sweep import spec_of
from orchestrator.domain.runs.run import Experiment, ExperimentState, Run
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.errors import DamagedRow, NotFound
from orchestrator.services.clock import new_id
from orchestrator.services.context import Context
from orchestrator.services.experiment.submit import new_runs
from orchestrator.services.gate import outbox
from orchestrator.services.gate.again import sides_of
from orchestrator.services.lookout import POLL_S, Lookout
from orchestrator.services.reconcile import confirming
from orchestrator.services.reconcile.reconciler import Bell
from orchestrator.services.schedule.board import Column, Judged, alerts_of, candidate_of, judged_cells, nights_of

log = logging.getLogger(__name__)

# Judgements.
PATIENCE_S = 86400.0  # a confirmation whose devices do not come back within a day is given up
PRIORITY = -1000  # the lowest that there is: people come first
USUAL_DEVIATION = 0.02  # of the logarithm of a run, where the nights have a run each and nobody knows


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
        self._budget_ratio = budget_ratio
        self._poll_s = poll_s
        self._held: dict[str, str] = {}  # schedule -> why its candidates wait, as the log has it

    def look(self) -> float:
        """One pass; the seconds until the next one.

        Raises:
            StoreUnavailable: the database is away.
            ClusterUnavailable: the cluster is.
        """
        for alert in self._tried():
            self._conclude(alert)
        noted = {one.id for one in self._schedules() if self._take_note(one)} if self._budget_ratio > 0.0 else set()
        outbox.tell(self._context, noted | {alert.schedule_id for alert in self._tried()})
        return self._poll_s

    def _tried(self) -> Sequence[Alert]:
        return self._context.store.alerts(AlertFilter(state=AlertState.TRYING.value), limit=200).items

    def _schedules(self) -> Iterator[Schedule]:
        cursor: str | None = None
        while True:
            page = self._context.store.schedules(limit=200, cursor=cursor)
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return

    # candidates

    def _take_note(self, schedule: Schedule) -> bool:
        """Whether there is something of it that nobody knew, so that there may be more."""
        if schedule.paused or is_shut_out(schedule.owner, self._context.store.all_tokens().items):
            return False
        columns = nights_of(self._context, schedule)
        if not columns or any(one.experiment_state == ExperimentState.ACTIVE.value for one in columns):
            return False
        known = alerts_of(self._context, schedule)
        if any(one.state is AlertState.TRYING for one in known):
            return False  # one at a time: the next one is judged by what this one leaves of the budget
        found = list(self._found(schedule, columns, known))
        if not found:
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
        changes = tuple(Changed(one.part, one.field, one.before, one.after) for one in found.suspect.changes)
        now = self._context.clock.now()
        made = f"{schedule.id} {found.candidate.cell} {found.candidate.place} {found.candidate.at:.0f}"
        alert = Alert(
            id=f"{ALERT_PREFIX}_{hashlib.sha256(made.encode()).hexdigest()[:20]}",
            schedule_id=schedule.id,
            state=AlertState.UNCONFIRMED,
            created_at=now,
            updated_at=now,
            experiment_id=None,
            told=Told((found.candidate, *others), changes, ""),
        )
        if isinstance(found.sides, str):
            tried = f"unconfirmed: nothing can be tried side by side: {found.sides}"
            if self._context.store.add_alert(replace(alert, told=replace(alert.told, tried=tried))):
                log.info("%s: %s on %s: %s", alert.id, found.candidate.label, found.candidate.place, tried)
            return True
        planned = self._planned(schedule, columns, found)
        if planned is not None:
            self._try(schedule, alert, found.sides, planned)
        return planned is not None

    def _planned(self, schedule: Schedule, columns: Sequence[Column], found: "_Found") -> Design | None:
        """How many blocks there may be; None where the budget does not reach for the fewest."""
        budget_s = self._left_s(schedule, columns)
        run_s = found.judged.run_s * found.judged.plan.world_size
        blocks = int(min(budget_s / (2.0 * run_s), 1e6)) if run_s > 0.0 else 0
        if blocks < LEAST_BLOCKS:
            self._hold(
                schedule,
                f"{found.candidate.label} on {found.candidate.place} looks slower, and is not tried: {LEAST_BLOCKS} "
                f"blocks take {2 * LEAST_BLOCKS * run_s:.0f} s of device time, and {budget_s:.0f} s are left of "
                f"{self._budget_ratio:g} of the last {KEPT} nights (TBD_GATE_BUDGET_RATIO)",
            )
            return None
        self._held.pop(schedule.id, None)
        asked = max(ASKED_SHARE * -found.candidate.difference, LEAST_ASKED)
        deviation = (found.judged.deviation or USUAL_DEVIATION) * math.sqrt(2.0)
        return design(asked, deviation, blocks)

    def _left_s(self, schedule: Schedule, columns: Sequence[Column]) -> float:
        """Seconds of device time that are left for confirmations, of the last ``KEPT`` nights."""
        nights = [one for one in columns if one.experiment_id is not None][-KEPT:]
        begun = min((one.at for one in nights), default=math.inf)
        spent = [one.experiment_id for one in alerts_of(self._context, schedule) if one.created_at >= begun]
        of_nights = sum(self._device_s(one.experiment_id) for one in nights if one.experiment_id)
        return self._budget_ratio * of_nights - sum(self._device_s(one) for one in spent if one is not None)

    def _device_s(self, experiment_id: str) -> float:
        try:
            runs = self._context.store.verdicts_of(experiment_id)
        except NotFound:
            return 0.0
        return sum(
            (run.ended_at - run.started_at) * run.plan.world_size
            for run in runs
            if run.started_at is not None and run.ended_at is not None
        )

    def _hold(self, schedule: Schedule, why: str) -> None:
        if self._held.get(schedule.id) != why:
            log.warning("schedule %s (%s): %s", schedule.name, schedule.id, why)
        self._held[schedule.id] = why

    # confirmations

    def _try(self, schedule: Schedule, alert: Alert, sides: tuple[Plan, Plan], planned: Design) -> None:
        old, new = (side.to_json() for side in sides)
        wanted = Confirmation(alert.id, planned.size, planned.most_blocks, old, new)
        name = f"gate-{schedule.name}"[:100]
        labels = {"origin": GATE, "alert": alert.id, "schedule": schedule.name}
        spec = spec_of(sides[1], name).model_copy(update={"priority": PRIORITY, "labels": labels, "placement": "any"})
        facts = facts_of(self._context.catalog, self._context.cluster.nodes(), sides[1].device).to_json()
        experiment = Experiment(
            id=new_id("exp"),
            owner=schedule.owner,
            spec=spec,
            facts=facts | {GATE: wanted.to_json()},
            state=ExperimentState.ACTIVE,
            created_at=alert.created_at,
        )
        runs = new_runs(experiment, confirming.missing(wanted, []), alert.created_at)
        tried = f"being tried side by side in {experiment.id}, by {planned.most_blocks} blocks at most"
        trying = replace(
            alert,
            state=AlertState.TRYING,
            experiment_id=experiment.id,
            told=replace(alert.told, tried=tried),
        )
        if self._context.store.add_alert(trying, experiment, runs):
            first = alert.told.candidates[0]
            log.info("%s: %s on %s looks slower: %s", alert.id, first.label, first.place, tried)
            self._context.wake()

    def _conclude(self, alert: Alert) -> None:
        """Say what a confirmation has told, where it is over; end one that has waited too long."""
        store, now = self._context.store, self._context.clock.now()
        assert alert.experiment_id is not None
        try:
            experiment = store.experiment(alert.experiment_id)
            runs = store.verdicts_of(alert.experiment_id)
            wanted = Confirmation.from_json(experiment.facts[GATE])
        except (NotFound, DamagedRow, ValueError, KeyError) as error:
            self._move(
                alert, AlertState.UNCONFIRMED, f"unconfirmed: its confirmation cannot be read (any more): {error}"
            )
            return
        if experiment.state is ExperimentState.ACTIVE:
            if now - experiment.created_at > PATIENCE_S and not experiment.cancel_requested:
                store.cancel_experiment(experiment.id, now)
                self._context.wake()
            return
        self._tell(alert, experiment, wanted, runs)

    def _tell(self, alert: Alert, experiment: Experiment, wanted: Confirmation, runs: Sequence[Run]) -> None:
        blocks = confirming.blocks_of(runs)
        found = confirming.decision(wanted, blocks)
        where = f"in {experiment.id}, old and new alternating on {alert.told.candidates[0].place}"
        if found.answer == "slower":
            effect = Measurement(
                "difference_ratio",
                found.effect,
                "1",
                "median unbiased, group-sequential (analysis.gate.confirmation)",
                ci_low=found.low,
                ci_high=found.high,
                confidence=CONFIDENCE,
                n=float(found.blocks),
                scope=f"{found.blocks} blocks of an old and a new run on {alert.told.candidates[0].place}",
            )
            self._move(alert, AlertState.OPEN, f"confirmed {where}: {found.text}", effect)
        elif found.answer == "no_such_loss":
            self._move(alert, AlertState.REFUTED, f"tried {where}: {found.text}")
        elif found.answer == "cannot_tell":
            self._move(alert, AlertState.UNCONFIRMED, f"unconfirmed: tried {where}: {found.text}")
        else:
            given_up = blocks.n_lost >= confirming.MOST_LOST
            why = f"{blocks.n_lost} blocks gave no number ({blocks.why})" if given_up else "it was cancelled"
            self._move(alert, AlertState.UNCONFIRMED, f"unconfirmed: tried {where}: {why}; {found.text}")

    def _move(self, alert: Alert, to: AlertState, tried: str, effect: Measurement | None = None) -> None:
        told = replace(alert.told, tried=tried, effect=effect)
        if self._context.store.move_alert(alert.id, alert.state, to, told, self._context.clock.now()):
            first = alert.told.candidates[0]
            log.warning("%s: %s on %s is %s: %s", alert.id, first.label, first.place, to, tried)


def _is_known(candidate: Candidate, alert: Alert) -> bool:
    """Whether an alert speaks of it. One that was refuted, or cannot be tried, speaks of what was tried alone."""
    of_all = alert.state in (AlertState.TRYING, AlertState.OPEN, AlertState.ACKNOWLEDGED)
    return any(candidate.meets(one) for one in alert.told.candidates[: None if of_all else 1])
