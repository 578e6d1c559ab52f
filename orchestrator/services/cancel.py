"""Ask for a run or an experiment to be cancelled. The reconciler notices and carries it out."""

from orchestrator.domain.run import Experiment, Run
from orchestrator.services import query
from orchestrator.services.context import Context


def cancel_experiment(context: Context, experiment_id: str, owner: str) -> Experiment:
    """Record that the experiment and all its runs are to end; it as it is then. Idempotent, also after its end.

    Raises:
        NotFound: there is none, or it is another owner's.
    """
    query.check_owner(context, experiment_id, owner)
    context.store.cancel_experiment(experiment_id, context.clock.now())
    context.wake()
    return context.store.experiment(experiment_id)


def cancel_run(context: Context, run_id: str, owner: str) -> Run:
    """Record that the run is to end; it as it is then. Idempotent, also after its end.

    Raises:
        NotFound: there is none, or it is another owner's.
    """
    query.run(context, run_id, owner)
    context.store.cancel_run(run_id, context.clock.now())
    context.wake()
    return context.store.run(run_id)
