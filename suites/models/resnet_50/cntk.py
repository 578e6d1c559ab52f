"""ResNet-50 v1.5 in CNTK's operations, with PyTorch's paddings, statistics and names.

Dimensions: N images of a batch (CNTK keeps that axis to itself), C channels, H height, W width, K classes, F features
before the last layer.
"""

import collections
import math

import cntk
import numpy

from suites.datasets import images
from suites.models.resnet_50 import architecture
from workers.trainer.failure import TrainerError

# All frameworks alike: share of the new batch in the running statistics, and the term that avoids a division by zero.
NORM_MOMENTUM = 0.1
NORM_EPSILON = 1e-5


class ResNet(object):
    """The network of a size (a table of ``[sizes]``), beginning with ``weights`` {name: array}.

    ``parameters`` {name: trainable} and ``statistics`` {norm: (mean, variance)} are CNTK's own objects.

    Args:
        count: images of a batch: CNTK counts the time of running statistics in samples.
    """

    def __init__(self, size, weights, count):
        self._blocks = list(architecture.blocks(size))
        self._samples = -count / math.log(1.0 - NORM_MOMENTUM)
        self.parameters = collections.OrderedDict()
        for name in architecture.shapes(size):
            self.parameters[name] = cntk.parameter(init=to_layout(name, weights[name]), name=name)
        self.statistics = {}

    def __call__(self, images_CHW):
        """Return the node logits_K of the input node ``images_CHW``."""
        x_CHW = cntk.relu(self._convolve("conv1", "bn1", images_CHW, 7, 2))
        x_CHW = cntk.pooling(x_CHW, cntk.MAX_POOLING, (3, 3), (2, 2), auto_padding=[False, True, True])
        for name, inputs, width, stride in self._blocks:
            x_CHW = self._block(name, x_CHW, stride, stride == 2 or inputs != width * architecture.EXPANSION)
        x_F = cntk.reshape(cntk.reduce_mean(x_CHW, axis=(1, 2)), (-1,))
        return cntk.times(x_F, self.parameters["fc.weight"]) + self.parameters["fc.bias"]

    def _block(self, name, x_CHW, stride, projected):
        shortcut_CHW = x_CHW
        if projected:
            shortcut_CHW = self._convolve(name + ".downsample.0", name + ".downsample.1", x_CHW, 1, stride)
        x_CHW = cntk.relu(self._convolve(name + ".conv1", name + ".bn1", x_CHW, 1, 1))
        x_CHW = cntk.relu(self._convolve(name + ".conv2", name + ".bn2", x_CHW, 3, stride))
        return cntk.relu(self._convolve(name + ".conv3", name + ".bn3", x_CHW, 1, 1) + shortcut_CHW)

    def _convolve(self, name, norm, x_CHW, kernel, stride):
        """A convolution without bias and the batch normalisation that follows it.

        CNTK's automatic padding puts the kernel's middle on the first pixel: that is PyTorch's symmetric padding, for
        odd kernels and strides up to 2.
        """
        padded = kernel > 1
        x_CHW = cntk.convolution(
            self.parameters[name + ".weight"], x_CHW, (stride, stride), auto_padding=[False, padded, padded], name=name
        )
        return self._normalize(norm, x_CHW)

    def _normalize(self, norm, x_CHW):
        scale, offset = self.parameters[norm + ".weight"], self.parameters[norm + ".bias"]
        mean, variance = cntk.constant(0.0, scale.shape), cntk.constant(1.0, scale.shape)
        self.statistics[norm] = (mean, variance)
        return cntk.batch_normalization(
            x_CHW,
            scale,
            offset,
            mean,
            variance,
            spatial=True,
            normalization_time_constant=self._samples,
            epsilon=NORM_EPSILON,
            use_cudnn_engine=True,
            # As if a sample had been seen: at 0 the first batch would replace the initial statistics.
            running_count=cntk.constant(1.0, ()),
        )


def to_layout(name, value):
    """Return an array of ``architecture.shapes`` (OIHW, KF) in CNTK's layout (OIHW, FK)."""
    return numpy.ascontiguousarray(value.T) if name == "fc.weight" else value


def from_layout(name, value):
    """The reverse of ``to_layout``."""
    return value.T if name == "fc.weight" else value


class Model(object):
    """What the adapter trains: a criterion over arguments, parameters, batches of a rank, an optimiser's numbers."""

    def __init__(self, size, network, batches, optimizer):
        pixels = size["image_pixels"]
        self.network = network
        self.arguments = (cntk.input_variable((3, pixels, pixels)), cntk.input_variable(()))
        images_CHW, label = self.arguments
        label_K = cntk.one_hot(label, size["classes"])
        self.criterion = cntk.cross_entropy_with_softmax(network(images_CHW), label_K)
        self.parameters = list(network.parameters.values())
        self.batches = batches
        self.optimizer = optimizer


def check(size):
    """Refuse a size that CNTK cannot compute: it wants no kernel larger than its input, whatever the padding.

    Raises:
        TrainerError: ``unsupported``, with the first convolution that is too large.
    """
    for c in architecture.convolutions(size):
        if c.kernel > c.pixels * c.stride:
            raise TrainerError(
                "unsupported",
                "CNTK has no convolution whose kernel is larger than its input, and %s is %d x %d on %d x %d pixels:"
                " images of 96 x 96 pixels are large enough" % (c.name, c.kernel, c.kernel, c.pixels, c.pixels),
            )


def build(job, process):
    """Return the ``Model``, with the initial weights of the plan's seed.

    Raises:
        TrainerError: ``unsupported``, the images are too small for this framework.
    """
    size = job["model"]["sizes"][job["plan"]["size"]]
    check(size)
    weights = architecture.initial_weights(size, job["plan"]["seed"])
    network = ResNet(size, weights, job["plan"]["per_device_batch_size"])

    def batches(rank):
        return images.batches(job, rank, size, "cntk")

    return Model(size, network, batches, architecture.optimizer(job))
