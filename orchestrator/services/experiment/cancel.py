"""Ask for a run or an experiment to be cancelled. The reconciler notices and carries it out."""

from orchestrator.domain.around.access import Actor
from orchestrator.domain.runs.run import Experiment, Run
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.tokens import deed_of


def cancel_experiment(context: Context, experiment_id: str, by: Actor) -> Experiment:
    """Record that the experiment and all its runs are to end; it as it is then. Idempotent, also after its end.

    Raises:
        NotFound: there is none.
        NotAllowed: it is somebody else's.
    """
    query.check_may_change(context, experiment_id, by)
    now = context.clock.now()
    context.store.cancel_experiment(experiment_id, now, deed_of(by, now, "cancel", experiment_id))
    context.wake()
    return context.store.experiment(experiment_id)


def cancel_run(context: Context, run_id: str, by: Actor) -> Run:
    """Record that the run is to end; it as it is then. Idempotent, also after its end.

    Raises:
        NotFound: there is none.
        NotAllowed: it is somebody else's.
    """
    query.check_may_change(context, query.run(context, run_id).experiment_id, by)
    now = context.clock.now()
    context.store.cancel_run(run_id, now, deed_of(by, now, "cancel", run_id))
    context.wake()
    return context.store.run(run_id)
