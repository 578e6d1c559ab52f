"""Batches of images with boxes around what is on them, for a detector of two stages: synthetic ones, or a dataset's.

A batch is (images_NHWC, extents_N2, boxes_NB4, kinds_NB, keys_NK, anchors_NS, answers_NS, shifts_NS4): normalised
images, all lying or all upright, nothing behind their end; their widths and heights; ``BOXES`` places for boxes and the
numbers of their classes, 0 where there is none. ``keys``: of each anchor and then of each box, whole numbers from 0 in
an order drawn by chance; where regions are drawn by chance, those with the largest keys are. Then the anchors that the
first stage learns from: their numbers; 1 for a box, 0 for none, -1 where there was no further anchor; by what each
becomes its box. All that is drawn is drawn here, by the seed, alike in every framework. The work is counted in images.

Source of what is learnt from: Ren et al., "Faster R-CNN", 2015, sections 3.1.2 and 3.1.3.
"""

import itertools
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from suites.assemble import boxes
from suites.datasets.pascal_voc import loading
from suites.inputs import Field, evaluated_root
from suites.inputs.images import POOL
from suites.quality import Examples
from suites.quality.mean_average_precision import Truths
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Batch, Size, Work

# Places for boxes: no image of VOC 2007 has more than 42 objects (from memory).
BOXES = 64
# What an anchor shares with a box that it learns to tell, and at most with any box where it tells none.
TOLD, UNTOLD = 0.7, 0.3
# Judgement: how many boxes synthetic images have: 1 and more by a geometric distribution with the mean of VOC 2007's
# trainval, where 5,011 images have 12,608 objects that are not difficult; parts of the image's sides that these take;
# the shorter side of images whose longer one is 500, and how many of ``POOL`` batches are upright (from memory).
MEAN_BOXES, LEAST_PART, MOST_PART = 12608 / 5011.0, 0.08, 0.9
SHORTER_SIDES, LONGER_SIDE, UPRIGHT = (333, 375, 375, 400), 500.0, 1


def fields(size: Size) -> List[Field]:
    """Of batches that lie; upright ones have the other shape of images."""
    return fields_of(size, len(_anchors(size, size["image_pixels"])), BOXES)


def fields_of(size: Size, anchors: int, places: int) -> List[Field]:
    """Return the fields where an image has so many anchors, and places for boxes."""
    learnt = size["anchors"]
    found = [Field("images", "image", tuple(size["image_pixels"]) + (3,)), Field("extents", "numbers", (2,))]
    found += [Field("boxes", "numbers", (places, 4)), Field("kinds", "tokens", (places,))]
    found += [Field("keys", "numbers", (anchors + places,)), Field("anchors", "tokens", (learnt,), True)]
    return found + [Field("answers", "tokens", (learnt,), True), Field("shifts", "numbers", (learnt, 4), True)]


def _anchors(size, sides):
    return boxes.anchors(boxes.places(sides[0]), boxes.places(sides[1]), size["anchor_sides"])


def work(images_NHWC: Array, *unused: Array) -> Work:
    return {"images": len(images_NHWC)}


def batches(job: Job, rank: int, size: Size, framework: str, to_tensors: Callable[..., Any]) -> Iterator[Batch]:
    """See ``suites.inputs``."""
    import numpy

    count, seed, room = job.plan.per_device_batch_size, job.plan.seed, tuple(size["image_pixels"])
    generator = numpy.random.RandomState((seed, rank))
    if job.dataset is None:
        spread = Spread(MEAN_BOXES, BOXES, SHORTER_SIDES, LONGER_SIDE)
        pool = (of_images(some, size, generator) for some in synthetic(count, size, generator, spread))
        return itertools.cycle([(to_tensors(*arrays), work(*arrays)) for arrays in pool])
    found = loading.batches(job.dataset.root, count, room, BOXES, seed, rank, job.world_size)
    laid_out = (of_images(some, size, generator) for some in found)
    return ((to_tensors(*arrays), work(*arrays)) for arrays in laid_out)


def evaluation(job: Job, size: Size) -> Iterator[Examples]:
    """See ``suites.inputs``.

    Raises:
        TrainerError: ``setup_failed``, there are no such images, or one cannot be read.
    """
    import numpy

    found, count = loading.judged(evaluated_root(job)), job.plan.per_device_batch_size
    before, room, generator = [], tuple(size["image_pixels"]), numpy.random.RandomState(0)  # type: Any, Any, Any
    alike = [list(group) for _, group in itertools.groupby(found, loading.is_upright)]
    parts = [some[first : first + count] for some in alike for first in range(0, len(some), count)]
    for number, part in enumerate(parts, start=1):
        shown = [loading.shown(loading.Wanted(image, False), room) for image in part]
        arrays = of_images(shown, size, generator)
        truths = Truths(part, [one.scale for one in shown], before, number == len(parts))
        yield Examples(arrays[:5], arrays[5:], truths)


def epoch_samples(job: Job, size: Size) -> int:
    """See ``suites.inputs``: the images.

    Raises:
        TrainerError: ``setup_failed``, there is no dataset, or it cannot be read.
    """
    return len(loading.trained(evaluated_root(job)))


class Spread(NamedTuple):
    """How many boxes synthetic images have: 1 and more by a geometric distribution with that mean, at most so many; and
    the sides of images, of which one is drawn for the shorter one."""

    mean_boxes: float
    most_boxes: int
    shorter_sides: Sequence[int]
    longer_side: float


