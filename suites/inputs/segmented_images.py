"""Batches of images with a box and a mask of each object: synthetic ones, or a dataset's.

A batch is that of ``boxed_images`` for a detector with a pyramid: its anchors are those of all maps, also partly
outside of an image. The first of its targets is masks_NBHW: of each box ``MASK`` x ``MASK`` places, 1 where its object
is.

Source of what is learnt from: He et al., "Mask R-CNN", 2017, section 3.1; Lin et al., "Feature Pyramid Networks for
Object Detection", 2017, section 4.1.1, for the anchors.
"""

import itertools
from typing import Any, Callable, Iterator, List, Sequence, Tuple

from suites.assemble import boxes
from suites.datasets.coco import loading
from suites.datasets.pascal_voc.loading import is_upright
from suites.inputs import Field, boxed_images, evaluated_root
from suites.inputs.boxed_images import work
from suites.quality import Examples
from suites.quality.coco_precision import Truths
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Batch, Size

__all__ = ["batches", "epoch_samples", "evaluation", "fields", "work"]

# Places for boxes: no image of COCO's train2017 has more than 93 objects (from memory), and so many detections are
# judged.
BOXES = 100
# Places of a mask along each side of its box: three in each bin of a mask of 28, so that a bin's middle is a place's.
MASK = 84
# The spread of synthetic ones: 7.7 objects an image (Lin et al., "Microsoft COCO", 2014, section 5.1); of sides, from
# memory, most are 640 x 480 and 640 x 427.
SPREAD = boxed_images.Spread(7.7, BOXES, (427, 427, 480, 480), 640.0)


def fields(size: Size) -> List[Field]:
    """Of batches that lie; upright ones have the other shape of images."""
    found = boxed_images.fields_of(size, len(_anchors(size, size["image_pixels"])), BOXES)
    return found[:5] + [Field("masks", "numbers", (BOXES, MASK, MASK), True)] + found[5:]


def _anchors(size, pixels):
    import numpy

    return numpy.concatenate(boxes.pyramid_anchors(pixels, size["anchor_sides"]))


def batches(job: Job, rank: int, size: Size, framework: str, to_tensors: Callable[..., Any]) -> Iterator[Batch]:
    """See ``suites.inputs``."""
    import numpy

    count, seed, room = job.plan.per_device_batch_size, job.plan.seed, tuple(size["image_pixels"])
    generator = numpy.random.RandomState((seed, rank))
    if job.dataset is None:
        found = boxed_images.synthetic(count, size, generator, SPREAD)  # type: Any
        pool = [
            _laid_out([(one, _ellipses(len(one.boxes), generator)) for one in some], size, generator) for some in found
        ]
        return itertools.cycle([(to_tensors(*arrays), work(*arrays)) for arrays in pool])
    found = loading.batches(job.dataset.root, count, room, BOXES, MASK, seed, rank, job.world_size)
    arrays_of = (_laid_out(some, size, generator) for some in found)
    return ((to_tensors(*arrays), work(*arrays)) for arrays in arrays_of)


def evaluation(job: Job, size: Size) -> Iterator[Examples]:
    """See ``suites.inputs``.

    Raises:
        TrainerError: ``setup_failed``, there are no such images, or one cannot be read.
    """
    import numpy

    found, count = loading.judged(evaluated_root(job)), job.plan.per_device_batch_size
    before, room, generator = {}, tuple(size["image_pixels"]), numpy.random.RandomState(0)  # type: Any, Any, Any
    alike = [[at for at in range(len(found)) if is_upright(found[at]) is flag] for flag in (False, True)]
    parts = [some[first : first + count] for some in alike for first in range(0, len(some), count)]
    for number, part in enumerate(parts, start=1):
        shown = [loading.shown(found[image], False, room, MASK) for image in part]
        arrays = _laid_out(shown, size, generator)
        truths = Truths([found[image] for image in part], [one.scale for one, _ in shown], before, number == len(parts))
        yield Examples(arrays[:5], arrays[5:], truths)


def epoch_samples(job: Job, size: Size) -> int:
    """See ``suites.inputs``: the images.

    Raises:
        TrainerError: ``setup_failed``, there is no dataset, or it cannot be read.
    """
    return len(loading.trained(evaluated_root(job)))


def _ellipses(count, generator):
    """Return (count, MASK, MASK): in each box an ellipse that takes a random part of its sides."""
    import numpy

    steps = (numpy.arange(MASK) + 0.5) * 2.0 / MASK - 1.0
    high_B11, wide_B11 = generator.uniform(0.5, 1.0, (2, count, 1, 1))
    return ((steps[:, None] / high_B11) ** 2 + (steps / wide_B11) ** 2 < 1.0).astype(numpy.float32)


def _laid_out(some: Sequence[Tuple[Any, Array]], size: Size, generator: Any) -> Tuple[Array, ...]:
    """Return the arrays of a batch of images, each with its masks."""
    import numpy

    shown = [one for one, _ in some]
    anchors_A4 = _anchors(size, shown[0].image.shape[:2])
    arrays = boxed_images.laid_out(shown, anchors_A4, size["anchors"], BOXES, generator, inside=False)
    masks_NBHW = numpy.zeros((len(some), BOXES, MASK, MASK), numpy.float32)
    for row, (_, masks_BHW) in enumerate(some):
        masks_NBHW[row, : len(masks_BHW)] = masks_BHW
    return arrays[:5] + (masks_NBHW,) + arrays[5:]
