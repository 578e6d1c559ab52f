"""Two subjects side by side, now: what ``tbd compare A B --interleave`` asks for.

It is a confirmation as the gate's (``analysis.gate.confirmation``), which a person has begun: an experiment of theirs,
in which one run of each alternates on the same devices, as often as it takes within a budget.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev
from typing import Annotated, Any

from pydantic import Field, ValidationError

from orchestrator.analysis.gate.confirmation import LEAST_BLOCKS, LEVEL, Decision, Design, design
from orchestrator.domain.around.access import Actor
from orchestrator.domain.around.alerts import GATE, Confirmation, Operators
from orchestrator.domain.asked.fingerprint import Changed, differences, workload_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import StrictModel, problems_of
from orchestrator.domain.runs.run import Experiment, ExperimentState, Run
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.services.context import Context
from orchestrator.services.gate.again import pinned, why_not
from orchestrator.services.gate.trials import USUAL_DEVIATION, alternating, operators_in
from orchestrator.services.history.observed import Place
from orchestrator.services.once import idempotency
from orchestrator.services.reconcile import confirming
from orchestrator.services.reconcile.confirming import rate_of
from orchestrator.services.tokens import deed_of

ORIGIN = {"labels": {"origin": "compare"}}
Name = Annotated[str, Field(min_length=1, max_length=200)]
_COMMIT = re.compile("[0-9a-f]{40}")
_DEFINITION = re.compile("[0-9a-f]{12}")


class SideBySideRequest(StrictModel):
    """Two subjects of a workload to be tried side by side: experiments or runs; or with ``of`` commits of the model's
    folder under TBD_SUITE_PATH, or definitions of an interpreter, by their hash."""

    baseline: Name = Field(description="what is held to be usual")
    candidate: Name = Field(description="what may be slower")
    of: Name | None = Field(default=None, description="an experiment or a run of the workload that both are made of")
    detect: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.02, description="the loss that is asked for: 0.02 is 2 %"
    )
    budget_s: Annotated[float, Field(gt=0)] = Field(
        default=1200.0, description="seconds of the devices' time, all of them together"
    )
    level: Annotated[float, Field(gt=1e-5, le=0.05)] = Field(
        default=LEVEL, description="in how many cases each answer may be wrong: a bisection needs less than an alert"
    )


@dataclass(frozen=True)
class Told:
    """What is known of a confirmation: what was ``wanted``, and what the blocks so far told."""

    wanted: Confirmation
    found: Decision
    n_lost: int
    why_lost: str | None
    over: bool
    operators: Operators | None


@dataclass(frozen=True)
class _Known:
    """A run of a side, and all runs of its cell that have a rate."""

    run: Run
    cell: Sequence[Run]

    @property
    def subject(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = (self.run.fingerprint or {}).get("subject") or {}
        return found

    @property
    def place(self) -> Place:
        return Place.of(self.run.fingerprint or {})


def begin(context: Context, body: Any, by: Actor, idempotency_key: str | None = None) -> tuple[Experiment, bool]:
    """Store the experiment that tries the two side by side which ``body`` names (a ``SideBySideRequest``, parsed), with
    its first blocks; (it, whether it is new).

    Raises:
        NotFound: there is no such experiment or run.
        InvalidRequest: the two are not one workload, one of them cannot be made again, or the budget is too small.
        IdempotencyMismatch: the key was used before with another body.
    """
    if not isinstance(body, Mapping):
        raise InvalidRequest(
            [Problem("", "two subjects are named by an object of fields: {baseline: …, candidate: …}")]
        )
    try:
        asked = SideBySideRequest.model_validate(dict(body))
    except ValidationError as error:
        raise InvalidRequest(problems_of(SideBySideRequest, body, error)) from None
    key = None if idempotency_key is None else idempotency(by.owner, idempotency_key, "compare", body)
    if key is not None:
        context.store.key_used(key)  # one of another request is refused, whatever this one names
    known, subjects = _subjects(context, asked)
    changes = [Changed("subject", *one) for one in differences(*subjects)]
    if not changes:
        raise _refused("candidate", f"{asked.baseline} and {asked.candidate} differ in nothing that is recorded")
    if why := why_not(changes, subjects):
        raise _refused("candidate", why)
    plan, now = known.run.plan, context.clock.now()
    sides, planned = pinned(plan, known.place, subjects), _planned(asked, known)
    experiment, runs = alternating(context, by.owner, f"side-by-side-{plan.model}", sides, planned, now, ORIGIN)
    deed = deed_of(by, experiment.created_at, "compare", experiment.id)
    stored, created = context.store.add_experiment(experiment, runs, key, deed)
    if created:
        context.wake()
    return stored, created


def told(context: Context, experiment_id: str) -> Told:
    """What an experiment tells in which two subjects alternate.

    Raises:
        NotFound: there is no such experiment.
        DamagedRow: what it was to carry out cannot be read.
        InvalidRequest: it is none of these.
    """
    experiment = context.store.experiment(experiment_id)
    if GATE not in experiment.facts:
        raise _refused("experiment_id", f"in {experiment_id} nothing alternates: it is no confirmation")
    wanted = confirming.wanted_of(experiment)
    runs = context.store.verdicts_of(experiment_id)
    blocks, over = confirming.blocks_of(runs), experiment.state is not ExperimentState.ACTIVE
    found, operators = confirming.decision(wanted, blocks), operators_in(context, runs)
    return Told(wanted, found, blocks.n_lost, blocks.why, over, operators)


def _subjects(context: Context, asked: SideBySideRequest) -> tuple[_Known, tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """What is known of the workload, by the candidate's runs where it has any, and the two subjects."""
    if asked.of is not None:
        known = _known(context, "of", asked.of)
        return known, (_changed(known, "baseline", asked.baseline), _changed(known, "candidate", asked.candidate))
    before, known = _known(context, "baseline", asked.baseline), _known(context, "candidate", asked.candidate)
    one, other = (_workload(side.run.plan) for side in (before, known))
    if one != other:
        fields = ", ".join(name for name, _, _ in differences(one, other))
        raise _refused("candidate", f"the two are not one workload: they differ in {fields}")
    return known, (before.subject, known.subject)


