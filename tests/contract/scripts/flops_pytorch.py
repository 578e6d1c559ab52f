"""Print {size: [operations of one sample's forward pass, parameters]} as PyTorch counts them."""

import json
import sys

import torch
from torch.utils.flop_counter import FlopCounterMode

from suites.models.resnet_50.pytorch import ResNet


def count(size):
    network = ResNet(size)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network(torch.zeros(2, 3, size["image_pixels"], size["image_pixels"]))
    return [counter.get_total_flops() // 2, sum(parameter.numel() for parameter in network.parameters())]


if __name__ == "__main__":
    print(json.dumps({name: count(size) for name, size in json.loads(sys.argv[1]).items()}))
