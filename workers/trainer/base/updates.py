"""What a step of a model updates: all weights by one loss, or some of them by one loss and others by another.

A model says it by ``updates``, alike in all frameworks: a tuple of ``Update``. A step carries them out in their order,
and each takes the next batch of its rank: so ``batches(rank)`` yields batches in the order in which a step uses them.
The work of a step is that of all its batches. The loss that is reported is that of the first update, when it was
carried out for the last time.

Several losses that are minimised together are one update: their sum, which the model makes.
"""

import collections
from typing import Any, Dict, Iterable, List, Tuple

from workers.trainer.base import optimizer
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Rule

WHOLE = "all"


class Update(collections.namedtuple("Update", "name loss parameters optimizer times")):
    """The gradients of ``loss`` by ``parameters`` alone, and the optimiser's update of these: ``times`` times in a row.

    No other parameter changes, and no gradient of another one is sent to other ranks.

    Args:
        name: that of its table ``[optimizer.<name>]`` in the facts, where a model has several.
        loss: a function of a batch that returns a scalar, the mean over the samples of a rank; in CNTK the node with
            the loss of each sample.
        parameters: the framework's own, in a fixed order.
        optimizer: facts for ``workers.trainer.base.optimizer.complete``.
    """

    __slots__ = ()

    def __new__(cls, name, loss, parameters, optimizer, times=1):
        return super(Update, cls).__new__(cls, name, loss, list(parameters), optimizer, times)


def whole(loss: Any, parameters: Iterable[Any], optimizer: Rule) -> Tuple[Update, ...]:
    """Return the ``updates`` of a model that minimises one loss by all its parameters."""
    return (Update(WHOLE, loss, parameters, optimizer),)


def names(job: Job) -> List[str]:
    """Return the names of the tables ``[optimizer.<name>]`` of the job's model; none where it has one optimiser."""
    return sorted(name for name, facts in (job.model.optimizer or {}).items() if isinstance(facts, dict))


def rules(job: Job) -> Dict[str, Any]:
    """Return the rule of the job's model (``optimizer.of_job``); of several updates {name: the rule of each}.

    Raises:
        TrainerError: ``setup_failed``, the facts name what is not known here.
    """
    several = names(job)
    return {name: optimizer.of_job(job, name) for name in several} if several else optimizer.of_job(job)


def of_model(model: Any, job: Job) -> Tuple[Update, ...]:
    """Return the updates of ``model``.

    Raises:
        TrainerError: ``setup_failed``, they are not those that the facts name, or the only one comes several times.
    """
    found = tuple(model.updates)
    told = sorted(update.name for update in found)
    if (len(found) > 1 or names(job)) and told != names(job):
        message = "the model updates %s, and its facts have an optimiser for %s"
        raise TrainerError("setup_failed", message % (", ".join(told), ", ".join(names(job)) or "all together"))
    if len(found) == 1 and found[0].times != 1:
        raise TrainerError("setup_failed", "an update that is alone is carried out once in a step: %r" % found[0].name)
    return found


def refuse_several(job: Job, why: str) -> None:
    """Refuse a model with several updates, before anything is made.

    Raises:
        TrainerError: ``unsupported``; ``why`` says what cannot be done with them.
    """
    if len(names(job)) > 1:
        raise TrainerError("unsupported", "a step of this model has the updates %s: %s" % (", ".join(names(job)), why))
