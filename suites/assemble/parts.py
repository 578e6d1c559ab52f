"""The parts of a model that no framework makes: its description, its initial weights, its batches as arrays."""

import importlib

from suites.assemble import layers
from workers.trainer import job as jobs


def network_of(job):
    """Return the module ``network`` of the job's model."""
    return importlib.import_module(job["model"]["module"] + ".network")


def framework_of(job, framework):
    """Return the model's own module for ``framework``."""
    return importlib.import_module("%s.%s" % (job["model"]["module"], framework))


def layers_of(job):
    """Return the list of the layers of the job's size."""
    return network_of(job).layers(jobs.size_of(job))


def weights_of(job):
    """Return {name: float32 array} to begin with: those that the job gives, else the initial ones of its seed."""
    import numpy

    given = job.get("given")
    if given is None:
        return layers.initial_weights(layers_of(job), job["plan"]["seed"])
    with numpy.load(given) as arrays:
        return {one.name: arrays[one.name] for one in layers.parameters(layers_of(job))}


def input_of(job):
    """Return the module of ``suites.inputs`` that makes the model's batches."""
    return importlib.import_module("suites.inputs." + job["model"]["input"])


def fields_of(job):
    """Return the ``Field`` of each array in a batch."""
    return input_of(job).fields(jobs.size_of(job))


def batches(job, rank, framework, to_tensors):
    """Return the endless iterator of ``(tensors, work)`` for one rank.

    Args:
        to_tensors: turns the arrays of a batch (see ``fields_of``) into the framework's tensors.
    """
    given = job.get("given")
    if given is not None:
        return _repeated(given, job, to_tensors)
    return input_of(job).batches(job, rank, jobs.size_of(job), framework, to_tensors)


def _repeated(path, job, to_tensors):
    """Yield the one batch that the job gives, again and again."""
    import numpy

    with numpy.load(path) as arrays:
        found = [arrays["batch." + field.name] for field in fields_of(job)]
    batch = to_tensors(*found), input_of(job).work(*found)
    while True:
        yield batch
