"""Faster R-CNN of GluonCV (https://pypi.org/project/gluoncv) with the weights of the suite's, in MXNet.

Its ResNet, its heads and MXNet's operator that it aligns regions by. Which regions there are, what is drawn of them and
by which anchors is the suite's: the two would draw differently. Of the two numbers that the suite tells of an anchor it
has the difference alone, and it has no moves of what is no object. It takes an image a step.
"""

import re
import sys
from importlib.util import find_spec
from types import ModuleType

import mxnet as mx
from mxnet.gluon import nn

from suites.assemble import boxes
from suites.assemble.mxnet import build
from suites.models.faster_rcnn import mxnet as suite
from suites.models.faster_rcnn import network

# Of its normalisations, whose statistics are such that they change nothing; a power of two, so that they do exactly.
EPSILON = 2.0**-10
# What a part is called there, by the beginning of its names in the suite.
NAMES = {
    r"^conv1\.": "features.0.",
    r"^bn1\.": "features.1.",
    r"^layer1\.": "features.4.",
    r"^layer2\.": "features.5.",
    r"^layer3\.": "features.6.",
    r"^layer4\.": "top_features.0.",
    r"^rpn\.conv\.": "hidden.0.",
    r"^rpn\.objects\.": "score.",
    r"^rpn\.moves\.": "loc.",
    r"^head\.classes\.": "class_predictor.",
    r"^head\.moves\.": "box_predictor.",
}


class Network(suite.Network):
    """What the suite's network gives, by GluonCV's self."""

    def __init__(self, size, published):
        super(suite.Network, self).__init__()  # without the suite's layers
        self._size, self.anchors = size, suite._Anchors(size)
        self.features, self.top_features = published.features, published.top_features
        self.hidden, self.score, self.loc = published.rpn.conv1, published.rpn.score, published.rpn.loc
        self.class_predictor, self.box_predictor = published.class_predictor, published.box_predictor

    def outputs(self, F, images_NCHW, extents_N2, *given):
        x_NCHW = self.features(images_NCHW)
        hidden_NCHW = self.hidden(x_NCHW)
        some_NA1, moves_NA4 = (
            F.reshape(F.transpose(layer(hidden_NCHW), axes=(0, 2, 3, 1)), shape=(0, -1, count))
            for layer, count in ((self.score, 1), (self.loc, 4))
        )
        objects_NA2 = F.concat(F.zeros_like(some_NA1), some_NA1, dim=2)
        told = (F.stop_gradient(one) for one in (objects_NA2, moves_NA4))
        found_NR4, learnt_NR6 = self._regions(F, self.anchors(x_NCHW, moves_NA4), *told, extents_N2, *given)
        image_NR1 = F.zeros_like(F.slice_axis(found_NR4, axis=2, begin=0, end=1))
        found_R5 = F.reshape(F.concat(image_NR1, found_NR4, dim=2), shape=(-3, 0))
        sides = (network.SIDE, network.SIDE)
        y_RCHW = F.contrib.ROIAlign(x_NCHW, found_R5, sides, 1.0 / boxes.STRIDE, sample_ratio=2, aligned=True)
        y_RF = F.contrib.AdaptiveAvgPooling2D(self.top_features(y_RCHW), output_size=1)
        classes_NRK, moves_NRK = (
            F.expand_dims(one(y_RF), axis=0) for one in (self.class_predictor, self.box_predictor)
        )
        moves_NRK4 = F.reshape(moves_NRK, shape=(0, 0, -4, -1, 4))
        none_NR14 = F.zeros_like(F.slice_axis(moves_NRK4, axis=2, begin=0, end=1))
        return classes_NRK, F.concat(none_NR14, moves_NRK4, dim=2), found_NR4, learnt_NR6, objects_NA2, moves_NA4


def make(name, ours, job):
    """Return GluonCV's network ``name`` with the weights of the model ``ours``, and those of its parameters that are
    trained.

    Raises:
        KeyError, RuntimeError: it has other parameters.
    """
    size = job.model.size
    found = Network(size, _published(name, size))
    found.initialize(ctx=mx.cpu(0))
    theirs, trained = found._collect_params_with_prefix(), []
    for own, one in build.named(ours.network).items():
        if isinstance(one, mx.gluon.Constant):
            continue
        other = theirs.pop(_name(own))
        other.grad_req = one.grad_req
        other.set_data(_laid_out(own, one.data()))
        trained += [other] if other.grad_req != "null" else []
    if left := [rest for rest, one in theirs.items() if one.grad_req != "null"]:
        raise RuntimeError(f"GluonCV's {name} has other parameters: {left}")
    for rest, one in theirs.items():
        if rest.endswith("running_mean"):
            one.set_data(mx.nd.zeros(one.shape))
        if rest.endswith("running_var"):
            one.set_data(mx.nd.full(one.shape, 1.0 - EPSILON))
    found.hybridize(static_alloc=True, static_shape=True)
    return found, trained


def _name(ours):
    for begin, theirs in NAMES.items():
        ours = re.sub(begin, theirs, ours)
    if re.search(r"(bn\d|features\.1|downsample\.1)\.\w+$", ours):
        ours = ours.replace(".weight", ".gamma").replace(".bias", ".beta")
    return ours


def _laid_out(ours, value):
    if ours.startswith("rpn.objects."):
        return value[1::2] - value[0::2]
    return value[4:] if ours.startswith("head.moves.") else value


def _published(name, size):
    # The packages above its networks import all that there is, its readers of files and what draws, which need more
    # than is installed.
    (root,) = find_spec("gluoncv").submodule_search_locations
    for package, folder in (("gluoncv", root), ("gluoncv.model_zoo", root + "/model_zoo")):
        sys.modules[package] = ModuleType(package)
        sys.modules[package].__path__ = [folder]
    from gluoncv.model_zoo.rcnn.faster_rcnn import faster_rcnn
    from gluoncv.model_zoo.resnetv1b import BottleneckV1b, ResNetV1b

    body = ResNetV1b(BottleneckV1b, size["blocks"], use_global_stats=True, norm_kwargs={"epsilon": EPSILON})
    features, top = nn.HybridSequential(), nn.HybridSequential()
    features.add(body.conv1, body.bn1, body.relu, body.maxpool, body.layer1, body.layer2, body.layer3)
    top.add(body.layer4)
    classes = [str(number) for number in range(1, size["classes"])]
    scales = tuple(side / boxes.STRIDE for side in size["anchor_sides"])
    return getattr(faster_rcnn, name)(
        features, top, classes, rpn_channel=size["hidden"], scales=scales, ratios=boxes.RATIOS, strides=boxes.STRIDE
    )
