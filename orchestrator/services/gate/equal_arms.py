"""The gate measures itself: of each night one cell, drawn by the date, is tried side by side with itself. Whatever such
a confirmation calls slower is a false alarm. They take half of what is left of the budget at most: a night whose pair
does not fit has none."""

import hashlib
import logging
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from scipy import special

from orchestrator.analysis.gate.confirmation import ASKED_SHARE, CONFIDENCE
from orchestrator.domain.around.alerts import GATE
from orchestrator.domain.around.schedule import Schedule
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.runs.run import ExperimentState
from orchestrator.domain.words.errors import DamagedRow, NotFound
from orchestrator.services.context import Context
from orchestrator.services.gate.again import pinned, why_not_again
from orchestrator.services.gate.trials import EQUAL, PRIORITY, Budget, alternating, equal_arms
from orchestrator.services.history.observed import Place
from orchestrator.services.once import idempotency
from orchestrator.services.reconcile import confirming
from orchestrator.services.schedule.board import Column, Judged, judged_cells

log = logging.getLogger(__name__)
ASKED = 0.02  # the loss that equal arms are asked for: a judgement


@dataclass(frozen=True)
class FalseAlarms:
    """What pairs of equal arms told.

    Attributes:
        told: pairs that were tried to an end, also where that was "cannot tell"; ``untold`` were not.
        slower: of ``told`` those that called one arm slower, which none is.
        low, high: of ``slower`` / ``told``, at ``CONFIDENCE``; None where none has told.
    """

    told: int
    slower: int
    untold: int
    low: float | None
    high: float | None


def begin(context: Context, budget: Budget, schedule: Schedule, columns: Sequence[Column]) -> bool:
    """Have the pair of the newest night tried, where it was not; whether that was begun now."""
    night = columns[-1]
    key = idempotency(schedule.owner, f"{EQUAL} {schedule.id} {night.at:.0f}", EQUAL)
    ours = equal_arms(context, schedule)
    if context.store.key_used(key) or any(one.state is ExperimentState.ACTIVE for one in ours):
        return False
    for judged in _drawn(night, judged_cells(context, schedule, columns)):
        sides = _sides(context, judged)
        if sides is None:
            continue
        planned = budget.planned(schedule, columns, judged, -ASKED / ASKED_SHARE, None)
        if planned is None:
            return False
        asked = {"labels": {"origin": GATE, EQUAL: schedule.id, "schedule": schedule.name}, "priority": PRIORITY}
        now, name = context.clock.now(), f"{EQUAL}-{schedule.name}"
        made, runs = alternating(context, schedule.owner, name, sides, planned, now, asked, profiled=False)
        stored, created = context.store.add_experiment(made, runs, key)
        if created:
            log.info("%s: equal arms are tried in %s", schedule.name, stored.id)
            context.wake()
        return created
    return False


def false_alarms(context: Context, schedules: Sequence[Schedule]) -> FalseAlarms:
    """What the equal arms of these schedules have told."""
    answers = [answer for one in schedules for answer in _answers(context, one)]
    told, slower = sum(answer != "untold" for answer in answers), answers.count("slower")
    low, high = _interval(slower, told) if told else (None, None)
    return FalseAlarms(told, slower, len(answers) - told, low, high)


def _interval(of: int, n: int) -> tuple[float, float]:
    """The exact interval of a share ``of`` / ``n`` (Clopper & Pearson 1934, Biometrika 26:404), by the beta
    distribution."""
    side = (1.0 - CONFIDENCE) / 2
    low = float(special.betaincinv(of, n - of + 1, side)) if of else 0.0
    return low, float(special.betaincinv(of + 1, n - of, 1.0 - side)) if of < n else 1.0


def _answers(context: Context, schedule: Schedule) -> list[str]:
    over = [one for one in equal_arms(context, schedule) if one.state is not ExperimentState.ACTIVE]
    ids = tuple(one.id for one in over)
    return context.kept.of((EQUAL, schedule.id), ids, lambda: [_answer(context, one) for one in ids])


def _answer(context: Context, experiment_id: str) -> str:
    try:
        wanted = confirming.wanted_of(context.store.experiment(experiment_id))
        blocks = confirming.blocks_of(context.store.verdicts_of(experiment_id))
    except (NotFound, DamagedRow):
        return "untold"
    found = confirming.decision(wanted, blocks).answer
    return found if found != "go_on" else "untold"


def _drawn(night: Column, cells: Mapping[Hashable, Judged]) -> Iterator[Judged]:
    """The cells in an order that follows from the night: the same in every server, another one each night."""

    def lot(key: Hashable) -> str:
        return hashlib.sha256(f"{night.at:.0f} {key!r}".encode()).hexdigest()

    yield from (cells[key] for key in sorted(cells, key=lot))


def _sides(context: Context, judged: Judged) -> tuple[Plan, Plan] | None:
    """Both arms, as the newest night had the cell; None where that cannot be made again."""
    if not judged.cells:
        return None
    runs = context.store.runs_of_cell(*judged.cells[max(judged.cells)])
    known = next((run for run in reversed(runs) if confirming.rate_of(run) and run.fingerprint), None)
    subject = (known.fingerprint or {}).get("subject") if known else None
    if known is None or not subject or why_not_again([subject]):
        return None
    return pinned(known.plan, Place.of(known.fingerprint or {}), (subject, subject))
