"""Batches of labelled images for a job: synthetic ones, or those of a registered dataset, for any framework.

A batch is (images, labels); batches come as ``(batch, work)`` from an endless iterator, the work counted in images.
Images are float32, normalised; their layout is the framework's (NCHW for PyTorch, NHWC for TensorFlow).
"""

import importlib
import itertools

# Judgement: enough batches that a network does not see the same one at each step, few enough to stay in memory.
POOL = 4


def batches(job, rank, size, framework):
    """Return the endless iterator of ``(batch, work)`` for one rank.

    ``framework`` names the module that turns arrays into that framework's tensors or decodes the dataset's files.
    """
    count = job["plan"]["per_device_batch_size"]
    work = {"images": count}
    if job["dataset"] is None:
        tensors = importlib.import_module("suites.datasets.synthetic_" + framework)
        pool = synthetic(count, size["image_pixels"], size["classes"], (job["plan"]["seed"], rank))
        return zip(itertools.cycle([tensors.batch(*arrays) for arrays in pool]), itertools.repeat(work))
    loader = importlib.import_module(job["dataset"]["module"] + "." + framework)
    stream = loader.batches(
        job["dataset"]["root"], count, size["image_pixels"], job["plan"]["seed"], rank, job["world_size"]
    )
    return zip(stream, itertools.repeat(work))


def synthetic(count, pixels, classes, seed):
    """Yield ``POOL`` batches (images_NHWC float32, labels_N int64) of random numbers: zeros would draw less power.

    Normal with variance 1, as normalised photographs have.
    """
    import numpy

    generator = numpy.random.RandomState(seed)
    for _ in range(POOL):
        images_NHWC = generator.standard_normal((count, pixels, pixels, 3)).astype(numpy.float32)
        yield images_NHWC, generator.randint(0, classes, count).astype(numpy.int64)
