"""The parts of a model that no framework makes: its description, its initial weights, its batches as arrays."""

from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Optional

from suites import modules
from suites.assemble import layers
from suites.inputs import ACTING, Field
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Batch


def layers_of(job: Job) -> List[layers.Layer]:
    """Return the list of the layers of the job's size."""
    return modules.part_of(job, "network").layers(job.model.size)


def weights_of(job: Job) -> Dict[str, Array]:
    """Return {name: float32 array} to begin with: those that the job gives, else the initial ones of its seed."""
    import numpy

    given = job.given
    if given is None:
        return layers.initial_weights(layers_of(job), job.plan.seed)
    with numpy.load(given) as arrays:
        return {one.name: arrays[one.name] for one in layers.parameters(layers_of(job))}


def frozen_of(job: Job) -> FrozenSet[str]:
    """Return the names of the parameters that stay as they are: those beneath the names in the size's ``frozen``."""
    return layers.frozen(layers_of(job), job.model.size.get("frozen", ()))


def fields_of(job: Job) -> List[Field]:
    """Return the ``Field`` of each array in a batch."""
    return modules.input_of(job).fields(job.model.size)


def given_count(job: Job) -> int:
    """Return how many arrays of a batch the network is given: they come first, the others are targets."""
    return sum(not field.target for field in fields_of(job))


def batches(
    job: Job, rank: int, framework: str, to_tensors: Callable[..., Any], outputs: Optional[Callable[..., Any]] = None
) -> Iterator[Batch]:
    """Return the endless iterator of ``(tensors, work)`` for one rank.

    Args:
        to_tensors: turns the arrays of a batch (see ``fields_of``) into the framework's tensors.
        outputs: what the network gives for arrays of its inputs, where a framework has that: see ``suites.inputs``.
    """
    given = job.given
    if given is not None:
        return _repeated(given, job, to_tensors)
    more = (outputs,) if job.model.input in ACTING else ()
    return modules.input_of(job).batches(job, rank, job.model.size, framework, to_tensors, *more)


def _repeated(path, job, to_tensors):
    """Yield the one batch that the job gives, again and again."""
    import numpy

    with numpy.load(path) as arrays:
        found = [arrays["batch." + field.name] for field in fields_of(job)]
    batch = to_tensors(*found), modules.input_of(job).work(*found)
    while True:
        yield batch
