"""ResNet-50 v1.5 in plain TensorFlow operations, with PyTorch's paddings, statistics and names.

Dimensions: N images of a batch, H height, W width, C channels, K classes, F features before the last layer.
"""

import collections

import numpy
import tensorflow as tf

from suites.datasets import images
from suites.models.resnet_50 import architecture

# In all frameworks: share of the new batch in the running statistics, and the term that avoids a division by zero.
NORM_MOMENTUM = 0.1
NORM_EPSILON = 1e-5


def to_layout(name, value):
    """Return an array of ``architecture.shapes`` (OIHW, KF) in TensorFlow's layout (HWIO, FK)."""
    if value.ndim == 4:
        return numpy.ascontiguousarray(value.transpose(2, 3, 1, 0))
    return numpy.ascontiguousarray(value.T) if name == "fc.weight" else value


def from_layout(name, value):
    """The reverse of ``to_layout``."""
    if value.ndim == 4:
        return value.transpose(3, 2, 0, 1)
    return value.T if name == "fc.weight" else value


class ResNet(tf.Module):
    """The network of a size (a table of ``[sizes]`` in ``model.toml``), beginning with ``weights`` {name: array}."""

    def __init__(self, size, weights):
        super().__init__()
        self._blocks = list(architecture.blocks(size))
        self.weights = collections.OrderedDict()
        for name in architecture.shapes(size):
            self.weights[name] = tf.Variable(to_layout(name, weights[name]), name=name)
        self.statistics = {}
        for convolution in architecture.convolutions(size):
            mean, variance = numpy.zeros(convolution.outputs), numpy.ones(convolution.outputs)
            self.statistics[convolution.norm] = (_statistic(mean), _statistic(variance))

    def __call__(self, images_NHWC):
        x_NHWC = _relu("relu", self._convolve("conv1", "bn1", images_NHWC, 7, 2))
        with tf.name_scope("maxpool"):
            # Padded explicitly: "SAME" would pad even sides at the right and bottom only.
            x_NHWC = tf.nn.max_pool2d(x_NHWC, 3, 2, padding=_padding(3))
        for name, inputs, width, stride in self._blocks:
            x_NHWC = self._block(name, x_NHWC, stride, stride == 2 or inputs != width * architecture.EXPANSION)
        with tf.name_scope("avgpool"):
            x_NF = tf.reduce_mean(x_NHWC, axis=(1, 2))
        with tf.name_scope("fc"):
            return tf.matmul(x_NF, self.weights["fc.weight"]) + self.weights["fc.bias"]

    def _block(self, name, x_NHWC, stride, projected):
        shortcut_NHWC = x_NHWC
        if projected:
            shortcut_NHWC = self._convolve(name + ".downsample.0", name + ".downsample.1", x_NHWC, 1, stride)
        x_NHWC = _relu(name + ".relu1", self._convolve(name + ".conv1", name + ".bn1", x_NHWC, 1, 1))
        x_NHWC = _relu(name + ".relu2", self._convolve(name + ".conv2", name + ".bn2", x_NHWC, 3, stride))
        x_NHWC = self._convolve(name + ".conv3", name + ".bn3", x_NHWC, 1, 1)
        with tf.name_scope(name + ".add"):
            x_NHWC = x_NHWC + shortcut_NHWC
        return _relu(name + ".relu3", x_NHWC)

    def _convolve(self, name, norm, x_NHWC, kernel, stride):
        """A convolution without bias and the batch normalisation that follows it."""
        with tf.name_scope(name):
            x_NHWC = tf.nn.conv2d(x_NHWC, self.weights[name + ".weight"], stride, _padding(kernel))
        with tf.name_scope(norm):
            return self._normalize(norm, x_NHWC)

    def _normalize(self, norm, x_NHWC):
        scale, offset = self.weights[norm + ".weight"], self.weights[norm + ".bias"]
        y_NHWC, mean, variance = tf.compat.v1.nn.fused_batch_norm(x_NHWC, scale, offset, epsilon=NORM_EPSILON)
        for statistic, value in zip(self.statistics[norm], (mean, variance)):
            statistic.assign_add(NORM_MOMENTUM * (value - statistic))
        return y_NHWC


def _relu(name, x_NHWC):
    with tf.name_scope(name):
        return tf.nn.relu(x_NHWC)


def _statistic(value):
    """A running statistic, each rank's own: it has no part in training, and is not exchanged."""
    return tf.Variable(
        value.astype(numpy.float32),
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def _padding(kernel):
    """Symmetric, as PyTorch pads; a list even where it is zero, since "SAME" depends on the stride."""
    side = [kernel // 2, kernel // 2]
    return [[0, 0], side, side, [0, 0]]


class Model(object):
    """What the adapter trains: a network's variables, its loss, the batches of a rank and its optimiser's numbers."""

    def __init__(self, network, batches, optimizer):
        self.network = network
        self.variables = list(network.weights.values())
        self.batches = batches
        self.optimizer = optimizer

    def loss(self, batch):
        """Return the mean cross entropy of a batch (images_NHWC, labels_N); updates the running statistics."""
        images_NHWC, labels_N = batch
        logits_NK = self.network(images_NHWC)
        with tf.name_scope("loss"):
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels_N, logits=logits_NK))


def build(job, process):
    """Return the ``Model``, with the initial weights of the plan's seed."""
    size = job["model"]["sizes"][job["plan"]["size"]]
    network = ResNet(size, architecture.initial_weights(size, job["plan"]["seed"]))

    def batches(rank):
        return images.batches(job, rank, size, "tensorflow")

    return Model(network, batches, architecture.optimizer(job))
