"""GoogLeNet in MXNet's Gluon. Dimensions: N images of a batch, C channels, H height, W width, F features, K classes."""

from typing import Any, Tuple

import mxnet as mx
from mxnet.gluon import nn

from suites.assemble.mxnet.layers import block as made
from suites.models.googlenet import network
from workers.trainer.base.signatures import Size


class Inception(nn.HybridBlock):
    def __init__(self, module: network.Inception) -> None:
        super(Inception, self).__init__()
        self.conv1x1 = made(module.conv1x1)
        self.reduce3x3, self.conv3x3 = made(module.reduce3x3), made(module.conv3x3)
        self.reduce5x5, self.conv5x5 = made(module.reduce5x5), made(module.conv5x5)
        self.pool, self.project = made(module.pool), made(module.project)

    def hybrid_forward(self, F: Any, x_NCHW: Any) -> Any:
        one_NCHW = F.relu(self.conv1x1(x_NCHW))
        three_NCHW = F.relu(self.conv3x3(F.relu(self.reduce3x3(x_NCHW))))
        five_NCHW = F.relu(self.conv5x5(F.relu(self.reduce5x5(x_NCHW))))
        pooled_NCHW = F.relu(self.project(self.pool(x_NCHW)))
        return F.concat(one_NCHW, three_NCHW, five_NCHW, pooled_NCHW, dim=1)


class Auxiliary(nn.HybridBlock):
    def __init__(self, auxiliary: network.Auxiliary) -> None:
        super(Auxiliary, self).__init__()
        self.pool, self.conv, self.fc, self.drop, self.classifier = map(made, auxiliary[1:])

    def hybrid_forward(self, F: Any, x_NCHW: Any) -> Any:
        x_NCHW = F.relu(self.conv(self.pool(x_NCHW)))
        # A dense layer takes all of an image as its features.
        return self.classifier(self.drop(F.relu(self.fc(x_NCHW))))


class Network(nn.HybridBlock):
    def __init__(self, size: Size) -> None:
        super(Network, self).__init__()
        for layer in network.stem(size):
            setattr(self, layer.name, made(layer))
        self.described = network.modules(size)
        for module in self.described:
            setattr(self, module.name, Inception(module))
            if module.auxiliary:
                setattr(self, module.auxiliary.name, Auxiliary(module.auxiliary))
            if module.after:
                setattr(self, module.after.name, made(module.after))
        self.pool5, self.drop, self.classifier = map(made, network.head(size))
        self.cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F: Any, images_NCHW: Any, labels_N: Any) -> Any:
        return self.criterion(F, self.outputs(F, images_NCHW), labels_N)

    def outputs(self, F: Any, images_NCHW: Any) -> Tuple[Any, ...]:
        """Return the logits of the main classifier, and those of the auxiliary ones."""
        x_NCHW = self.norm1(self.pool1(F.relu(self.conv1(images_NCHW))))
        x_NCHW = F.relu(self.conv2(F.relu(self.reduce2(x_NCHW))))
        x_NCHW = self.pool2(self.norm2(x_NCHW))
        auxiliary = []
        for module in self.described:
            x_NCHW = getattr(self, module.name)(x_NCHW)
            if module.auxiliary:
                auxiliary.append(getattr(self, module.auxiliary.name)(x_NCHW))
            if module.after:
                x_NCHW = getattr(self, module.after.name)(x_NCHW)
        return (self.classifier(self.drop(self.pool5(x_NCHW))),) + tuple(auxiliary)

    def criterion(self, F: Any, outputs: Tuple[Any, ...], labels_N: Any) -> Any:
        loss_N = self.cross_entropy(outputs[0], labels_N)
        for logits_NK in outputs[1:]:
            loss_N = loss_N + network.AUXILIARY_WEIGHT * self.cross_entropy(logits_NK, labels_N)
        return F.mean(loss_N)
