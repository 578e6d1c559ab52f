"""ResNet-50 v1.5 in CNTK. Dimensions: C channels, H height, W width, F features."""

from typing import Callable, Tuple

import cntk

from suites.assemble.cntk.functions import Node, cross_entropy
from suites.models.resnet_50 import network
from workers.trainer.base.signatures import Size


def outputs(layer: Callable[[str, Node], Node], size: Size, images_CHW: Node) -> Tuple[Node]:
    x_CHW = layer("maxpool", cntk.relu(layer("bn1", layer("conv1", images_CHW))))
    for block in network.blocks(size):
        x_CHW = bottleneck(layer, block, x_CHW)
    x_F = cntk.reshape(cntk.reduce_mean(x_CHW, axis=(1, 2)), (-1,))
    return (layer("fc", x_F),)


def criterion(outputs: Tuple[Node], label: Node) -> Node:
    return cross_entropy(outputs[0], label)


def bottleneck(layer: Callable[[str, Node], Node], block: network.Block, x_CHW: Node) -> Node:
    """The shortcut is added before the last ReLU."""
    name = block.name + "."
    shortcut_CHW = x_CHW
    for one in block.shortcut or ():
        shortcut_CHW = layer(one.name, shortcut_CHW)
    x_CHW = cntk.relu(layer(name + "bn1", layer(name + "conv1", x_CHW)))
    x_CHW = cntk.relu(layer(name + "bn2", layer(name + "conv2", x_CHW)))
    return cntk.relu(layer(name + "bn3", layer(name + "conv3", x_CHW)) + shortcut_CHW)
