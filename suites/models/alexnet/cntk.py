"""AlexNet in CNTK. Dimensions: C channels, H height, W width, F features."""

from typing import Callable, Tuple

import cntk

from suites.assemble.cntk.functions import Node, cross_entropy
from workers.trainer.base.signatures import Size


def outputs(layer: Callable[[str, Node], Node], size: Size, images_CHW: Node) -> Tuple[Node]:
    x_CHW = layer("pool1", cntk.relu(layer("conv1", images_CHW)))
    x_CHW = layer("pool2", cntk.relu(layer("conv2", x_CHW)))
    x_CHW = cntk.relu(layer("conv3", x_CHW))
    x_CHW = cntk.relu(layer("conv4", x_CHW))
    x_CHW = layer("pool5", cntk.relu(layer("conv5", x_CHW)))
    x_F = layer("drop6", cntk.reshape(x_CHW, (-1,)))
    x_F = layer("drop7", cntk.relu(layer("fc6", x_F)))
    x_F = cntk.relu(layer("fc7", x_F))
    return (layer("fc8", x_F),)


def criterion(outputs: Tuple[Node], label: Node) -> Node:
    return cross_entropy(outputs[0], label)
