"""A forward and backward pass of the LSTM classifier in MXNet, see ``gradients_mxnet.py``."""

import json
import sys

import mxnet as mx
import numpy

from suites.models.lstm_classifier import architecture
from suites.models.lstm_classifier.mxnet import Classifier, Model, to_arrays


def main(source, size_path, target):
    given = numpy.load(source)
    with open(size_path) as file:
        size = json.load(file)
    network = Classifier(size)
    network.load(given, [mx.cpu(0)])
    network.hybridize(static_alloc=True, static_shape=True)
    with mx.autograd.record():
        loss = Model(network, architecture.shapes(size), None, None).loss(
            to_arrays(given["tokens"], given["shares"], given["labels"])
        )
    loss.backward()
    found = {name: parameter.grad().asnumpy() for name, parameter in network.named().items()}
    numpy.savez(target, loss=loss.asscalar(), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
