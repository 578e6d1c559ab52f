"""Faster R-CNN in MXNet's Gluon. Dimensions: N images of a batch, C channels, H height, W width, A anchors, B boxes, R
regions, K classes with 0 for none, S anchors that are learnt from."""

from typing import Any, Tuple

import mxnet as mx
from mxnet.gluon import nn

from suites.assemble import boxes
from suites.assemble.mxnet import regions
from suites.assemble.mxnet.functions import single
from suites.assemble.mxnet.layers import Bucketed, alike, attach
from suites.inputs.boxed_images import BOXES
from suites.models.faster_rcnn import network
from suites.quality.mean_average_precision import DEVIATIONS
from workers.trainer.base.signatures import Size


class _Anchors(nn.HybridBlock):
    """Those of a map, (N, A, 4)."""

    def __init__(self, size):
        super(_Anchors, self).__init__()
        # Of a square map: lying and upright ones are its beginning.
        places = boxes.places(max(size["image_pixels"]))
        found_1HWK = boxes.anchors(places, places, size["anchor_sides"]).reshape(1, places, places, -1)
        self.table = self.params.get_constant("table", found_1HWK.transpose(0, 3, 1, 2))

    def hybrid_forward(self, F, x_NCHW, like_NA4, table):
        found_1HWK = F.transpose(alike(F, table, x_NCHW, 2, 3), axes=(0, 2, 3, 1))
        return F.broadcast_like(F.reshape(found_1HWK, shape=(0, -1, 4)), like_NA4)


