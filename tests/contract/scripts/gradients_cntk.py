"""One forward and backward pass in CNTK: ``python gradients_cntk.py INPUT.npz SIZE.json OUTPUT.npz``."""

import json
import sys

import cntk
import numpy

from suites.datasets import synthetic_cntk
from suites.models.resnet_50.cntk import Model, ResNet, from_layout


def main(source, size_path, target):
    given = numpy.load(source)
    with open(size_path) as file:
        size = json.load(file)
    network = ResNet(size, given, len(given["labels"]))
    model = Model(size, network, None, None)
    images, labels = synthetic_cntk.batch(given["images"], given["labels"])
    # CNTK's gradients are sums over the samples; it is the learner that takes their mean.
    batch = {model.arguments[0]: images, model.arguments[1]: labels}
    gradients, losses = model.criterion.grad(batch, wrt=model.parameters, outputs=[model.criterion.output])
    count = float(len(given["labels"]))
    found = {name: from_layout(name, gradients[p] / count) for name, p in network.parameters.items()}
    for norm, (mean, variance) in network.statistics.items():
        found[norm + ".running_mean"] = mean.value
        found[norm + ".running_var"] = variance.value
    numpy.savez(target, loss=numpy.mean(losses), **found)


if __name__ == "__main__":
    cntk.try_set_default_device(cntk.cpu())
    main(*sys.argv[1:])
