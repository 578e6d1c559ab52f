"""ResNet-50 v1.5 in MXNet's Gluon. Dimensions: N images of a batch, C channels, H height, W width, F features."""

import collections
from typing import Any, Tuple

import mxnet as mx
from mxnet.gluon import nn

from suites.assemble.mxnet.layers import block as made
from suites.models.resnet_50 import network
from workers.trainer.base.signatures import Size


class Bottleneck(nn.HybridBlock):
    """The shortcut is added before the last ReLU."""

    def __init__(self, block: network.Block) -> None:
        super(Bottleneck, self).__init__()
        self.conv1, self.bn1 = made(block.conv1), made(block.bn1)
        self.conv2, self.bn2 = made(block.conv2), made(block.bn2)
        self.conv3, self.bn3 = made(block.conv3), made(block.bn3)
        self.downsample = None
        if block.shortcut:
            self.downsample = nn.HybridSequential()
            self.downsample.add(*map(made, block.shortcut))

    def hybrid_forward(self, F: Any, x_NCHW: Any) -> Any:
        shortcut_NCHW = x_NCHW if self.downsample is None else self.downsample(x_NCHW)
        x_NCHW = F.relu(self.bn1(self.conv1(x_NCHW)))
        x_NCHW = F.relu(self.bn2(self.conv2(x_NCHW)))
        return F.relu(self.bn3(self.conv3(x_NCHW)) + shortcut_NCHW)


class Network(nn.HybridBlock):
    def __init__(self, size: Size) -> None:
        super(Network, self).__init__()
        self.conv1, self.bn1, self.maxpool = map(made, network.stem(size))
        stages = collections.OrderedDict()
        for block in network.blocks(size):
            stage = block.name.split(".")[0]
            if stage not in stages:
                stages[stage] = nn.HybridSequential()
                setattr(self, stage, stages[stage])
            stages[stage].add(Bottleneck(block))
        self.stages = list(stages)
        self.fc = made(network.classifier(size))
        self.cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F: Any, images_NCHW: Any, labels_N: Any) -> Any:
        return self.criterion(F, self.outputs(F, images_NCHW), labels_N)

    def outputs(self, F: Any, images_NCHW: Any) -> Tuple[Any]:
        x_NCHW = self.maxpool(F.relu(self.bn1(self.conv1(images_NCHW))))
        for stage in self.stages:
            x_NCHW = getattr(self, stage)(x_NCHW)
        x_NF = F.mean(x_NCHW, axis=(2, 3))
        return (self.fc(x_NF),)

    def criterion(self, F: Any, outputs: Tuple[Any], labels_N: Any) -> Any:
        return F.mean(self.cross_entropy(outputs[0], labels_N))
