"""Extend an experiment by a spec that has everything the old one has and more: only what is missing runs."""

from dataclasses import replace
from typing import Any

from orchestrator.domain.around.access import Actor
from orchestrator.domain.around.alerts import GATE
from orchestrator.domain.asked.facts import Facts, facts_of
from orchestrator.domain.asked.spec import ExperimentSpec, parse_spec
from orchestrator.domain.expansion import extension
from orchestrator.domain.expansion.sweep import check, expand
from orchestrator.domain.runs.run import Experiment, ExperimentState
from orchestrator.domain.words.errors import Conflict, InvalidRequest
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.experiment.submit import deadline_of, new_runs
from orchestrator.services.tokens import deed_of


def extend_experiment(context: Context, experiment_id: str, body: Any, by: Actor) -> Experiment:
    """Give it the spec that ``body`` describes and queue what is missing; it as it is then. Safe to repeat. One that is
    over goes on; of one that was cancelled, what had not begun is queued anew. A paused one stays paused.

    Raises:
        NotFound: there is none.
        NotAllowed: it is somebody else's.
        InvalidRequest: the spec is wrong, or takes something away; it names the fields.
        Conflict: it is being cancelled, or a confirmation, or somebody changed it at the same time.
    """
    query.check_may_change(context, experiment_id, by)
    old = query.experiment(context, experiment_id)
    if old.cancel_requested and old.state is ExperimentState.ACTIVE:
        raise Conflict(f"{experiment_id} is being cancelled: it can be extended when that is done")
    if GATE in old.facts:
        raise Conflict(f"{experiment_id} is a confirmation of the regression gate: what it runs is the gate's")
    spec = parse_spec(body)
    facts = _facts(context, old, spec)
    check(spec, facts)
    runs = context.store.verdicts_of(experiment_id)
    if old.state is ExperimentState.CANCELLED:
        runs = [run for run in runs if not extension.never_begun(run)]
    now = context.clock.now()
    new = replace(old, spec=spec, facts=facts.to_json(), deadline_at=deadline_of(context, spec, now))
    queued = new_runs(new, expand(spec, facts, runs), now)
    context.store.extend_experiment(old, new, queued, now, deed_of(by, now, "extend", experiment_id))
    context.wake()
    return context.store.experiment(experiment_id)


def _facts(context: Context, old: Experiment, spec: ExperimentSpec) -> Facts:
    if problems := extension.taken_away(old.spec, spec):
        raise InvalidRequest(problems)
    facts = Facts.from_json(context.catalog, old.facts)
    now = facts_of(context.catalog, context.cluster.nodes(), facts.device)
    found = extension.grown(facts, now, old.spec, spec)
    if found is None:
        raise InvalidRequest(extension.lost_cells(old.spec, spec))
    return found
