"""A forward and backward pass in PyTorch: ``python gradients_pytorch.py INPUT.npz SIZE.json OUTPUT.npz [float64]``.

With ``float64`` it also tells how far the network's choices are from their borders: ``from_zero``, the smallest size of
what a ReLU is given, and ``apart``, the smallest distance of the two largest values of a pooling window.
"""

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
    margins = _watch(network) if precision == "float64" else {}
    images = given["images"].astype(precision)
    loss = Model(network, None, None).loss(synthetic_pytorch.batch(images, given["labels"]))
    loss.backward()
    found = {name: parameter.grad.numpy() for name, parameter in network.named_parameters()}
    for name, buffer in network.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            found[name] = buffer.numpy()
    numpy.savez(target, loss=loss.item(), **found, **margins)


def _watch(network):
    """Return {from_zero, apart}, which passes through ``network`` lower."""
    margins = {"from_zero": float("inf"), "apart": float("inf")}

    def relu(_, given):
        margins["from_zero"] = min(margins["from_zero"], given[0].abs().min().item())

    def pool(_, given):
        # After a ReLU: the padding is below all. A window in which nothing is above zero has nothing to choose.
        padded = torch.nn.functional.pad(given[0], (1, 1, 1, 1), value=-1.0)
        windows = padded.unfold(2, 3, 2).unfold(3, 3, 2).flatten(4)
        first, second = windows.topk(2).values.unbind(-1)
        margins["apart"] = min(margins["apart"], (first - second)[first > 0].min().item())

    for module in network.modules():
        for kind, look in ((torch.nn.ReLU, relu), (torch.nn.MaxPool2d, pool)):
            if isinstance(module, kind):
                module.register_forward_pre_hook(look)
    return margins


if __name__ == "__main__":
    torch.manual_seed(0)
    main(*sys.argv[1:])
