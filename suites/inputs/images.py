"""Batches of labelled images for a job: synthetic ones, or those of a registered dataset.

A batch is (images_NHWC, labels_N): float32, normalised; the classes. The work is counted in images.
"""

import itertools
from typing import Any, Callable, Iterator, List, Sequence, Tuple

from suites import modules
from suites.datasets.image_folder import listing
from suites.inputs import Field, evaluated_root
from suites.quality import Examples
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Batch, Size, Work

# Judgement: enough batches that a network does not see the same one at each step, few enough to stay in memory.
POOL = 4


def fields(size: Size) -> List[Field]:
    pixels = size["image_pixels"]
    return [Field("images", "image", (pixels, pixels, 3)), Field("labels", "label", (), True)]


def work(images_NHWC: Array, labels_N: Array) -> Work:
    return {"images": len(labels_N)}


def batches(job: Job, rank: int, size: Size, framework: str, to_tensors: Callable[..., Any]) -> Iterator[Batch]:
    """See ``suites.inputs``. Batches of a dataset come from its loader for ``framework``, as that one's tensors."""
    count, seed = job.plan.per_device_batch_size, job.plan.seed
    if job.dataset is None:
        pool = synthetic(count, size["image_pixels"], size["classes"], (seed, rank))
        return itertools.cycle([(to_tensors(*arrays), work(*arrays)) for arrays in pool])
    loader = modules.loader_of(job, framework)
    stream = loader.batches(job.dataset.root, count, size["image_pixels"], seed, rank, job.world_size)
    return zip(stream, itertools.repeat({"images": count}))


def evaluation(job: Job, size: Size) -> Iterator[Examples]:
    """See ``suites.inputs``: the split ``val`` of the job's dataset, each image cut once from its middle and decoded by
    what decodes those that are trained on.

    Raises:
        TrainerError: ``setup_failed``, there are no such images.
    """
    import numpy

    root = evaluated_root(job)
    decode = modules.loader_of(job, job.plan.framework).from_the_middle
    found = listing.files(root, "val")
    count = job.plan.per_device_batch_size
    for first in range(0, len(found), count):
        entries = found[first : first + count]
        images_NHWC = numpy.stack([decode(one, size["image_pixels"]) for one in entries])
        yield Examples((images_NHWC,), (numpy.array([one.label for one in entries], numpy.int64),))


def epoch_samples(job: Job, size: Size) -> int:
    """See ``suites.inputs``: the images.

    Raises:
        TrainerError: ``setup_failed``, there is no dataset, or it cannot be read.
    """
    return len(listing.files(evaluated_root(job)))


def synthetic(count: int, pixels: int, classes: int, seed: Sequence[int]) -> Iterator[Tuple[Array, Array]]:
    """Yield ``POOL`` batches (images_NHWC float32, labels_N int64) of random numbers: zeros would draw less power.

    Normal with variance 1, as normalised photographs have.
    """
    import numpy

    generator = numpy.random.RandomState(seed)
    for _ in range(POOL):
        images_NHWC = generator.standard_normal((count, pixels, pixels, 3)).astype(numpy.float32)
        yield images_NHWC, generator.randint(0, classes, count).astype(numpy.int64)
