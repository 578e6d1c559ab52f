"""One forward and backward pass in MXNet: ``python gradients_mxnet.py INPUT.npz SIZE.json OUTPUT.npz``."""

import json
import sys

import mxnet as mx
import numpy

from suites.datasets import synthetic_mxnet
from suites.models.resnet_50 import architecture
from suites.models.resnet_50.mxnet import NORM_MOMENTUM, Model, ResNet


def main(source, size_path, target):
    given = numpy.load(source)
    with open(size_path) as file:
        size = json.load(file)
    network = ResNet(size)
    network.load(given, [mx.cpu(0)])
    network.hybridize(static_alloc=True, static_shape=True)
    model = Model(network, architecture.shapes(size), None, None)
    with mx.autograd.record():
        loss = model.loss(synthetic_mxnet.batch(given["images"], given["labels"]))
    loss.backward()
    found = {}
    for name, parameter in network.named().items():
        trainable = parameter.grad_req != "null"
        found[name] = (parameter.grad() if trainable else parameter.data()).asnumpy()
    for convolution in architecture.convolutions(size):
        unbiased(found, convolution.norm + ".running_var", len(given["labels"]) * convolution.pixels**2)
    numpy.savez(target, loss=loss.asscalar(), **found)


def unbiased(found, name, count):
    """Make of MXNet's running variance, a mean over ``count`` values, the one over ``count - 1`` that others have."""
    new = found[name] - NORM_MOMENTUM
    found[name] = NORM_MOMENTUM + new * count / (count - 1)


if __name__ == "__main__":
    main(*sys.argv[1:])
