"""Remove an experiment, with all that hangs on it."""

from orchestrator.domain.around.access import Actor
from orchestrator.services.context import Context
from orchestrator.services.experiment import query
from orchestrator.services.tokens import deed_of


def remove_experiment(context: Context, experiment_id: str, by: Actor) -> None:
    """Remove it. What the nodes' agents still keep of its attempts they delete by themselves.

    Raises:
        NotFound: there is none.
        NotAllowed: it is somebody else's.
        Conflict: one of its runs is being carried out.
    """
    query.check_may_change(context, experiment_id, by)
    context.store.remove_experiment(experiment_id, deed_of(by, context.clock.now(), "remove", experiment_id))
    context.kept.clear()  # whose results it may be among, and no change says that they are gone
    context.wake()
