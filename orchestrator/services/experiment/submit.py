"""Submit an experiment: check it, expand it, store it with its first runs in one transaction."""

from typing import Any

from orchestrator.domain.around.access import Actor
from orchestrator.domain.asked.facts import Facts, facts_of
from orchestrator.domain.asked.plan import Plan
from orchestrator.domain.asked.spec import ExperimentSpec, parse_spec
from orchestrator.domain.expansion.sweep import check, expand
from orchestrator.domain.runs.run import Experiment, ExperimentState, Run, RunState
from orchestrator.services.clock import new_id
from orchestrator.services.context import Context
from orchestrator.services.experiment.replay import check_replays
from orchestrator.services.once import idempotency
from orchestrator.services.tokens import deed_of

NEVER_S = 1e9  # a deadline that is longer than 30 years is none, and may be no date


def submit(
    context: Context, body: Any, *, by: Actor, idempotency_key: str | None = None, action: str = "submit"
) -> tuple[Experiment, bool]:
    """Store the experiment that ``body`` (a parsed spec) describes; (it, whether it is new). ``action`` is what the
    audit trail calls it.

    Raises:
        InvalidRequest: the spec is wrong, or asks for what no framework can do. Nothing was stored.
        IdempotencyMismatch: the key was used before with another body.
        StoreUnavailable: nothing was acknowledged.
    """
    experiment, runs = new_experiment(context, body, by.owner)
    key = None if idempotency_key is None else idempotency(by.owner, idempotency_key, "submit", body)
    deed = deed_of(by, experiment.created_at, action, experiment.id)
    stored, created = context.store.add_experiment(experiment, runs, key, deed)
    if created:
        context.wake()
    return stored, created


def new_experiment(context: Context, body: Any, owner: str) -> tuple[Experiment, list[Run]]:
    """The experiment of ``owner`` that ``body`` describes, with its first runs; not stored.

    Raises:
        InvalidRequest: as ``submit``.
    """
    spec, facts, plans = plan(context, body)
    now = context.clock.now()
    experiment = Experiment(
        id=new_id("exp"),
        owner=owner,
        spec=spec,
        facts=facts.to_json(),
        state=ExperimentState.ACTIVE,
        created_at=now,
        deadline_at=deadline_of(context, spec, now),
    )
    return experiment, new_runs(experiment, plans, now)


def deadline_of(context: Context, spec: ExperimentSpec, now: float) -> float | None:
    """When everything has to be over of what is submitted, or extended, ``now``; None: there is no deadline."""
    deadline_s = context.deadline_s if spec.deadline_s is None else spec.deadline_s
    return None if deadline_s is None or deadline_s > NEVER_S else now + deadline_s


def plan(context: Context, body: Any) -> tuple[ExperimentSpec, Facts, list[Plan]]:
    """What ``submit`` would run, without storing anything.

    Raises:
        InvalidRequest: as ``submit``.
    """
    spec = parse_spec(body)
    facts = facts_of(context.catalog, context.cluster.nodes())
    check(spec, facts)
    plans = expand(spec, facts, [])
    check_replays(context, plans)
    return spec, facts, plans


def new_runs(experiment: Experiment, plans: list[Plan], now: float) -> list[Run]:
    """Queued runs of ``experiment`` for ``plans``, in their order."""
    return [
        Run(
            id=new_id("run"),
            experiment_id=experiment.id,
            plan=one,
            state=RunState.QUEUED,
            created_at=now + index * 1e-6,  # keeps the order of the sweep among runs that are stored together
            priority=experiment.spec.priority,
            owner=experiment.owner,
        )
        for index, one in enumerate(plans)
    ]
