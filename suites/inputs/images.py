"""Batches of labelled images for a job: synthetic ones, or those of a registered dataset.

A batch is (images_NHWC, labels_N): float32, normalised; the classes. The work is counted in images.
"""

import importlib
import itertools
from typing import Any, Callable, Iterator, List, Sequence, Tuple

from suites.inputs import Field
from workers.trainer.failure import TrainerError
from workers.trainer.job import Job
from workers.trainer.signatures import Array, Batch, Size, Work

# Judgement: enough batches that a network does not see the same one at each step, few enough to stay in memory.
POOL = 4


def fields(size: Size) -> List[Field]:
    pixels = size["image_pixels"]
    return [Field("images", "image", (pixels, pixels, 3)), Field("labels", "label", ())]


def work(images_NHWC: Array, labels_N: Array) -> Work:
    return {"images": len(labels_N)}


def batches(job: Job, rank: int, size: Size, framework: str, to_tensors: Callable[..., Any]) -> Iterator[Batch]:
    """See ``suites.inputs``. Batches of a dataset come from its loader for ``framework``, as that one's tensors."""
    count, seed = job.plan.per_device_batch_size, job.plan.seed
    if job.dataset is None:
        pool = synthetic(count, size["image_pixels"], size["classes"], (seed, rank))
        return itertools.cycle([(to_tensors(*arrays), work(*arrays)) for arrays in pool])
    if job.dataset.loader is None:
        raise TrainerError("setup_failed", "the job's dataset names no loader: nothing here reads its files")
    loader = importlib.import_module("suites.datasets.%s.%s" % (job.dataset.loader, framework))
    stream = loader.batches(job.dataset.root, count, size["image_pixels"], seed, rank, job.world_size)
    return zip(stream, itertools.repeat({"images": count}))


def synthetic(count: int, pixels: int, classes: int, seed: Sequence[int]) -> Iterator[Tuple[Array, Array]]:
    """Yield ``POOL`` batches (images_NHWC float32, labels_N int64) of random numbers: zeros would draw less power.

    Normal with variance 1, as normalised photographs have.
    """
    import numpy

    generator = numpy.random.RandomState(seed)
    for _ in range(POOL):
        images_NHWC = generator.standard_normal((count, pixels, pixels, 3)).astype(numpy.float32)
        yield images_NHWC, generator.randint(0, classes, count).astype(numpy.int64)
