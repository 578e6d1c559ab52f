"""Mask R-CNN in TensorFlow. Dimensions: N images of a batch, H height, W width, C channels, A anchors, P places of all
maps, B boxes, R regions, M regions with a mask, K classes with 0 for none, S anchors that are learnt from."""

from typing import Any

import tensorflow as tf

from suites.assemble import boxes
from suites.assemble.tensorflow import regions
from suites.assemble.tensorflow.functions import relu, scope, single
from suites.models.faster_rcnn.tensorflow import learnt, loss_of_anchors, loss_of_regions
from suites.models.mask_rcnn import network
from suites.models.resnet_50.tensorflow import bottleneck
from workers.trainer.base.signatures import Size


def outputs(layer: Any, size: Size, images_NHWC: tf.Tensor, extents_N2: tf.Tensor, *given: tf.Tensor) -> Any:
    """See ``pytorch.Network``; ``given``: boxes_NB4, kinds_NB, keys_NK."""
    parts, maps = network.parts(size), _pyramid(layer, network.parts(size), images_NHWC)
    objects_NA, moves_NA4 = _told(layer, maps)
    with scope("regions"):
        anchors = boxes.pyramid_anchors(images_NHWC.shape[1:3], size["anchor_sides"])
        each = zip(*map(tf.unstack, (tf.stop_gradient(objects_NA), tf.stop_gradient(moves_NA4), extents_N2) + given))
        found_NR4, told_NR6, which_NR = map(
            tf.stack, zip(*(_regions(layer.trains, size, anchors, *one) for one in each))
        )
        of_masks = _masked(found_NR4, told_NR6, which_NR, given[0]) if layer.trains else _given(*given[:2])
        x_RSSC = _aligned(size, maps, found_NR4, network.SIDE)
        # Numbers of a map are in the order of the other frameworks: channels first.
        x_RF = tf.reshape(tf.transpose(x_RSSC, (0, 3, 1, 2)), (x_RSSC.shape[0], -1))
    x_RF = relu("box.relu7", layer("box.fc7", relu("box.relu6", layer("box.fc6", x_RF))))
    classes_RK, moves_RK = layer("box.classes", x_RF), layer("box.moves", x_RF)
    with scope("told"):
        classes_NRK = tf.reshape(classes_RK, (*found_NR4.shape[:2], -1))
        moves_NRK4 = tf.reshape(moves_RK, (*found_NR4.shape[:2], -1, 4))
    masks_NMSS = _masks(layer, size, parts, maps, *of_masks[:2])
    return classes_NRK, moves_NRK4, found_NR4, told_NR6, objects_NA, moves_NA4, masks_NMSS, of_masks[2]


def _pyramid(layer, parts, images_NHWC):
    """Return the maps, that with most places first; the last has every other place of the one before."""
    x_NHWC, stages = layer("maxpool", relu("relu", layer("bn1", layer("conv1", images_NHWC)))), {}
    for block in parts.body:
        x_NHWC = stages[block.name[:6]] = bottleneck(layer, block, x_NHWC)
    maps, above_NHWC = [], None
    for stage, inner, outer in reversed(list(zip(stages.values(), parts.inner, parts.outer))):
        x_NHWC = layer(inner.name, stage)
        if above_NHWC is not None:
            with scope("fpn.add"):
                x_NHWC = x_NHWC + layer("fpn.up", above_NHWC)
        above_NHWC = x_NHWC
        maps.insert(0, layer(outer.name, above_NHWC))
    with scope("fpn.last"):
        return [*maps, maps[-1][:, ::2, ::2]]


def _told(layer, maps):
    """Return the score and the move of each anchor, map by map."""
    found = [layer("rpn.conv", map_NHWC) for map_NHWC in maps]
    with scope("rpn.places"):
        hidden_NPC = tf.concat([tf.reshape(one, (one.shape[0], -1, one.shape[3])) for one in found], axis=1)
    hidden_NP1C = relu("rpn.relu", hidden_NPC[:, :, None])
    objects, moves = layer("rpn.objects", hidden_NP1C), layer("rpn.moves", hidden_NP1C)
    with scope("rpn.places"):
        count = objects.shape[0]
        return single(tf.reshape(objects, (count, -1))), single(tf.reshape(moves, (count, -1, 4)))


