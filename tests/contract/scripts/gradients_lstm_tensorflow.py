"""A forward and backward pass of the LSTM classifier in TensorFlow, see ``gradients_pytorch.py``."""

import json
import sys

import numpy
import tensorflow as tf

from suites.models.lstm_classifier.tensorflow import Classifier, Model, from_layout, to_tensors


def main(source, size_path, target):
    given = numpy.load(source)
    with open(size_path) as file:
        network = Classifier(json.load(file), given)
    batch = to_tensors(given["tokens"], given["shares"], given["labels"])
    with tf.GradientTape() as tape:
        loss = Model(network, None, None).loss(batch)
    gradients = tape.gradient(loss, list(network.weights.values()))
    found = {
        name: from_layout(name, tf.convert_to_tensor(gradient).numpy())
        for name, gradient in zip(network.weights, gradients, strict=True)
    }
    numpy.savez(target, loss=loss.numpy(), **found)


if __name__ == "__main__":
    main(*sys.argv[1:])
