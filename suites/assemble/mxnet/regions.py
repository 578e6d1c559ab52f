"""What detectors of two stages do with regions, in MXNet, of all images of a batch at once; see
``suites.assemble.pytorch.regions``. Numbers of boxes are in single precision, as MXNet's operators tell them.

Shapes: N images, A anchors, B boxes, R regions, C channels, H height and W width of a map, S side of what a region
becomes.
"""

import math
from typing import Any, Tuple

from suites.assemble import boxes

POINTS = 2
_ABOVE = 2.0**23
_LEAST = 1e-6
# The score of what is no box; any score of a box is higher.
NONE = -1e30


def overlaps(F: Any, ones_NA4: Any, others_NB4: Any) -> Any:
    ones_NA1, others_N1B = F.split(ones_NA4, 4, axis=2), F.split(F.transpose(others_NB4, axes=(0, 2, 1)), 4, axis=1)
    width_NAB, height_NAB = (
        F.relu(
            F.broadcast_minimum(ones_NA1[axis + 2], others_N1B[axis + 2])
            - F.broadcast_maximum(ones_NA1[axis], others_N1B[axis])
        )
        for axis in (0, 1)
    )
    shared_NAB = width_NAB * height_NAB
    area_NA1, area_N1B = ((one[2] - one[0]) * (one[3] - one[1]) for one in (ones_NA1, others_N1B))
    return shared_NAB / F.maximum(F.broadcast_add(area_NA1, area_N1B) - shared_NAB, _LEAST)


def shifts(F: Any, boxes_NA4: Any, references_NA4: Any) -> Any:
    (middle, sides), (middle_before, before) = (_middles(F, one) for one in (boxes_NA4, references_NA4))
    sides, before = F.maximum(sides, _LEAST), F.maximum(before, _LEAST)
    return F.concat((middle - middle_before) / before, F.log(sides / before), dim=2)


def moved(F: Any, references_NA4: Any, shifts_NA4: Any) -> Any:
    middles, before = _middles(F, references_NA4)
    ahead, grown = (F.slice_axis(shifts_NA4, axis=2, begin=first, end=first + 2) for first in (0, 2))
    middles = middles + ahead * before
    halves = before * F.exp(F.minimum(grown, math.log(boxes.MOST_GROWTH))) / 2.0
    return F.concat(middles - halves, middles + halves, dim=2)


def _middles(F, boxes_NA4):
    """Return the middles and the sides of boxes, (N, A, 2) each."""
    low, high = F.split(boxes_NA4, 2, axis=2)
    return (high + low) / 2.0, high - low


def clipped(F: Any, boxes_NA4: Any, extents_N2: Any) -> Any:
    return F.broadcast_minimum(F.maximum(boxes_NA4, 0.0), F.expand_dims(F.tile(extents_N2, (1, 2)), axis=1))


def kept(F: Any, scores_NA: Any, boxes_NA4: Any, candidates: int, most_overlap: float) -> Any:
    """Return the numbers of those that stay of the ``candidates`` with the highest scores, highest first, by MXNet's
    own operator; (N, A), -1 behind the last one."""
    numbers_NA = F.broadcast_like(F.expand_dims(F.contrib.arange_like(scores_NA, axis=1), axis=0), scores_NA)
    rows_NA6 = F.concat(F.stack(numbers_NA, scores_NA, axis=2), boxes_NA4, dim=2)
    found_NA6 = F.contrib.box_nms(
        rows_NA6, overlap_thresh=most_overlap, valid_thresh=NONE, topk=candidates, coord_start=2, score_index=1
    )
    return F.squeeze(F.slice_axis(found_NA6, axis=2, begin=0, end=1), axis=2)


def proposals(
    F: Any, scores_NA: Any, boxes_NA4: Any, candidates: int, most: int, most_overlap: float
) -> Tuple[Any, Any]:
    _, sides_NA2 = _middles(F, boxes_NA4)
    wide_NA = F.min(sides_NA2, axis=2) >= 1.0
    scores_NA = F.where(wide_NA, scores_NA, F.ones_like(scores_NA) * NONE)
    numbers_NR = F.slice_axis(kept(F, scores_NA, boxes_NA4, candidates, most_overlap), axis=1, begin=0, end=most)
    count_1, there_NR = _count(F, scores_NA), numbers_NR >= 0
    numbers_NR = F.sort(F.where(there_NR, numbers_NR, F.broadcast_like(count_1, numbers_NR)), axis=1)
    return F.broadcast_minimum(numbers_NR, count_1 - 1), F.broadcast_lesser(numbers_NR, count_1)


