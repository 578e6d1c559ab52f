"""One forward and backward pass in TensorFlow: ``python gradients_tensorflow.py INPUT.npz SIZE.json OUTPUT.npz``."""

import json
import sys

import numpy
import tensorflow as tf

from suites.datasets import synthetic_tensorflow
from suites.models.resnet_50.tensorflow import Model, ResNet, from_layout


def main(source, size_path, target):
    given = numpy.load(source)
    with open(size_path) as file:
        network = ResNet(json.load(file), given)
    model = Model(network, None, None)
    batch = synthetic_tensorflow.batch(given["images"], given["labels"])
    with tf.GradientTape() as tape:
        loss = model.loss(batch)
    gradients = tape.gradient(loss, model.variables)
    found = {name: from_layout(name, g.numpy()) for name, g in zip(network.weights, gradients, strict=True)}
    for norm, (mean, variance) in network.statistics.items():
        found[norm + ".running_mean"] = mean.numpy()
        found[norm + ".running_var"] = variance.numpy()
    numpy.savez(target, loss=loss.numpy(), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
