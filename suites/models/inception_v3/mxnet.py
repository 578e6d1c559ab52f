"""Inception-v3 in MXNet's Gluon. Dimensions: N images of a batch, C channels, H height, W width, F features."""

from typing import Any, Tuple

import mxnet as mx
from mxnet.gluon import nn

from suites.assemble.mxnet.layers import block as made
from suites.models.inception_v3 import network
from workers.trainer.base.signatures import Size


class Unit(nn.HybridBlock):
    def __init__(self, unit: network.Unit) -> None:
        super(Unit, self).__init__()
        self.conv, self.bn = made(unit.conv), made(unit.bn)

    def hybrid_forward(self, F: Any, x_NCHW: Any) -> Any:
        return F.relu(self.bn(self.conv(x_NCHW)))


class Inception(nn.HybridBlock):
    def __init__(self, module: network.Inception) -> None:
        super(Inception, self).__init__()
        self.chains = network.chains(module)
        for branch in module.branches:
            for unit in branch.units + branch.ends:
                setattr(self, network.last(unit), Unit(unit))
            if branch.pool:
                setattr(self, network.last(branch.pool), made(branch.pool))

    def hybrid_forward(self, F: Any, x_NCHW: Any) -> Any:
        found = []
        for chain, ends in self.chains:
            y_NCHW = x_NCHW
            for name in chain:
                y_NCHW = getattr(self, name)(y_NCHW)
            found += [getattr(self, name)(y_NCHW) for name in ends] or [y_NCHW]
        return F.concat(*found, dim=1)


class Auxiliary(nn.HybridBlock):
    def __init__(self, auxiliary: network.Auxiliary) -> None:
        super(Auxiliary, self).__init__()
        self.pool, self.fc = made(auxiliary.pool), made(auxiliary.fc)
        self.conv0, self.conv1 = map(Unit, auxiliary.units)

    def hybrid_forward(self, F: Any, x_NCHW: Any) -> Any:
        x_NCHW = self.conv1(self.conv0(self.pool(x_NCHW)))
        return self.fc(F.mean(x_NCHW, axis=(2, 3)))


class Network(nn.HybridBlock):
    def __init__(self, size: Size) -> None:
        super(Network, self).__init__()
        self.parts = []
        for part in network.stem(size):
            self.parts.append(part.name)
            setattr(self, part.name, Unit(part) if isinstance(part, network.Unit) else made(part))
        for module in network.modules(size):
            self.parts.append(module.name)
            setattr(self, module.name, Inception(module))
        self.dropout, self.fc = map(made, network.head(size))
        auxiliary = network.auxiliary(size)
        self.AuxLogits = Auxiliary(auxiliary) if auxiliary else None
        self.cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F: Any, images_NCHW: Any, labels_N: Any) -> Any:
        return self.criterion(F, self.outputs(F, images_NCHW), labels_N)

    def outputs(self, F: Any, images_NCHW: Any) -> Tuple[Any, ...]:
        """Return the logits of the classifier, and those of the auxiliary head, where there is one."""
        x_NCHW, auxiliary = images_NCHW, ()
        for name in self.parts:
            if name == network.AFTER_AUXILIARY and self.AuxLogits is not None:
                auxiliary = (self.AuxLogits(x_NCHW),)
            x_NCHW = getattr(self, name)(x_NCHW)
        return (self.fc(self.dropout(F.mean(x_NCHW, axis=(2, 3)))),) + auxiliary

    def criterion(self, F: Any, outputs: Tuple[Any, ...], labels_N: Any) -> Any:
        loss_N = self.cross_entropy(outputs[0], labels_N)
        for logits_NK in outputs[1:]:
            loss_N = loss_N + network.AUXILIARY_WEIGHT * self.cross_entropy(logits_NK, labels_N)
        return F.mean(loss_N)