def drawn(F: Any, shared_NA: Any, there_NA: Any, keys_NA: Any, most: int, half: float) -> Tuple[Any, Any]:
    ahead_NA, none_NA = there_NA * (shared_NA >= half), -F.ones_like(keys_NA)
    first_NA = F.topk(F.where(ahead_NA, keys_NA, none_NA), k=most // 4, axis=1, ret_typ="mask") * ahead_NA
    behind_NA = F.where(there_NA * (shared_NA < half), keys_NA, none_NA)
    order_NA = F.where(first_NA, keys_NA + _ABOVE, behind_NA)
    best_NR, numbers_NR = F.topk(order_NA, k=most, axis=1, ret_typ="both")
    return numbers_NR, best_NR >= 0


def gathered(F: Any, x: Any, numbers_NR: Any) -> Any:
    """Return of each image what has these numbers: of (N, A, ...) (N, R, ...)."""
    image_N = F.contrib.arange_like(numbers_NR, axis=0)
    first_N1 = F.expand_dims(F.broadcast_mul(image_N, F.reshape(_count(F, x), shape=(1,))), axis=1)
    return F.take(F.reshape(x, shape=(-3, -2)), F.broadcast_add(numbers_NR, first_N1))


def _count(F, x):
    """Return how long ``x`` is along its second axis, (1, 1): the graph does not know it."""
    return F.reshape(F.cast(F.slice_axis(F.shape_array(x), axis=0, begin=1, end=2), dtype="float32"), shape=(1, 1))


def align(F: Any, map_NCHW: Any, regions_NR4: Any, side: int) -> Any:
    """Return (N * R, C, S, S), by products of matrices along one axis after the other, as TensorFlow does it.

    MXNet has an operator of it. On CPU devices its way back runs on one core alone and takes longer than both products,
    and it ends the process where a region is empty, as one can be that there is only to fill up.
    """
    left, top, right, bottom = F.split(regions_NR4, 4, axis=2)
    columns_NRSW, rows_NRSH = _parts(F, left, right, map_NCHW, 3, side), _parts(F, top, bottom, map_NCHW, 2, side)
    by_column = F.reshape(F.transpose(map_NCHW, axes=(0, 3, 1, 2)), shape=(0, 0, -3))
    x = F.batch_dot(F.reshape(columns_NRSW, shape=(0, -3, 0)), by_column)
    x = F.reshape(F.reshape(x, shape=(-3, 0)), shape=(-4, -1, side, 0))
    x_RSCH = F.reshape_like(x, map_NCHW, lhs_begin=2, lhs_end=3, rhs_begin=1, rhs_end=3)
    y = F.batch_dot(F.reshape(x_RSCH, shape=(0, -3, 0)), F.reshape(rows_NRSH, shape=(-3, 0, 0)), transpose_b=True)
    y_RSCS = F.reshape_like(y, x_RSCH, lhs_begin=1, lhs_end=2, rhs_begin=1, rhs_end=3)
    return F.transpose(y_RSCS, axes=(0, 2, 3, 1))


def _parts(F, low_NR1, high_NR1, map_NCHW, axis, side):
    """Return the part that each place along an axis has in each bin."""
    places_P = F.contrib.arange_like(F.stop_gradient(map_NCHW), axis=axis)
    steps_11T = F.reshape(F.arange(0.5, side * POINTS) / (side * POINTS), shape=(1, 1, -1))
    sides_NR1 = (high_NR1 - low_NR1) / boxes.STRIDE
    points_NRT = F.broadcast_add(low_NR1 / boxes.STRIDE, F.broadcast_mul(sides_NR1, steps_11T)) - 0.5
    points_NRT = F.broadcast_minimum(F.maximum(points_NRT, 0.0), F.reshape(F.max(places_P), shape=(1, 1, 1)))
    far_NRTP = F.broadcast_sub(F.expand_dims(points_NRT, axis=3), F.reshape(places_P, shape=(1, 1, 1, -1)))
    near_NRTP = F.relu(1.0 - F.abs(far_NRTP))
    return F.stop_gradient(F.mean(F.reshape(near_NRTP, shape=(0, 0, -4, side, POINTS, 0)), axis=3))
