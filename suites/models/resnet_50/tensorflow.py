"""ResNet-50 v1.5 in TensorFlow. Dimensions: N images of a batch, H height, W width, C channels, F features."""

from typing import Callable, Tuple

import tensorflow as tf

from suites.assemble.tensorflow.functions import cross_entropy, relu
from suites.models.resnet_50 import network
from workers.trainer.base.signatures import Size


def outputs(layer: Callable[..., tf.Tensor], size: Size, images_NHWC: tf.Tensor) -> Tuple[tf.Tensor]:
    x_NHWC = relu("relu", layer("bn1", layer("conv1", images_NHWC)))
    x_NHWC = layer("maxpool", x_NHWC)
    for block in network.blocks(size):
        x_NHWC = bottleneck(layer, block, x_NHWC)
    with tf.name_scope("avgpool"):
        x_NF = tf.reduce_mean(x_NHWC, axis=(1, 2))
    return (layer("fc", x_NF),)


def criterion(outputs: Tuple[tf.Tensor], labels_N: tf.Tensor) -> tf.Tensor:
    return cross_entropy(outputs[0], labels_N)


def bottleneck(layer: Callable[..., tf.Tensor], block: network.Block, x_NHWC: tf.Tensor) -> tf.Tensor:
    """The shortcut is added before the last ReLU."""
    name = block.name + "."
    shortcut_NHWC = x_NHWC
    for one in block.shortcut or ():
        shortcut_NHWC = layer(one.name, shortcut_NHWC)
    x_NHWC = relu(name + "relu1", layer(name + "bn1", layer(name + "conv1", x_NHWC)))
    x_NHWC = relu(name + "relu2", layer(name + "bn2", layer(name + "conv2", x_NHWC)))
    x_NHWC = layer(name + "bn3", layer(name + "conv3", x_NHWC))
    with tf.name_scope(name + "add"):
        x_NHWC = x_NHWC + shortcut_NHWC
    return relu(name + "relu3", x_NHWC)
