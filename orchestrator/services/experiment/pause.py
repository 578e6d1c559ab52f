"""Pause an experiment, or let it go on. What of it is being carried out comes to its end."""

from orchestrator.domain.around.access import Actor
from orchestrator.domain.runs.run import Experiment
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.tokens import deed_of


def pause_experiment(context: Context, experiment_id: str, by: Actor) -> Experiment:
    """Record that none of its queued runs is to begin; it as it is then. Idempotent, also after its end.

    Raises:
        NotFound: there is none.
        NotAllowed: it is somebody else's.
    """
    return _set(context, experiment_id, by, True)


def resume_experiment(context: Context, experiment_id: str, by: Actor) -> Experiment:
    """Record that its queued runs may begin; as ``pause_experiment``."""
    return _set(context, experiment_id, by, False)


def _set(context: Context, experiment_id: str, by: Actor, paused: bool) -> Experiment:
    query.check_may_change(context, experiment_id, by)
    now = context.clock.now()
    deed = deed_of(by, now, "pause" if paused else "resume", experiment_id)
    context.store.pause_experiment(experiment_id, paused, now, deed)
    context.wake()
    return context.store.experiment(experiment_id)
