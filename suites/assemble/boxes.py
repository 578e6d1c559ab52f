"""Boxes in numpy: what detectors start from, what they learn to move it by, and which of several on one place stays.

A box is (left, top, right, bottom) in pixels, of edges and not of pixels' middles: its width is right - left. Shapes: A
anchors, B boxes.
"""

from typing import List, Sequence, Tuple

from workers.trainer.base.signatures import Array

# Pixels from one place of the map to the next; heights of the anchors by their widths (Ren et al., "Faster R-CNN",
# 2015, section 3.1.1 and its code).
STRIDE = 16
RATIOS = (0.5, 1.0, 2.0)
# The same of a pyramid's first map, and twice as many in each further one (Lin et al., "Feature Pyramid Networks for
# Object Detection", 2017, section 3).
PYRAMID_STRIDE = 4
# No move makes a box more than so many times as wide: numbers that a network has not learnt yet overflow else. That of
# Detectron (github.com/facebookresearch/Detectron, BBOX_XFORM_CLIP), beneath the exponential.
MOST_GROWTH = 62.5
# What keeps two empty boxes from a division by nothing.
_LEAST = 1e-6


def places(side: int) -> int:
    """Return how many places the map has along a side of so many pixels."""
    return -(-side // STRIDE)


def anchors(height: int, width: int, sides: Sequence[int], stride: int = STRIDE) -> Array:
    """Return float32 (A, 4) of a map of ``height`` x ``width`` places, ``stride`` pixels apart: around the middle of
    each, row by row, one for each side of a square and each of ``RATIOS``, with the square's area."""
    import numpy

    found = numpy.array([[side / ratio**0.5, side * ratio**0.5] for side in sides for ratio in RATIOS])
    halves_K4 = numpy.concatenate([-found, found], axis=1) / 2.0
    x_W, y_H = ((numpy.arange(count) + 0.5) * stride for count in (width, height))
    middles_HW2 = numpy.stack(numpy.meshgrid(x_W, y_H), axis=2)
    return (numpy.tile(middles_HW2, 2)[:, :, None] + halves_K4).reshape(-1, 4).astype(numpy.float32)


def pyramid(pixels: Sequence[int], levels: int) -> List[Tuple[int, int]]:
    """Return (height, width) of each of a pyramid's maps of images of so many pixels."""
    strides = [PYRAMID_STRIDE << level for level in range(levels)]
    return [(-(-pixels[0] // stride), -(-pixels[1] // stride)) for stride in strides]


def pyramid_anchors(pixels: Sequence[int], sides: Sequence[int]) -> List[Array]:
    """Return the ``anchors`` of each of a pyramid's maps, which has one of ``sides``.

    Source: Lin et al., "Feature Pyramid Networks for Object Detection", 2017, section 4.1.
    """
    extents = pyramid(pixels, len(sides))
    return [anchors(*extents[level], [side], PYRAMID_STRIDE << level) for level, side in enumerate(sides)]


def overlaps(ones_A4: Array, others_B4: Array) -> Array:
    """Return (A, B): the area that two boxes share, by the area of both together; nothing where both are empty."""
    import numpy

    low = numpy.maximum(ones_A4[:, None, :2], others_B4[None, :, :2])
    high = numpy.minimum(ones_A4[:, None, 2:], others_B4[None, :, 2:])
    shared_AB = numpy.maximum(high - low, 0.0).prod(axis=2)
    areas_A, areas_B = ((one[:, 2:] - one[:, :2]).prod(axis=1) for one in (ones_A4, others_B4))
    return shared_AB / numpy.maximum(areas_A[:, None] + areas_B - shared_AB, _LEAST)


def shifts(boxes_A4: Array, references_A4: Array) -> Array:
    """Return by what references become boxes: how far the middle moves, in their sides, and the logarithm of how much
    the sides grow. Source: Girshick et al., "Rich feature hierarchies …", 2014, appendix C, equations 6 to 9."""
    import numpy

    sides, before = (numpy.maximum(one[:, 2:] - one[:, :2], _LEAST) for one in (boxes_A4, references_A4))
    middles = ((one[:, 2:] + one[:, :2]) / 2.0 for one in (boxes_A4, references_A4))
    middle, middle_before = middles
    return numpy.concatenate([(middle - middle_before) / before, numpy.log(sides / before)], axis=1)


def moved(references_A4: Array, shifts_A4: Array) -> Array:
    """The reverse of ``shifts``; equations 1 to 4."""
    import numpy

    before = references_A4[:, 2:] - references_A4[:, :2]
    middles = (references_A4[:, 2:] + references_A4[:, :2]) / 2.0 + shifts_A4[:, :2] * before
    halves = before * numpy.exp(numpy.minimum(shifts_A4[:, 2:], numpy.log(MOST_GROWTH))) / 2.0
    return numpy.concatenate([middles - halves, middles + halves], axis=1)


def clipped(boxes_A4: Array, extent_2: Array) -> Array:
    """Return the boxes within an image of so many pixels, (width, height)."""
    import numpy

    return numpy.clip(boxes_A4, 0.0, numpy.tile(extent_2, 2))


def kept(boxes_A4: Array, most_overlap: float) -> List[int]:
    """Return the numbers of the boxes that stay, of boxes in falling order of their score: each takes those behind it
    away with which it shares more than ``most_overlap``."""
    import numpy

    left, found = numpy.arange(len(boxes_A4)), []  # type: Array, List[int]
    while len(left):
        found.append(int(left[0]))
        shared = overlaps(boxes_A4[left[:1]], boxes_A4[left[1:]])[0]
        left = left[1:][shared <= most_overlap]
    return found