def _workload(plan: Plan) -> dict[str, Any]:
    return workload_of(replace(plan, pins=()))


def _known(context: Context, field: str, name: str) -> _Known:
    store = context.store
    if name.startswith("run_"):
        run = store.run(name)
        runs: Sequence[Run] = [run]
    else:
        runs = [one for one in store.runs_of(name) if rate_of(one)]
        if len({one.plan.cell_key for one in runs}) > 1:
            raise _refused(field, f"{name} has several cells: name a run of the one that is meant (tbd show {name})")
    runs = [one for one in runs if rate_of(one)]
    if not runs:
        raise _refused(field, f"{name} has no run whose rate may be believed: it is not known what to make again")
    cell = [one for one in store.runs_of_cell(runs[-1].experiment_id, runs[-1].plan.cell_key) if rate_of(one)]
    return _Known(store.run(runs[-1].id), cell or runs)


def _changed(known: _Known, field: str, text: str) -> Mapping[str, Any]:
    """The subject that is known, with another commit or another definition of its interpreter."""
    if _COMMIT.fullmatch(text):
        if not known.subject.get("suite"):
            raise _refused(field, f"{text} is a commit, and {known.run.plan.model} is in no folder of TBD_SUITE_PATH")
        return {**known.subject, "suite": {"commit": text, "dirty_sha256": None}}
    if _DEFINITION.fullmatch(text):
        return {**known.subject, "interpreter_definition": text}
    message = (
        f"{text!r} is neither a commit (40 digits) nor the hash of an interpreter's definition (12; tbd frameworks)"
    )
    raise _refused(field, message)


def _planned(asked: SideBySideRequest, known: _Known) -> Design:
    run_s = fmean((one.ended_at or 0.0) - (one.started_at or 0.0) for one in known.cell) * known.run.plan.world_size
    blocks = int(min(asked.budget_s / (2.0 * max(run_s, 1e-3)), 1e6))
    if blocks < LEAST_BLOCKS:
        needed = f"{LEAST_BLOCKS} blocks of two runs take {2 * LEAST_BLOCKS * run_s:.0f} s of the devices' time"
        raise _refused("budget_s", f"{needed}, and {asked.budget_s:g} s are given: fewer tell nothing")
    rates = [math.log(rate) for one in known.cell if (rate := rate_of(one))]
    deviation = stdev(rates) if len(rates) >= LEAST_BLOCKS else USUAL_DEVIATION
    return design(asked.detect, deviation * math.sqrt(2.0), blocks, asked.level)


def _refused(field: str, why: str) -> InvalidRequest:
    return InvalidRequest([Problem(f"/{field}", why)])
