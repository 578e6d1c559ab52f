"""ResNet-50 v1.5 in MXNet's Gluon.

Dimensions: N images of a batch, C channels, H height, W width, K classes, F features before the last layer.
"""

import mxnet as mx
from mxnet.gluon import nn

from suites.datasets import images
from suites.models.resnet_50 import architecture

# As in the other frameworks: the share of the new batch in the running statistics is 0.1, MXNet's momentum is the rest.
NORM_MOMENTUM = 0.9
NORM_EPSILON = 1e-5

# Gluon's names of a normalisation's trainable parameters, in ``architecture.shapes``.
NAMES = {"gamma": "weight", "beta": "bias"}


def convolution(inputs, outputs, kernel, stride):
    """A convolution without bias whose output has the input's side, divided by the stride."""
    return nn.Conv2D(outputs, kernel, strides=stride, padding=kernel // 2, use_bias=False, in_channels=inputs)


def normalization(channels):
    return nn.BatchNorm(momentum=NORM_MOMENTUM, epsilon=NORM_EPSILON, in_channels=channels)


class Bottleneck(nn.HybridBlock):
    """1 x 1 narrows, 3 x 3 (with the stride) works, 1 x 1 widens; the shortcut is added before the last ReLU."""

    def __init__(self, inputs, width, stride):
        super(Bottleneck, self).__init__()
        outputs = width * architecture.EXPANSION
        self.conv1 = convolution(inputs, width, 1, 1)
        self.bn1 = normalization(width)
        self.conv2 = convolution(width, width, 3, stride)
        self.bn2 = normalization(width)
        self.conv3 = convolution(width, outputs, 1, 1)
        self.bn3 = normalization(outputs)
        self.downsample = None
        if stride == 2 or inputs != outputs:
            self.downsample = nn.HybridSequential()
            self.downsample.add(convolution(inputs, outputs, 1, stride), normalization(outputs))

    def hybrid_forward(self, F, x_NCHW):
        shortcut_NCHW = x_NCHW if self.downsample is None else self.downsample(x_NCHW)
        x_NCHW = F.relu(self.bn1(self.conv1(x_NCHW)))
        x_NCHW = F.relu(self.bn2(self.conv2(x_NCHW)))
        return F.relu(self.bn3(self.conv3(x_NCHW)) + shortcut_NCHW)


class ResNet(nn.HybridBlock):
    """The network of a size (a table of ``[sizes]`` in ``model.toml``) with its loss: one graph for both."""

    def __init__(self, size):
        super(ResNet, self).__init__()
        self.conv1 = convolution(3, size["width"], 7, 2)
        self.bn1 = normalization(size["width"])
        self.maxpool = nn.MaxPool2D(3, strides=2, padding=1)
        stages = {}
        for name, inputs, width, stride in architecture.blocks(size):
            stage = name.split(".")[0]
            if stage not in stages:
                stages[stage] = nn.HybridSequential()
                setattr(self, stage, stages[stage])
            stages[stage].add(Bottleneck(inputs, width, stride))
        self.stages = list(stages)
        self.fc = nn.Dense(size["classes"], in_units=architecture.features(size))
        self.cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F, images_NCHW, labels_N):
        x_NCHW = self.maxpool(F.relu(self.bn1(self.conv1(images_NCHW))))
        for stage in self.stages:
            x_NCHW = getattr(self, stage)(x_NCHW)
        x_NF = F.mean(x_NCHW, axis=(2, 3))
        return F.mean(self.cross_entropy(self.fc(x_NF), labels_N))

    def named(self):
        """Return {name: parameter} with the names of ``architecture.shapes``, and of the running statistics."""
        found = {}
        for path, parameter in self._collect_params_with_prefix().items():
            prefix, _, last = path.rpartition(".")
            found[prefix + "." + NAMES.get(last, last)] = parameter
        return found

    def load(self, weights, contexts):
        """Take {name: array} of ``architecture.shapes`` as the trainable parameters, on all ``contexts``."""
        self.initialize(ctx=contexts)
        for name, parameter in self.named().items():
            # No more than one copy at a time.
            mx.nd.waitall()
            if parameter.grad_req != "null":
                parameter.set_data(mx.nd.array(weights[name]))


class Model(object):
    """What the adapter trains: trainable parameters, their loss, the batches of a rank and the optimiser's numbers."""

    def __init__(self, network, names, batches, optimizer):
        self.network = network
        named = network.named()
        self.parameters = [named[name] for name in names]
        self.batches = batches
        self.optimizer = optimizer

    def loss(self, batch):
        """Return the mean cross entropy of a batch (images_NCHW, labels_N) on the batch's device."""
        return self.network(*batch)


def build(job, contexts):
    """Return the ``Model`` on ``contexts``, with the initial weights of the plan's seed."""
    size = job["model"]["sizes"][job["plan"]["size"]]
    network = ResNet(size)
    network.load(architecture.initial_weights(size, job["plan"]["seed"]), contexts)
    network.hybridize(static_alloc=True, static_shape=True)

    def batches(rank):
        return images.batches(job, rank, size, "mxnet")

    return Model(network, architecture.shapes(size), batches, architecture.optimizer(job))
