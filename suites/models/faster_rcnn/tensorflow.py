"""Faster R-CNN in TensorFlow. Dimensions: N images of a batch, H height, W width, C channels, A anchors, B boxes, R
regions, K classes with 0 for none, S anchors that are learnt from."""

from typing import Any, Optional, Tuple

import tensorflow as tf

from suites.assemble import boxes
from suites.assemble.tensorflow import regions
from suites.assemble.tensorflow.functions import relu, scope, single
from suites.models.faster_rcnn import network
from suites.models.resnet_50.tensorflow import bottleneck
from suites.quality.mean_average_precision import DEVIATIONS
from workers.trainer.base.signatures import Size


def outputs(layer: Any, size: Size, images_NHWC: tf.Tensor, extents_N2: tf.Tensor, *given: tf.Tensor) -> Any:
    """See ``pytorch.Network``; ``given``: boxes_NB4, kinds_NB, keys_NK."""
    parts, count = network.parts(size), images_NHWC.shape[0]
    x_NHWC = layer("maxpool", relu("relu", layer("bn1", layer("conv1", images_NHWC))))
    for block in parts.shared:
        x_NHWC = bottleneck(layer, block, x_NHWC)
    hidden_NHWC = relu("rpn.relu", layer("rpn.conv", x_NHWC))
    objects_NHWK, moves_NHWK = layer("rpn.objects", hidden_NHWC), layer("rpn.moves", hidden_NHWC)
    with scope("regions"):
        objects_NA2, moves_NA4 = (
            single(tf.reshape(one, (count, -1, last))) for one, last in ((objects_NHWK, 2), (moves_NHWK, 4))
        )
        anchors_A4 = tf.constant(boxes.anchors(*x_NHWC.shape[1:3], size["anchor_sides"]))
        scores_NA = tf.stop_gradient(objects_NA2[..., 1] - objects_NA2[..., 0])
        each = zip(*map(tf.unstack, (scores_NA, tf.stop_gradient(moves_NA4), extents_N2) + given))
        found, learnt = zip(*(_regions(layer.trains, size, anchors_A4, *one) for one in each))
        y_RHWC = tf.concat([regions.align(*one, network.SIDE) for one in zip(tf.unstack(x_NHWC), found)], axis=0)
    for block in parts.inner:
        y_RHWC = bottleneck(layer, block, y_RHWC)
    with scope("avgpool"):
        y_RF = tf.reduce_mean(y_RHWC, axis=(1, 2))
    classes_RK, moves_RK = layer("head.classes", y_RF), layer("head.moves", y_RF)
    with scope("told"):
        classes_NRK = tf.reshape(classes_RK, (count, -1, size["classes"]))
        moves_NRK4 = tf.reshape(moves_RK, (count, -1, size["classes"], 4))
        return classes_NRK, moves_NRK4, tf.stack(found), tf.stack(learnt), objects_NA2, moves_NA4


def _regions(trains, size, anchors_A4, scores_A, moves_A4, extent_2, boxes_B4, kinds_B, keys_K):
    """Return an image's regions, and what is learnt of each."""
    moved_A4 = regions.clipped(regions.moved(anchors_A4, moves_A4), extent_2)
    most = [size[name][0 if trains else 1] for name in ("candidates", "proposals")]
    numbers_R, there_R = regions.proposals(scores_A, moved_A4, *most, network.MOST_OVERLAP)
    drawn = (size["regions"], tf.gather(keys_K, numbers_R), keys_K[anchors_A4.shape[0] :]) if trains else None
    return learnt(tf.gather(moved_A4, numbers_R), there_R, boxes_B4, kinds_B, drawn)[:2]


def learnt(
    found_R4: tf.Tensor, there_R: tf.Tensor, boxes_B4: tf.Tensor, kinds_B: tf.Tensor, drawn: Optional[Tuple[Any, ...]]
) -> Tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """See ``pytorch.learnt``."""
    kinds_B = single(kinds_B)
    if drawn:
        found_R4, there_R = tf.concat([found_R4, boxes_B4], 0), tf.concat([there_R, single(kinds_B > 0)], 0)
    shared_RB = regions.overlaps(found_R4, boxes_B4) * single(kinds_B > 0)
    if drawn:
        shared_R, keys_R = tf.reduce_max(shared_RB, axis=1), tf.concat(drawn[1:], 0)
        drawn_R, there_R = regions.drawn(shared_R, there_R, keys_R, drawn[0], network.TELLS)
        found_R4, shared_RB = tf.gather(found_R4, drawn_R), tf.gather(shared_RB, drawn_R)
    which_R, tells_R = tf.argmax(shared_RB, axis=1), tf.reduce_max(shared_RB, axis=1) >= network.TELLS
    kinds_R1 = (tf.gather(kinds_B, which_R) * single(tells_R))[:, None]
    moves_R4 = regions.shifts(tf.gather(boxes_B4, which_R), found_R4) / tf.constant(DEVIATIONS)
    return found_R4, tf.concat([there_R[:, None], kinds_R1, moves_R4 * single(kinds_R1 > 0)], axis=1), which_R


def criterion(outputs: Any, anchors_NS: tf.Tensor, answers_NS: tf.Tensor, shifts_NS4: tf.Tensor) -> tf.Tensor:
    """See ``pytorch.criterion``."""
    classes_NRK, moves_NRK4, _, learnt_NR6, objects_NA2, moves_NA4 = outputs
    with scope("loss"):
        told = anchors_NS, answers_NS, shifts_NS4
        first = loss_of_anchors(objects_NA2, moves_NA4, *told, network.TURNS[0])
        return first + loss_of_regions(classes_NRK, moves_NRK4, learnt_NR6, network.TURNS[1])


def loss_of_anchors(
    objects_NA2: tf.Tensor,
    moves_NA4: tf.Tensor,
    anchors_NS: tf.Tensor,
    answers_NS: tf.Tensor,
    shifts_NS4: tf.Tensor,
    turn: float,
) -> tf.Tensor:
    objects_NS2, moves_NS4 = (tf.gather(x, anchors_NS, batch_dims=1) for x in (objects_NA2, moves_NA4))
    return _loss(objects_NS2, tf.maximum(answers_NS, 0), moves_NS4, shifts_NS4, answers_NS >= 0, turn)


def loss_of_regions(classes_NRK: tf.Tensor, moves_NRK4: tf.Tensor, learnt_NR6: tf.Tensor, turn: float) -> tf.Tensor:
    kinds_NR = tf.cast(learnt_NR6[..., 1], tf.int64)
    own_NR4 = tf.gather(moves_NRK4, kinds_NR, batch_dims=2)
    return _loss(classes_NRK, kinds_NR, own_NR4, learnt_NR6[..., 2:], learnt_NR6[..., 0] > 0, turn)


def _loss(logits, kinds, moves, wanted, used, turn):
    unlikely = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=kinds, logits=single(logits))
    far = tf.abs(single(moves) - wanted)
    off = tf.reduce_sum(tf.where(far < turn, far * far * (0.5 / turn), far - 0.5 * turn), axis=-1)
    losses = (unlikely + off * single(kinds > 0)) * single(used)
    return tf.reduce_sum(losses) / tf.maximum(tf.reduce_sum(single(used)), 1.0)
