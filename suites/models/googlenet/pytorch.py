"""GoogLeNet in plain PyTorch. Dimensions: N images of a batch, C channels, H height, W width, F features, K classes."""

from typing import List, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from suites.assemble.pytorch.layers import module as made
from suites.models.googlenet import network
from suites.models.googlenet.network import AUXILIARY_WEIGHT
from workers.trainer.base.signatures import Size


class Inception(nn.Module):
    def __init__(self, module: network.Inception) -> None:
        super().__init__()
        self.conv1x1 = made(module.conv1x1)
        self.reduce3x3, self.conv3x3 = made(module.reduce3x3), made(module.conv3x3)
        self.reduce5x5, self.conv5x5 = made(module.reduce5x5), made(module.conv5x5)
        self.pool, self.project = made(module.pool), made(module.project)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        one_NCHW = self.relu(self.conv1x1(x_NCHW))
        three_NCHW = self.relu(self.conv3x3(self.relu(self.reduce3x3(x_NCHW))))
        five_NCHW = self.relu(self.conv5x5(self.relu(self.reduce5x5(x_NCHW))))
        pooled_NCHW = self.relu(self.project(self.pool(x_NCHW)))
        return torch.cat((one_NCHW, three_NCHW, five_NCHW, pooled_NCHW), dim=1)


class Auxiliary(nn.Module):
    def __init__(self, auxiliary: network.Auxiliary) -> None:
        super().__init__()
        self.pool, self.conv, self.fc, self.drop, self.classifier = map(made, auxiliary[1:])
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        x_NCHW = self.relu(self.conv(self.pool(x_NCHW)))
        x_NF = self.drop(self.relu(self.fc(x_NCHW.flatten(1))))
        return self.classifier(x_NF)


class Network(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        for layer in network.stem(size):
            self.add_module(layer.name, made(layer))
        self.described = network.modules(size)
        for module in self.described:
            self.add_module(module.name, Inception(module))
            if module.auxiliary:
                self.add_module(module.auxiliary.name, Auxiliary(module.auxiliary))
            if module.after:
                self.add_module(module.after.name, made(module.after))
        self.pool5, self.drop, self.classifier = map(made, network.head(size))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, images_NCHW: Tensor) -> Tuple[Tensor, List[Tensor]]:
        """Return the logits_NK of the main classifier, and a list of those of the auxiliary ones."""
        x_NCHW = self.norm1(self.pool1(self.relu(self.conv1(images_NCHW))))
        x_NCHW = self.relu(self.conv2(self.relu(self.reduce2(x_NCHW))))
        x_NCHW = self.pool2(self.norm2(x_NCHW))
        auxiliary = []
        for module in self.described:
            x_NCHW = getattr(self, module.name)(x_NCHW)
            if module.auxiliary:
                auxiliary.append(getattr(self, module.auxiliary.name)(x_NCHW))
            if module.after:
                x_NCHW = getattr(self, module.after.name)(x_NCHW)
        x_NF = self.drop(self.pool5(x_NCHW).flatten(1))
        return self.classifier(x_NF), auxiliary


def criterion(outputs: Tuple[Tensor, List[Tensor]], labels_N: Tensor) -> Tensor:
    main_NK, auxiliary = outputs
    found = functional.cross_entropy(main_NK, labels_N)
    for logits_NK in auxiliary:
        found = found + AUXILIARY_WEIGHT * functional.cross_entropy(logits_NK, labels_N)
    return found