def synthetic(count: int, size: Size, generator: Any, spread: Spread) -> Iterator[List[loading.Shown]]:
    """Yield ``POOL`` batches of random images with the spread of boxes that real ones have; the last ``UPRIGHT`` of
    them are upright. Numbers have mean 0 and deviation 1, as those of normalised images have."""
    import numpy

    shorter, longer = size["image_pixels"]
    for number in range(POOL):
        is_upright = number >= POOL - UPRIGHT
        found = []
        for _ in range(count):
            sides = numpy.array([spread.longer_side, generator.choice(spread.shorter_sides)])
            scale = min(longer / sides[0], shorter / sides[1])
            width, height = numpy.rint(sides * scale).astype(int)[:: -1 if is_upright else 1]
            image_HWC = numpy.zeros(((longer, shorter) if is_upright else (shorter, longer)) + (3,), numpy.float32)
            image_HWC[:height, :width] = generator.standard_normal((height, width, 3))
            extent_2 = numpy.array([width, height], numpy.float32)
            objects = min(spread.most_boxes, generator.geometric(1.0 / spread.mean_boxes))
            boxes_B4 = _random_boxes(objects, extent_2, generator)
            kinds_B = generator.randint(1, size["classes"], len(boxes_B4)).astype(numpy.int64)
            found.append(loading.Shown(image_HWC, scale, extent_2, boxes_B4, kinds_B))
        yield found


def _random_boxes(count, extent_2, generator):
    import numpy

    sides_B2 = extent_2 * generator.uniform(LEAST_PART, MOST_PART, (count, 2))
    corners_B2 = generator.uniform(0.0, 1.0, (count, 2)) * (extent_2 - sides_B2)
    return numpy.concatenate([corners_B2, corners_B2 + sides_B2], axis=1).astype(numpy.float32)


def of_images(some: Sequence[loading.Shown], size: Size, generator: Any) -> Tuple[Array, ...]:
    """Return the arrays of a batch; ``generator``: numpy's ``RandomState``, for what is drawn."""
    return laid_out(some, _anchors(size, some[0].image.shape[:2]), size["anchors"], BOXES, generator, True)


def laid_out(
    some: Sequence[loading.Shown], anchors_A4: Array, count: int, places: int, generator: Any, inside: bool
) -> Tuple[Array, ...]:
    """Return the arrays of a batch of images with these anchors, of which ``count`` are learnt, and so many places for
    boxes; ``inside``: no anchor is learnt that is partly outside of its image."""
    import numpy

    images_NHWC = numpy.stack([one.image for one in some])
    boxes_NB4 = numpy.zeros((len(some), places, 4), numpy.float32)
    kinds_NB, learnt = numpy.zeros((len(some), places), numpy.int64), []
    for row, one in enumerate(some):
        boxes_NB4[row, : len(one.boxes)] = one.boxes
        kinds_NB[row, : len(one.kinds)] = one.kinds
        learnt.append(anchors_learnt(anchors_A4, one.extent if inside else None, one.boxes, generator, count))
    keys_NK = numpy.stack([generator.permutation(len(anchors_A4) + places) for _ in some]).astype(numpy.float32)
    extents_N2 = numpy.stack([one.extent for one in some])
    answers = tuple(numpy.stack(arrays) for arrays in zip(*learnt))
    return (images_NHWC, extents_N2, boxes_NB4, kinds_NB, keys_NK) + answers


def anchors_learnt(
    anchors_A4: Array, extent_2: Optional[Array], boxes_B4: Array, generator: Any, count: int
) -> Tuple[Array, Array, Array]:
    """Return (numbers_S, answers_S, shifts_S4) of ``count`` anchors, those within an image, or of all without an
    extent: half of them at most tell a box, as they share ``TOLD`` or more with it, or as much as any does; the others
    share less than ``UNTOLD`` with any."""
    import numpy

    inside = numpy.arange(len(anchors_A4))
    if extent_2 is not None:
        is_inside_A = (anchors_A4[:, :2] >= 0).all(axis=1) & (anchors_A4[:, 2:] <= extent_2).all(axis=1)
        inside = numpy.flatnonzero(is_inside_A)
    shared_AB = boxes.overlaps(anchors_A4[inside], boxes_B4)
    most_A = shared_AB.max(axis=1) if len(boxes_B4) else numpy.zeros(len(inside))
    best_B = shared_AB.max(axis=0) if len(inside) else numpy.zeros(len(boxes_B4))
    told_A = (most_A >= TOLD) | ((shared_AB == best_B) & (best_B > 0)).any(axis=1)
    told = generator.permutation(numpy.flatnonzero(told_A))[: count // 2]
    untold = generator.permutation(numpy.flatnonzero(~told_A & (most_A < UNTOLD)))[: count - len(told)]
    numbers_S, answers_S = numpy.zeros(count, numpy.int64), numpy.full(count, -1, numpy.int64)
    answers_S[: len(told) + len(untold)] = 0
    answers_S[: len(told)] = 1
    numbers_S[: len(told) + len(untold)] = inside[numpy.concatenate([told, untold])]
    shifts_S4 = numpy.zeros((count, 4), numpy.float32)
    if len(told):
        shifts_S4[: len(told)] = boxes.shifts(boxes_B4[shared_AB[told].argmax(axis=1)], anchors_A4[inside[told]])
    return numbers_S, answers_S, shifts_S4
