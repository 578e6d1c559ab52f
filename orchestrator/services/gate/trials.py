"""Confirmations as experiments: how one is made, and what it has told once it is over."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestrator.analysis.gate.confirmation import ASKED_SHARE, CONFIDENCE, LEAST_ASKED, LEAST_BLOCKS, Design, design
from orchestrator.analysis.gate.operators import LEAST_PROFILED, operators_of
from orchestrator.analysis.gate.suspects import KEPT
from orchestrator.domain.around.alerts import GATE, Confirmation, Operators
from orchestrator.domain.around.schedule import Schedule
from orchestrator.domain.asked.facts import facts_of
from orchestrator.domain.asked.fields import AXES
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import LEAST_PRIORITY
from orchestrator.domain.expansion.refusals import why_unprofiled
from orchestrator.domain.expansion.sweep import spec_of
from orchestrator.domain.expansion.switches import why_unswitched
from orchestrator.domain.runs.filters import ExperimentFilter
from orchestrator.domain.runs.run import Experiment, ExperimentState, Run
from orchestrator.domain.value.failure import MAX_KILLED_ATTEMPTS
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.errors import DamagedRow, NotFound
from orchestrator.services.clock import new_id
from orchestrator.services.context import Context
from orchestrator.services.experiment.submit import new_runs
from orchestrator.services.reconcile import confirming
from orchestrator.services.reconcile.confirming import KERNELS
from orchestrator.services.schedule.board import Column, Judged, alerts_of

log = logging.getLogger(__name__)

# Judgements.
PATIENCE_S = 86400.0  # a confirmation whose devices do not come back within a day is given up
EQUAL = "equal-arms"  # label of the experiments in which the gate tries a cell beside itself
PRIORITY = LEAST_PRIORITY  # people come first
USUAL_DEVIATION = 0.02  # of the logarithm of a run, where the nights have a run each and nobody knows


@dataclass(frozen=True)
class Outcome:
    """What a confirmation has told. ``effect`` and ``operators``: where it told that the new side is slower."""

    answer: Literal["slower", "no_such_loss", "untold"]
    text: str
    effect: Measurement | None = None
    operators: Operators | None = None


def experiment_of(
    context: Context,
    schedule: Schedule,
    alert_id: str,
    sides: tuple[Plan, Plan],
    planned: Design,
    at: float,
    profiled: bool = True,
) -> tuple[Experiment, Sequence[Run]]:
    """The experiment that tries the two sides for an alert of ``schedule``, with its first runs."""
    asked = {"labels": {"origin": GATE, "alert": alert_id, "schedule": schedule.name}, "priority": PRIORITY}
    name = f"gate-{schedule.name}"
    return alternating(context, schedule.owner, name, sides, planned, at, asked, alert_id, profiled)


def alternating(
    context: Context,
    owner: str,
    name: str,
    sides: tuple[Plan, Plan],
    planned: Design,
    at: float,
    asked: Mapping[str, Any],
    alert_id: str = "",
    profiled: bool = True,
) -> tuple[Experiment, Sequence[Run]]:
    """An experiment in which the two sides alternate, with its first runs. ``asked``: fields of its spec. ``profiled``:
    where the new side is told to be slower its operators are asked, too."""
    old, new = (side.to_json() for side in sides)
    n_profiled = LEAST_PROFILED if profiled and _is_profilable(context, sides[1]) else 0
    wanted = Confirmation(alert_id, planned.size, planned.most_blocks, old, new, n_profiled, planned.level)
    spec = spec_of(sides[1], name[:100])
    facts = facts_of(context.catalog, context.cluster.nodes(), sides[1].device).to_json()
    made = Experiment(
        id=new_id("exp"),
        owner=owner,
        spec=spec.model_copy(update={**asked, "placement": "any"}),
        facts=facts | {GATE: wanted.to_json()},
        state=ExperimentState.ACTIVE,
        created_at=at,
    )
    return made, new_runs(made, confirming.missing(wanted, []), at)


def _is_profilable(context: Context, plan: Plan) -> bool:
    """Whether its kernels can be profiled."""
    facts = facts_of(context.catalog, context.cluster.nodes(), plan.device)
    cell = {**{name: plan.told(name) for name in AXES}, "topology": plan.topology, "options": dict(plan.options)}
    return not (why_unprofiled(cell, facts, KERNELS) or why_unswitched(cell, facts, KERNELS))


def operators_in(context: Context, runs: Sequence[Run]) -> Operators | None:
    """Which operators take longer, by those of ``runs`` that were profiled; None where they do not tell."""
    before, after = (
        [context.store.profiles(one).kernels for one in confirming.profiled(runs, side)]
        for side in (confirming.OLD, confirming.NEW)
    )
    return operators_of([one for one in before if one], [one for one in after if one])


def equal_arms(context: Context, schedule: Schedule) -> list[Experiment]:
    """The experiments in which cells of ``schedule`` were tried beside themselves, the newest first."""
    found: list[Experiment] = []
    cursor: str | None = None
    while True:
        page = context.store.experiments(ExperimentFilter(label=(EQUAL, schedule.id)), limit=200, cursor=cursor)
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


def outcome_of(context: Context, experiment_id: str, place: str) -> Outcome | None:
    """What it has told; None while it goes on. One that has waited too long is ended."""
    store, now = context.store, context.clock.now()
    try:
        experiment = store.experiment(experiment_id)
        runs = store.verdicts_of(experiment_id)
        wanted = confirming.wanted_of(experiment)
    except (NotFound, DamagedRow) as error:
        return Outcome("untold", f"its confirmation cannot be read (any more): {error}")
    if experiment.state is ExperimentState.ACTIVE:
        if now - experiment.created_at > PATIENCE_S and not experiment.cancel_requested:
            store.cancel_experiment(experiment.id, now)
            context.wake()
        return None
    blocks = confirming.blocks_of(runs)
    found = confirming.decision(wanted, blocks)
    where = f"in {experiment.id}, old and new alternating on {place}"
    if found.answer == "no_such_loss":
        return Outcome("no_such_loss", f"tried {where}: {found.text}")
    if found.answer == "cannot_tell":
        return Outcome("untold", f"tried {where}: {found.text}")
    if found.answer == "go_on":
        given_up = blocks.n_lost >= confirming.MOST_LOST
        why = f"{blocks.n_lost} blocks gave no number ({blocks.why})" if given_up else "it was cancelled"
        return Outcome("untold", f"tried {where}: {why}; {found.text}")
    effect = Measurement(
        "difference_ratio",
        found.effect,
        "1",
        "median unbiased, group-sequential (analysis.gate.confirmation)",
        ci_low=found.low,
        ci_high=found.high,
        confidence=CONFIDENCE,
        n=float(found.blocks),
        scope=f"{found.blocks} blocks of an old and a new run on {place}",
    )
    return Outcome("slower", f"{where}: {found.text}", effect, operators_in(context, runs))


@dataclass(frozen=True)
class Budget:
    """Device time of confirmations of a schedule: at most ``ratio`` of that of its last ``KEPT`` nights.

    Attributes:
        held: schedule -> why something of it waits, as the log has it.
    """

    context: Context
    ratio: float
    held: dict[str, str] = field(default_factory=dict)

    def planned(
        self,
        schedule: Schedule,
        columns: Sequence[Column],
        judged: Judged,
        difference: float,
        what: str | None,
    ) -> Design | None:
        """How many blocks there may be to ask for most of ``difference`` (a ratio, below 0); None where it does not
        reach for the fewest. ``what`` waits then, in words; None: nothing that anybody waits for, which gets half of
        what is left."""
        budget_s = self._left_s(schedule, columns) * (1.0 if what else 0.5)
        run_s = judged.run_s * judged.plan.world_size
        blocks = _blocks_in(budget_s, run_s)
        if blocks < LEAST_BLOCKS:
            why = (
                f"{what}, and is not tried: {LEAST_BLOCKS} blocks take {2 * LEAST_BLOCKS * run_s:.0f} s of device "
                f"time, and {budget_s:.0f} s are left of {self.ratio:g} of the last {KEPT} nights "
                "(TBD_GATE_BUDGET_RATIO)"
            )
            if what is None:
                return None
            if self.held.get(schedule.id) != why:
                log.warning("schedule %s (%s): %s", schedule.name, schedule.id, why)
            self.held[schedule.id] = why
            return None
        self.held.pop(schedule.id, None)
        deviation = (judged.deviation or USUAL_DEVIATION) * math.sqrt(2.0)
        return design(max(ASKED_SHARE * -difference, LEAST_ASKED), deviation, blocks)

    def blocks(self, schedule: Schedule, columns: Sequence[Column], run_s: float) -> int:
        """Blocks of runs of ``run_s`` device-seconds that what is left reaches for."""
        return _blocks_in(self._left_s(schedule, columns), run_s)

    def _left_s(self, schedule: Schedule, columns: Sequence[Column]) -> float:
        """Seconds of device time that are left for confirmations."""
        nights = [one for one in columns if one.experiment_id is not None][-KEPT:]
        begun = min((one.at for one in nights), default=math.inf)
        spent = [of for one in alerts_of(self.context, schedule) for of, at in one.trials if at >= begun]
        spent += [one.id for one in equal_arms(self.context, schedule) if one.created_at >= begun]
        of_nights = sum(self._device_s(one.experiment_id) for one in nights if one.experiment_id)
        return self.ratio * of_nights - sum(map(self._device_s, spent))

    def _device_s(self, experiment_id: str) -> float:
        try:
            runs = self.context.store.verdicts_of(experiment_id)
        except NotFound:
            return 0.0
        return sum(map(occupied_s, runs))


def _blocks_in(budget_s: float, run_s: float) -> int:
    return int(min(budget_s / (2.0 * run_s), 1e6)) if run_s > 0.0 else 0


def occupied_s(run: Run) -> float:
    """Device-seconds that ``run`` took: no more than its attempts may take, whatever a clock that jumped says."""
    if run.started_at is None or run.ended_at is None:
        return 0.0
    elapsed_s = min(max(run.ended_at - run.started_at, 0.0), MAX_KILLED_ATTEMPTS * run.plan.timeout_s)
    return elapsed_s * run.plan.world_size
