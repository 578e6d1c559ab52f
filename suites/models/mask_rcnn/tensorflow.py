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
        of_masks, count = regions.given(*given[:2]), size["regions"] // network.MASKED
        if layer.trains:
            of_masks = regions.masked(found_NR4[:, :count], told_NR6[:, :count, 1], which_NR[:, :count], given[0])
        x_RSSC = regions.aligned(maps[:-1], found_NR4, network.SIDE, size["canonical"])
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


def _masks(layer, size, parts, maps, found_NM4, kinds_NM):
    with scope("mask.regions"):
        x_MHWC = regions.aligned(maps[:-1], found_NM4, network.MASK_SIDE, size["canonical"])
    *convolutions, told = (one.name for one in parts.masks)
    for number, name in enumerate(convolutions):
        x_MHWC = relu("mask.relu%d" % number, layer(name, x_MHWC))
    x_MHWK = layer(told, x_MHWC)
    with scope("mask.own"):
        own_M = tf.reshape(tf.cast(kinds_NM, tf.int32), (-1,))
        own_MHW = tf.gather(tf.transpose(x_MHWK, (0, 3, 1, 2)), own_M, axis=1, batch_dims=1)
        return tf.reshape(own_MHW, (*kinds_NM.shape, *own_MHW.shape[1:]))


def criterion(outputs: Any, masks_NBHW: tf.Tensor, *anchors: tf.Tensor) -> tf.Tensor:
    """See ``pytorch.criterion``; ``anchors``: anchors_NS, answers_NS, shifts_NS4."""
    classes_NRK, moves_NRK4, _, told_NR6, objects_NA, moves_NA4, masks_NMSS, masked_NM6 = outputs
    with scope("loss"):
        objects_NA2 = tf.stack([tf.zeros_like(objects_NA), objects_NA], axis=2)
        found = loss_of_anchors(objects_NA2, moves_NA4, *anchors, network.TURNS[0])
        found += loss_of_regions(classes_NRK, moves_NRK4, told_NR6, network.TURNS[1])
        return found + regions.loss_of_masks(masks_NMSS, masks_NBHW, masked_NM6)
