"""A forward and backward pass in PyTorch: ``python gradients_pytorch.py INPUT.npz SIZE.json OUTPUT.npz [float64]``."""

import json
import sys

import numpy
import torch

from suites.datasets import synthetic_pytorch
from suites.models.resnet_50.pytorch import Model, ResNet


def main(source, size_path, target, precision="float32"):
    given = numpy.load(source)
    with open(size_path) as file:
        network = ResNet(json.load(file))
    network.load(given)
    network.to(getattr(torch, precision)).train()
    images = given["images"].astype(precision)
    loss = Model(network, None, None).loss(synthetic_pytorch.batch(images, given["labels"]))
    loss.backward()
    found = {name: parameter.grad.numpy() for name, parameter in network.named_parameters()}
    for name, buffer in network.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            found[name] = buffer.numpy()
    numpy.savez(target, loss=loss.item(), **found)


if __name__ == "__main__":
    torch.manual_seed(0)
    main(*sys.argv[1:])
