"""After a run has ended: does its experiment need further runs, or is it over?"""

from orchestrator.domain.run import TERMINAL, ExperimentState, experiment_outcome
from orchestrator.domain.sweep import Facts, expand
from orchestrator.services.context import Context
from orchestrator.services.submit import new_runs


def review(context: Context, experiment_id: str) -> bool:
    """Add the runs that are still missing, or end the experiment; whether anything changed."""
    store = context.store
    experiment = store.experiment(experiment_id)
    if experiment.state is not ExperimentState.ACTIVE:
        return False
    runs = store.runs_of(experiment_id)
    now = context.clock.now()
    if not experiment.cancel_requested:
        facts = Facts.from_json(context.catalog, experiment.facts)
        plans = expand(experiment.spec, facts, runs)
        if plans:
            return store.add_runs(new_runs(experiment, plans, now)) > 0
    if all(run.state in TERMINAL for run in runs):
        outcome = experiment_outcome(experiment.cancel_requested, (run.state for run in runs))
        return store.end_experiment(experiment_id, outcome, now)
    return False
