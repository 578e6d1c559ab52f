"""What detectors of two stages do with regions, in TensorFlow; see ``suites.assemble.pytorch.regions``.

Shapes: A anchors, B boxes, R regions, C channels, H height and W width of a map, S side of what a region becomes.
"""

import math
from typing import Any, Optional, Sequence, Tuple

import tensorflow as tf

from suites.assemble import boxes
from suites.assemble.tensorflow.functions import single

POINTS = 2
_ABOVE = 2.0**23
_LEAST = 1e-6


def overlaps(ones_A4: tf.Tensor, others_B4: tf.Tensor) -> tf.Tensor:
    low = tf.maximum(ones_A4[:, None, :2], others_B4[None, :, :2])
    high = tf.minimum(ones_A4[:, None, 2:], others_B4[None, :, 2:])
    shared_AB = tf.reduce_prod(tf.maximum(high - low, 0.0), axis=2)
    areas_A, areas_B = (tf.reduce_prod(one[:, 2:] - one[:, :2], axis=1) for one in (ones_A4, others_B4))
    return shared_AB / tf.maximum(areas_A[:, None] + areas_B - shared_AB, _LEAST)


def shifts(boxes_A4: tf.Tensor, references_A4: tf.Tensor) -> tf.Tensor:
    sides, before = (tf.maximum(one[:, 2:] - one[:, :2], _LEAST) for one in (boxes_A4, references_A4))
    middle, middle_before = ((one[:, 2:] + one[:, :2]) / 2.0 for one in (boxes_A4, references_A4))
    return tf.concat([(middle - middle_before) / before, tf.math.log(sides / before)], axis=1)


def moved(references_A4: tf.Tensor, shifts_A4: tf.Tensor) -> tf.Tensor:
    before = references_A4[:, 2:] - references_A4[:, :2]
    middles = (references_A4[:, 2:] + references_A4[:, :2]) / 2.0 + shifts_A4[:, :2] * before
    halves = before * tf.exp(tf.minimum(shifts_A4[:, 2:], math.log(boxes.MOST_GROWTH))) / 2.0
    return tf.concat([middles - halves, middles + halves], axis=1)


def clipped(boxes_A4: tf.Tensor, extent_2: tf.Tensor) -> tf.Tensor:
    return tf.minimum(tf.maximum(boxes_A4, 0.0), tf.tile(extent_2, (2,)))


def kept(boxes_A4: tf.Tensor, there_A: tf.Tensor, most: int, most_overlap: float) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return (numbers, how many of them stay): by TensorFlow's own operator, of always ``most`` numbers."""
    # The next one is that with the highest score; what has none is no box.
    scores_A = tf.where(there_A, -tf.range(float(boxes_A4.shape[0])), -math.inf)
    return tf.raw_ops.NonMaxSuppressionV4(
        boxes=boxes_A4,
        scores=scores_A,
        max_output_size=most,
        iou_threshold=most_overlap,
        score_threshold=-math.inf,
        pad_to_max_output_size=True,
    )


def proposals(
    scores_A: tf.Tensor,
    boxes_A4: tf.Tensor,
    candidates: int,
    most: int,
    most_overlap: float,
    levels: Optional[Sequence[int]] = None,
) -> Tuple[tf.Tensor, tf.Tensor]:
    count, found, begin = boxes_A4.shape[0], [], 0
    is_narrow_A = tf.reduce_any(boxes_A4[:, 2:] - boxes_A4[:, :2] < 1.0, axis=1)
    scores_A = tf.where(is_narrow_A, -math.inf, scores_A)
    for of_level in levels or (count,):
        best_C, order_C = tf.math.top_k(scores_A[begin : begin + of_level], min(candidates, of_level))
        order_C += begin
        stay_R, stayed = kept(tf.gather(boxes_A4, order_C), best_C > -math.inf, most, most_overlap)
        found.append(tf.where(tf.range(most) < stayed, tf.gather(order_C, stay_R), count))
        begin += of_level
    numbers_P = tf.concat(found, axis=0)
    if len(found) > 1:
        # What is none comes last.
        scores_P = tf.gather(tf.concat([scores_A, [-math.inf]], axis=0), numbers_P)
        numbers_P = tf.gather(numbers_P, tf.math.top_k(scores_P, most).indices)
    numbers_R = tf.sort(numbers_P)
    return tf.minimum(numbers_R, count - 1), tf.cast(numbers_R < count, tf.float32)


