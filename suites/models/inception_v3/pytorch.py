"""Inception-v3 in plain PyTorch.

Dimensions: N images of a batch, C channels, H height, W width, F features, K classes.
"""

from typing import Optional, Tuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from suites.assemble.pytorch.layers import module as made
from suites.models.inception_v3 import network
from workers.trainer.base.signatures import Size


class Unit(nn.Module):
    def __init__(self, unit: network.Unit) -> None:
        super().__init__()
        self.conv, self.bn = made(unit.conv), made(unit.bn)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        return self.relu(self.bn(self.conv(x_NCHW)))


class Inception(nn.Module):
    def __init__(self, module: network.Inception) -> None:
        super().__init__()
        self.chains = network.chains(module)
        for branch in module.branches:
            for unit in branch.units + branch.ends:
                self.add_module(network.last(unit), Unit(unit))
            if branch.pool:
                self.add_module(network.last(branch.pool), made(branch.pool))

    def forward(self, x_NCHW: Tensor) -> Tensor:
        found = []
        for chain, ends in self.chains:
            y_NCHW = x_NCHW
            for name in chain:
                y_NCHW = getattr(self, name)(y_NCHW)
            found += [getattr(self, name)(y_NCHW) for name in ends] or [y_NCHW]
        return torch.cat(found, dim=1)


class Auxiliary(nn.Module):
    def __init__(self, auxiliary: network.Auxiliary) -> None:
        super().__init__()
        self.pool, self.fc = made(auxiliary.pool), made(auxiliary.fc)
        self.conv0, self.conv1 = map(Unit, auxiliary.units)

    def forward(self, x_NCHW: Tensor) -> Tensor:
        x_NCHW = self.conv1(self.conv0(self.pool(x_NCHW)))
        return self.fc(x_NCHW.mean(dim=(2, 3)))


class Network(nn.Module):
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.parts = []
        for part in network.stem(size):
            self.parts.append(part.name)
            self.add_module(part.name, Unit(part) if isinstance(part, network.Unit) else made(part))
        for module in network.modules(size):
            self.parts.append(module.name)
            self.add_module(module.name, Inception(module))
        self.dropout, self.fc = map(made, network.head(size))
        auxiliary = network.auxiliary(size)
        self.AuxLogits = Auxiliary(auxiliary) if auxiliary else None

    def forward(self, images_NCHW: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
        """Return the logits_NK of the classifier, and those of the auxiliary head, where there is one."""
        x_NCHW, auxiliary_NK = images_NCHW, None
        for name in self.parts:
            if name == network.AFTER_AUXILIARY and self.AuxLogits is not None:
                auxiliary_NK = self.AuxLogits(x_NCHW)
            x_NCHW = getattr(self, name)(x_NCHW)
        return self.fc(self.dropout(x_NCHW.mean(dim=(2, 3)))), auxiliary_NK


def criterion(outputs: Tuple[Tensor, Optional[Tensor]], labels_N: Tensor) -> Tensor:
    main_NK, auxiliary_NK = outputs
    found = functional.cross_entropy(main_NK, labels_N)
    if auxiliary_NK is not None:
        found = found + network.AUXILIARY_WEIGHT * functional.cross_entropy(auxiliary_NK, labels_N)
    return found