def _regions(trains, size, anchors, scores_A, moves_A4, extent_2, boxes_B4, kinds_B, keys_K):
    """Return an image's regions, what is learnt of each, and the number of its box."""
    anchors_A4 = tf.concat([tf.constant(one) for one in anchors], axis=0)
    moved_A4 = regions.clipped(regions.moved(anchors_A4, moves_A4), extent_2)
    most = [size[name][0 if trains else 1] for name in ("candidates", "proposals")]
    levels = [len(one) for one in anchors]
    numbers_R, there_R = regions.proposals(scores_A, moved_A4, *most, network.MOST_OVERLAP, levels)
    drawn = (size["regions"], tf.gather(keys_K, numbers_R), keys_K[sum(levels) :]) if trains else None
    return learnt(tf.gather(moved_A4, numbers_R), there_R, boxes_B4, kinds_B, drawn)


def _aligned(size, maps, found_NR4, side):
    each = zip(*(tf.unstack(one) for one in maps[:-1]), tf.unstack(found_NR4))
    place = side, boxes.PYRAMID_STRIDE, size["canonical"]
    return tf.concat([regions.align_levels(one[:-1], one[-1], *place) for one in each], axis=0)


def _masks(layer, size, parts, maps, found_NM4, kinds_NM):
    with scope("mask.regions"):
        x_MHWC = _aligned(size, maps, found_NM4, network.MASK_SIDE)
    *convolutions, told = (one.name for one in parts.masks)
    for number, name in enumerate(convolutions):
        x_MHWC = relu("mask.relu%d" % number, layer(name, x_MHWC))
    x_MHWK = layer(told, x_MHWC)
    with scope("mask.own"):
        own_M = tf.reshape(tf.cast(kinds_NM, tf.int32), (-1,))
        own_MHW = tf.gather(tf.transpose(x_MHWK, (0, 3, 1, 2)), own_M, axis=1, batch_dims=1)
        return tf.reshape(own_MHW, (*kinds_NM.shape, *own_MHW.shape[1:]))


def _masked(found_NR4, told_NR6, which_NR, boxes_NB4):
    """See ``pytorch``."""
    count = found_NR4.shape[1] // network.MASKED
    found_NM4, kinds_NM, which_NM = found_NR4[:, :count], told_NR6[:, :count, 1], which_NR[:, :count]
    own_NM4 = tf.gather(boxes_NB4, which_NM, batch_dims=1)
    sides_NM2 = tf.maximum(own_NM4[..., 2:] - own_NM4[..., :2], 1.0)
    parts_NM4 = (found_NM4 - tf.tile(own_NM4[..., :2], (1, 1, 2))) / tf.tile(sides_NM2, (1, 1, 2))
    told_NM2 = tf.stack([single(kinds_NM > 0), single(which_NM)], axis=2)
    return found_NM4, kinds_NM, tf.concat([told_NM2, parts_NM4], axis=2)


def _given(boxes_NB4, kinds_NB):
    """See ``pytorch``."""
    which_NB = tf.zeros(kinds_NB.shape) + tf.range(float(kinds_NB.shape[1]))
    told_NB2 = tf.stack([single(kinds_NB > 0), which_NB], axis=2)
    parts_NB4 = tf.zeros(boxes_NB4.shape) + tf.constant([0.0, 0.0, 1.0, 1.0])
    return boxes_NB4, kinds_NB, tf.concat([told_NB2, parts_NB4], axis=2)


def criterion(outputs: Any, masks_NBHW: tf.Tensor, *anchors: tf.Tensor) -> tf.Tensor:
    """See ``pytorch.criterion``; ``anchors``: anchors_NS, answers_NS, shifts_NS4."""
    classes_NRK, moves_NRK4, _, told_NR6, objects_NA, moves_NA4, masks_NMSS, masked_NM6 = outputs
    with scope("loss"):
        objects_NA2 = tf.stack([tf.zeros_like(objects_NA), objects_NA], axis=2)
        found = loss_of_anchors(objects_NA2, moves_NA4, *anchors, network.TURNS[0])
        found += loss_of_regions(classes_NRK, moves_NRK4, told_NR6, network.TURNS[1])
        each = zip(*map(tf.unstack, (masks_NBHW, masked_NM6[..., 1], masked_NM6[..., 2:])))
        wanted_NMSS = tf.stack([regions.cut(*one, network.MASK) for one in each])
        unlikely = tf.nn.sigmoid_cross_entropy_with_logits(labels=wanted_NMSS, logits=single(masks_NMSS))
        used_NM = masked_NM6[..., 0]
        of_masks = tf.reduce_sum(tf.reduce_mean(unlikely, axis=(2, 3)) * used_NM)
        return found + of_masks / tf.maximum(tf.reduce_sum(used_NM), 1.0)