def drawn(
    shared_A: tf.Tensor, there_A: tf.Tensor, keys_A: tf.Tensor, most: int, half: float
) -> Tuple[tf.Tensor, tf.Tensor]:
    ahead_A = (there_A > 0) & (shared_A >= half)
    best, first = tf.math.top_k(tf.where(ahead_A, keys_A, -1.0), most // 4)
    of_first = tf.scatter_nd(first[:, None], tf.cast(best >= 0, tf.float32), keys_A.shape) > 0
    behind_A = (there_A > 0) & ~ahead_A
    order_A = tf.where(of_first, keys_A + _ABOVE, tf.where(behind_A, keys_A, -1.0))
    best, numbers = tf.math.top_k(order_A, most)
    return numbers, tf.cast(best >= 0, tf.float32)


def align(map_HWC: tf.Tensor, regions_R4: tf.Tensor, side: int) -> tf.Tensor:
    """Return (R, S, S, C). The part of each place in a bin is that of its row by that of its column: so two products of
    matrices are enough, along one axis after the other."""
    height, width, channels = map_HWC.shape
    rows_RSH, columns_RSW = _parts(regions_R4[:, 1::2], height, side), _parts(regions_R4[:, 0::2], width, side)
    of_rows = tf.matmul(tf.reshape(rows_RSH, (-1, height)), tf.reshape(single(map_HWC), (height, -1)))
    x_RSWC = tf.reshape(of_rows, (-1, side, width, channels))
    return tf.cast(tf.matmul(columns_RSW[:, None], x_RSWC), map_HWC.dtype)


def _parts(edges_R2, count, side):
    """Return the part that each of ``count`` places has in each bin along an axis."""
    low_R1, high_R1 = tf.split(edges_R2 / boxes.STRIDE, 2, axis=1)
    steps_T = (tf.range(side * POINTS, dtype=edges_R2.dtype) + 0.5) / (side * POINTS)
    points_RT = tf.clip_by_value(low_R1 + (high_R1 - low_R1) * steps_T - 0.5, 0.0, count - 1.0)
    near_RTP = tf.maximum(0.0, 1.0 - tf.abs(points_RT[:, :, None] - tf.range(count, dtype=edges_R2.dtype)))
    return tf.reduce_mean(tf.reshape(near_RTP, (-1, side, POINTS, count)), axis=2)


def align_levels(
    maps_HWC: Sequence[tf.Tensor], regions_R4: tf.Tensor, side: int, stride: int, canonical: float
) -> tf.Tensor:
    """Return (R, S, S, C). Matrices like those of ``align``, along the axes of all maps, would be nearly empty: the
    16 places of each bin are looked up in a table of all."""
    areas_R = tf.reduce_prod(regions_R4[:, 2:] - regions_R4[:, :2], axis=1)
    borders = [(canonical * 2.0 ** (level - 2)) ** 2 for level in range(1, len(maps_HWC))]
    level_R = tf.reduce_sum(tf.cast(areas_R[:, None] >= tf.constant(borders), tf.int32), axis=1)

    def own(values: Sequence[int]) -> tf.Tensor:
        return tf.gather(tf.constant(values), level_R)[:, None]

    heights, widths = ([one.shape[axis] for one in maps_HWC] for axis in (0, 1))
    counts, channels = [height * width for height, width in zip(heights, widths)], maps_HWC[0].shape[2]
    edges_R4 = regions_R4 / single(own([stride * 2**level for level in range(len(maps_HWC))]))
    at_RSP, weight_RSP = _points(edges_R4[:, 1::2], own(heights), side)
    across_RSP, weight_across_RSP = _points(edges_R4[:, 0::2], own(widths), side)
    rows_RSP = at_RSP * own(widths)[..., None] + own([sum(counts[:level]) for level in range(len(counts))])[..., None]
    places = rows_RSP[:, :, None, :, None] + across_RSP[:, None, :, None, :]
    weights = tf.stop_gradient(weight_RSP[:, :, None, :, None] * weight_across_RSP[:, None, :, None, :])
    table = tf.concat([tf.reshape(single(one), (-1, channels)) for one in maps_HWC], axis=0)
    found = tf.gather(table, tf.reshape(places, (-1, (2 * POINTS) ** 2)))
    bins = tf.matmul(tf.reshape(weights, (-1, 1, (2 * POINTS) ** 2)), found)
    return tf.cast(tf.reshape(bins, (-1, side, side, channels)), maps_HWC[0].dtype)


def aligned(maps: Sequence[tf.Tensor], regions_NR4: tf.Tensor, side: int, canonical: float) -> tf.Tensor:
    each = zip(*map(tf.unstack, maps), tf.unstack(regions_NR4))
    return tf.concat([align_levels(one[:-1], one[-1], side, boxes.PYRAMID_STRIDE, canonical) for one in each], axis=0)


def _points(edges_R2: tf.Tensor, count_R1: tf.Tensor, side: int) -> Any:
    """See ``pytorch.regions``."""
    low_R1, high_R1 = tf.split(edges_R2, 2, axis=1)
    steps_T = (tf.range(side * POINTS, dtype=edges_R2.dtype) + 0.5) / (side * POINTS)
    points_RT = low_R1 + (high_R1 - low_R1) * steps_T - 0.5
    points_RT = tf.minimum(tf.maximum(points_RT, 0.0), single(count_R1) - 1.0)
    before_RT = tf.minimum(tf.cast(points_RT, tf.int32), tf.maximum(count_R1 - 2, 0))
    part_RT = points_RT - single(before_RT)
    places = tf.stack([before_RT, tf.minimum(before_RT + 1, count_R1 - 1)], axis=2)
    weights = tf.stack([1.0 - part_RT, part_RT], axis=2) / POINTS
    return (tf.reshape(one, (-1, side, 2 * POINTS)) for one in (places, weights))


def cut(masks_BMM: tf.Tensor, which_R: tf.Tensor, parts_R4: tf.Tensor, side: int) -> tf.Tensor:
    extent = masks_BMM.shape[1]
    steps_S = (tf.range(side, dtype=parts_R4.dtype) + 0.5) / side
    edges = [tf.split(parts_R4[:, axis::2], 2, axis=1) for axis in (0, 1)]
    places = [low_R1 + (high_R1 - low_R1) * steps_S for low_R1, high_R1 in edges]
    in_x_RS, in_y_RS = (single((one >= 0.0) & (one < 1.0)) for one in places)
    x_RS, y_RS = (tf.clip_by_value(tf.cast(one * extent, tf.int32), 0, extent - 1) for one in places)
    shape = (parts_R4.shape[0], side, side)
    at = (tf.cast(which_R, tf.int32)[:, None, None], y_RS[:, :, None], x_RS[:, None, :])
    found_RSS = tf.gather_nd(masks_BMM, tf.stack([tf.broadcast_to(one, shape) for one in at], axis=3))
    return found_RSS * (in_y_RS[:, :, None] * in_x_RS[:, None, :])


def masked(
    regions_NM4: tf.Tensor, kinds_NM: tf.Tensor, which_NM: tf.Tensor, boxes_NB4: tf.Tensor
) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    own_NM4 = tf.gather(boxes_NB4, which_NM, batch_dims=1)
    sides_NM2 = tf.maximum(own_NM4[..., 2:] - own_NM4[..., :2], 1.0)
    parts_NM4 = (regions_NM4 - tf.tile(own_NM4[..., :2], (1, 1, 2))) / tf.tile(sides_NM2, (1, 1, 2))
    told_NM2 = tf.stack([single(kinds_NM > 0), single(which_NM)], axis=2)
    return regions_NM4, kinds_NM, tf.concat([told_NM2, parts_NM4], axis=2)


def given(boxes_NB4: tf.Tensor, kinds_NB: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    which_NB = tf.zeros(kinds_NB.shape, tf.int32) + tf.range(kinds_NB.shape[1])
    return masked(boxes_NB4, kinds_NB, which_NB, boxes_NB4)


def loss_of_masks(masks_NMSS: tf.Tensor, masks_NBHW: tf.Tensor, masked_NM6: tf.Tensor) -> tf.Tensor:
    each = zip(*map(tf.unstack, (masks_NBHW, masked_NM6[..., 1], masked_NM6[..., 2:])))
    wanted_NMSS, used_NM = tf.stack([cut(*one, masks_NMSS.shape[2]) for one in each]), masked_NM6[..., 0]
    unlikely = tf.nn.sigmoid_cross_entropy_with_logits(labels=wanted_NMSS, logits=single(masks_NMSS))
    of_masks = tf.reduce_sum(tf.reduce_mean(unlikely, axis=(2, 3)) * used_NM)
    return of_masks / tf.maximum(tf.reduce_sum(used_NM), 1.0)
