"""Batches for networks that make images of noise, and judge images: synthetic ones, or those of a dataset.

A batch is (noise_NZ, images_NHWC, mixes_N): normal numbers; images without labels, from -1 to 1; and for each a number
from 0 to 1, by which it is mixed with one that is made. All of it is drawn here, by the seed, alike in every framework.
A step takes ``critic_updates`` such batches, and then one of noise alone. The work is counted in images, and in updates
of the step, of which each rank does its share.
"""

import itertools
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from suites.datasets import small_images
from suites.inputs import Field, evaluated_root
from suites.inputs.images import POOL
from suites.quality import Examples
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Batch, Size, Work

# Judgement: with more images than these the distance of two equal distributions would hardly be smaller.
MOST_JUDGED = 1000
# Of the noise that networks are judged by, in every run the same.
JUDGED_SEED = 20171225


class Apart(NamedTuple):
    """What images are judged by, with the last batch of an evaluation: the ``noises`` of those before it, and all
    ``images`` that were kept apart. With the others: nothing."""

    noises: Sequence[Array] = ()
    images: Sequence[Array] = ()


def fields(size: Size) -> List[Field]:
    pixels = size["image_pixels"]
    found = [Field("noise", "numbers", (size["noise"],)), Field("images", "image", (pixels, pixels, 3), True)]
    return found + [Field("mixes", "numbers", (), True)]


def work(noise_NZ: Array, images_NHWC: Optional[Array] = None, mixes_N: Optional[Array] = None, ranks: int = 1) -> Work:
    return {"images": 0 if images_NHWC is None else len(images_NHWC), "updates": 1.0 / ranks}


def batches(job: Job, rank: int, size: Size, framework: str, to_tensors: Callable[..., Any]) -> Iterator[Batch]:
    """See ``suites.inputs``."""
    import numpy

    count, seed, ranks = job.plan.per_device_batch_size, job.plan.seed, job.world_size
    generator = numpy.random.RandomState((seed, rank))

    def made(*arrays):
        return to_tensors(*arrays), work(*arrays, ranks=ranks)

    whole = alone = iter(())  # type: Iterator[Batch]
    if job.dataset is None:
        whole = itertools.cycle([made(*arrays) for arrays in synthetic(count, size, generator)])
        alone = itertools.cycle([made(_noise(generator, count, size)) for _ in range(POOL)])
    else:
        found = small_images.batches(job.dataset.root, count, size["image_pixels"], seed, rank, ranks)
        whole = (made(*_drawn(generator, images_NHWC, size)) for images_NHWC in found)
        alone = (made(_noise(generator, count, size)) for _ in itertools.repeat(None))
    while True:
        yield from itertools.islice(whole, size["critic_updates"])
        yield next(alone)


def synthetic(count: int, size: Size, generator: Any) -> Iterator[Tuple[Array, ...]]:
    """Yield ``POOL`` batches of random images, all brightnesses equally often: zeros would draw less power."""
    import numpy

    for _ in range(POOL):
        shape = (count, size["image_pixels"], size["image_pixels"], 3)
        yield _drawn(generator, generator.uniform(-1.0, 1.0, shape).astype(numpy.float32), size)


def evaluation(job: Job, size: Size) -> Iterator[Examples]:
    """See ``suites.inputs``: the images that the dataset keeps apart, ``MOST_JUDGED`` of them at most, each with noise
    that an image is made of.

    Raises:
        TrainerError: ``setup_failed``, there are none, or one cannot be read.
    """
    import numpy

    kept = small_images.judged(evaluated_root(job), size["image_pixels"], MOST_JUDGED)
    noise = _noise(numpy.random.RandomState(JUDGED_SEED), len(kept), size)
    count = job.plan.per_device_batch_size
    parts = [slice(first, first + count) for first in range(0, len(kept), count)]
    for number, part in enumerate(parts, start=1):
        is_last = number == len(parts)
        references = Apart([noise[one] for one in parts[:-1]], kept) if is_last else Apart()
        yield Examples((noise[part],), (kept[part], numpy.zeros(len(kept[part]), numpy.float32)), references)


def epoch_samples(job: Job, size: Size) -> int:
    """See ``suites.inputs``; so many in each of the ``critic_updates`` batches of a step, which together show every
    image once.

    Raises:
        TrainerError: ``setup_failed``, there is no dataset, or it cannot be read.
    """
    count = len(small_images.files(evaluated_root(job), small_images.TRAIN))
    return max(1, count // int(size["critic_updates"]))


def _drawn(generator, images_NHWC, size):
    """Return a batch of these images."""
    import numpy

    mixes_N = generator.uniform(0.0, 1.0, len(images_NHWC)).astype(numpy.float32)
    return _noise(generator, len(images_NHWC), size), images_NHWC, mixes_N


def _noise(generator, count, size):
    import numpy

    return generator.standard_normal((count, size["noise"])).astype(numpy.float32)
