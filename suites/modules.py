"""What a job names, found: the modules of its model, of its input and of its dataset. They are known by name only, for
a model may come from elsewhere (``TBD_SUITE_PATH``)."""

import importlib
from types import ModuleType

from suites.inputs import ACTING
from workers.trainer.base import updates
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job


def part_of(job: Job, name: str) -> ModuleType:
    """Return a module of the job's model: ``network``, what it has for a framework, or for a role of its own."""
    return importlib.import_module("%s.%s" % (job.model.module, name))


def builder_of(job: Job) -> ModuleType:
    """Return the module whose ``build`` makes the job's model.

    It is that of all models of the framework, where the model's facts name its ``input`` and one optimiser; else the
    model's own.
    """
    if job.model.input and not updates.names(job):
        return importlib.import_module("suites.assemble.%s.build" % job.plan.framework)
    return part_of(job, job.plan.framework)


def input_of(job: Job) -> ModuleType:
    """Return the module of ``suites.inputs`` that makes the model's batches."""
    return importlib.import_module("suites.inputs.%s" % job.model.input)


def repeats(job: Job) -> bool:
    """Return whether a resumed training passes over the batches that were there before, to go on with those after them;
    one whose batches the network makes begins anew with them."""
    return job.model.input not in ACTING


def loader_of(job: Job, framework: str) -> ModuleType:
    """Return the module that reads the files of the job's dataset for ``framework``.

    Raises:
        TrainerError: ``setup_failed``, the dataset names none.
    """
    if job.dataset is None or job.dataset.loader is None:
        raise TrainerError("setup_failed", "the job's dataset names no loader: nothing here reads its files")
    return importlib.import_module("suites.datasets.%s.%s" % (job.dataset.loader, framework))
