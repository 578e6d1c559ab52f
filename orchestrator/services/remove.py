"""Remove an experiment, with all that hangs on it."""

from orchestrator.services import query
from orchestrator.services.context import Context


def remove_experiment(context: Context, experiment_id: str, owner: str) -> None:
    """Remove it. What the nodes' agents still keep of its attempts they delete by themselves.

    Raises:
        NotFound: there is none, or it is another owner's.
        Conflict: one of its runs is being carried out.
    """
    query.check_owner(context, experiment_id, owner)
    context.store.remove_experiment(experiment_id)
    context.wake()