class Network(Bucketed):
    """See ``pytorch.Network``: lying and upright images each have a graph of their own, bound once."""

    def __init__(self, size: Size) -> None:
        super(Network, self).__init__()
        self._layer = attach(self, network.layers(size))
        self._parts, self._size = network.parts(size), size
        self.anchors = _Anchors(size)

    def hybrid_forward(self, F: Any, *batch: Any) -> Any:
        return self.criterion(F, self.outputs(F, *batch[:5]), *batch[5:])

    def outputs(self, F: Any, images_NCHW: Any, extents_N2: Any, *given: Any) -> Tuple[Any, ...]:
        """``given``: boxes_NB4, kinds_NB, keys_NK."""
        layer = self._layer
        x_NCHW = layer["maxpool"](F.relu(layer["bn1"](layer["conv1"](images_NCHW))))
        for block in self._parts.shared:
            x_NCHW = self._block(F, block, x_NCHW)
        hidden_NCHW = F.relu(layer["rpn.conv"](x_NCHW))
        objects_NA2, moves_NA4 = (
            F.reshape(F.transpose(single(F, layer[name](hidden_NCHW)), axes=(0, 2, 3, 1)), shape=(0, -1, last))
            for name, last in (("rpn.objects", 2), ("rpn.moves", 4))
        )
        told = (F.stop_gradient(one) for one in (objects_NA2, moves_NA4))
        found_NR4, learnt_NR6 = self._regions(F, self.anchors(x_NCHW, moves_NA4), *told, extents_N2, *given)
        y_RCHW = regions.align(F, single(F, x_NCHW), found_NR4, network.SIDE)
        for block in self._parts.inner:
            y_RCHW = self._block(F, block, y_RCHW)
        y_RF = F.mean(y_RCHW, axis=(2, 3))
        classes_NRK, moves_NRK = (
            F.reshape_like(single(F, layer[name](y_RF)), found_NR4, lhs_begin=0, lhs_end=1, rhs_begin=0, rhs_end=2)
            for name in ("head.classes", "head.moves")
        )
        moves_NRK4 = F.reshape(moves_NRK, shape=(0, 0, -4, -1, 4))
        return classes_NRK, moves_NRK4, found_NR4, learnt_NR6, objects_NA2, moves_NA4

    def _block(self, F, block, x_NCHW):
        conv1, bn1, conv2, bn2, conv3, bn3 = (self._layer[one.name] for one in block[1:-1])
        shortcut_NCHW = x_NCHW
        for one in block.shortcut or ():
            shortcut_NCHW = self._layer[one.name](shortcut_NCHW)
        x_NCHW = F.relu(bn2(conv2(F.relu(bn1(conv1(x_NCHW))))))
        return F.relu(bn3(conv3(x_NCHW)) + shortcut_NCHW)

    def _regions(self, F, anchors_NA4, objects_NA2, moves_NA4, extents_N2, boxes_NB4, kinds_NB, keys_NK):
        """Return the regions of each image, and what is learnt of each."""
        trains = mx.autograd.is_training()
        most = [self._size[name][0 if trains else 1] for name in ("candidates", "proposals")]
        moved_NA4 = regions.clipped(F, regions.moved(F, anchors_NA4, moves_NA4), extents_N2)
        none_NA, some_NA = F.split(objects_NA2, 2, axis=2, squeeze_axis=True)
        numbers_NR, there_NR = regions.proposals(F, some_NA - none_NA, moved_NA4, *most, network.MOST_OVERLAP)
        found_NR4, kinds_NB = regions.gathered(F, moved_NA4, numbers_NR), single(F, kinds_NB)
        if trains:
            found_NR4 = F.concat(found_NR4, boxes_NB4, dim=1)
            there_NR = F.concat(there_NR, kinds_NB > 0, dim=1)
        shared_NRB = F.broadcast_mul(regions.overlaps(F, found_NR4, boxes_NB4), F.expand_dims(kinds_NB > 0, axis=1))
        if trains:
            of_boxes_NB = F.slice_axis(keys_NK, axis=1, begin=-BOXES, end=None)
            keys_NR = F.concat(regions.gathered(F, keys_NK, numbers_NR), of_boxes_NB, dim=1)
            shared_NR = F.max(shared_NRB, axis=2)
            drawn_NR, there_NR = regions.drawn(F, shared_NR, there_NR, keys_NR, self._size["regions"], network.TELLS)
            found_NR4, shared_NRB = (regions.gathered(F, one, drawn_NR) for one in (found_NR4, shared_NRB))
        which_NR, tells_NR = F.argmax(shared_NRB, axis=2), F.max(shared_NRB, axis=2) >= network.TELLS
        kinds_NR1 = F.expand_dims(regions.gathered(F, kinds_NB, which_NR) * tells_NR, axis=2)
        moves = F.split(regions.shifts(F, regions.gathered(F, boxes_NB4, which_NR), found_NR4), 4, axis=2)
        moves_NR4 = F.concat(*(one / deviation for one, deviation in zip(moves, DEVIATIONS)), dim=2)
        learnt = F.expand_dims(there_NR, axis=2), kinds_NR1, F.broadcast_mul(moves_NR4, kinds_NR1 > 0)
        return F.stop_gradient(found_NR4), F.stop_gradient(F.concat(*learnt, dim=2))

    def criterion(self, F: Any, outputs: Any, anchors_NS: Any, answers_NS: Any, shifts_NS4: Any) -> Any:
        """See ``pytorch.criterion``."""
        classes_NRK, moves_NRK4, _, learnt_NR6, objects_NA2, moves_NA4 = outputs
        numbers_NS, answers_NS = single(F, anchors_NS), single(F, answers_NS)
        objects_NS2, moves_NS4 = (regions.gathered(F, one, numbers_NS) for one in (objects_NA2, moves_NA4))
        used_NR1, kinds_NR1, wanted_NR4 = F.split_v2(learnt_NR6, (1, 2), axis=2)
        used_NR, kinds_NR = (F.squeeze(one, axis=2) for one in (used_NR1, kinds_NR1))
        own_NR4 = F.pick(moves_NRK4, F.broadcast_like(kinds_NR1, wanted_NR4), axis=2)
        used_NS, turns = answers_NS >= 0, network.TURNS
        first = _loss(F, objects_NS2, F.relu(answers_NS), moves_NS4, shifts_NS4, used_NS, turns[0])
        return first + _loss(F, classes_NRK, kinds_NR, own_NR4, wanted_NR4, used_NR, turns[1])


def _loss(F, logits, kinds, moves, wanted, used, turn):
    unlikely = -F.pick(F.log_softmax(logits, axis=-1), kinds, axis=-1)
    off = F.sum(F.smooth_l1(moves - wanted, scalar=turn**-0.5), axis=2) * (kinds > 0)
    return F.sum((unlikely + off) * used) / F.maximum(F.sum(used), 1.0)
