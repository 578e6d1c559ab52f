"""AlexNet in MXNet's Gluon. Dimensions: N images of a batch, C channels, H height, W width, F features."""

from typing import Any, Tuple

import mxnet as mx
from mxnet.gluon import nn

from suites.assemble.mxnet.layers import block
from suites.models.alexnet import network
from workers.trainer.base.signatures import Size


class Network(nn.HybridBlock):
    def __init__(self, size: Size) -> None:
        super(Network, self).__init__()
        for layer in network.layers(size):
            setattr(self, layer.name, block(layer))
        self.cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F: Any, images_NCHW: Any, labels_N: Any) -> Any:
        return self.criterion(F, self.outputs(F, images_NCHW), labels_N)

    def outputs(self, F: Any, images_NCHW: Any) -> Tuple[Any]:
        x_NCHW = self.pool1(F.relu(self.conv1(images_NCHW)))
        x_NCHW = self.pool2(F.relu(self.conv2(x_NCHW)))
        x_NCHW = F.relu(self.conv3(x_NCHW))
        x_NCHW = F.relu(self.conv4(x_NCHW))
        x_NCHW = self.pool5(F.relu(self.conv5(x_NCHW)))
        # A dense layer takes all of an image as its features.
        x_NF = self.drop7(F.relu(self.fc6(self.drop6(x_NCHW))))
        x_NF = F.relu(self.fc7(x_NF))
        return (self.fc8(x_NF),)

    def criterion(self, F: Any, outputs: Tuple[Any], labels_N: Any) -> Any:
        return F.mean(self.cross_entropy(outputs[0], labels_N))
