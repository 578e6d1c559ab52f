"""GoogLeNet in CNTK. Dimensions: C channels, H height, W width, F features."""

from typing import Callable

import cntk

from suites.assemble.cntk import Node, cross_entropy
from suites.models.googlenet import network
from workers.trainer.signatures import Size


def loss(layer: Callable[[str, Node], Node], size: Size, images_CHW: Node, label: Node) -> Node:
    def convolved(name, x_CHW):
        return cntk.relu(layer(name, x_CHW))

    x_CHW = layer("norm1", layer("pool1", convolved("conv1", images_CHW)))
    x_CHW = convolved("conv2", convolved("reduce2", x_CHW))
    x_CHW = layer("pool2", layer("norm2", x_CHW))
    auxiliary = []
    for module in network.modules(size):
        x_CHW = inception(layer, convolved, module.name + ".", x_CHW)
        if module.auxiliary:
            auxiliary.append(classified(layer, convolved, module.auxiliary.name + ".", x_CHW, label))
        if module.after:
            x_CHW = layer(module.after.name, x_CHW)
    x_F = layer("drop", cntk.reshape(layer("pool5", x_CHW), (-1,)))
    main = cross_entropy(layer("classifier", x_F), label)
    return main + network.AUXILIARY_WEIGHT * sum(auxiliary)


def inception(
    layer: Callable[[str, Node], Node], convolved: Callable[[str, Node], Node], name: str, x_CHW: Node
) -> Node:
    return cntk.splice(
        convolved(name + "conv1x1", x_CHW),
        convolved(name + "conv3x3", convolved(name + "reduce3x3", x_CHW)),
        convolved(name + "conv5x5", convolved(name + "reduce5x5", x_CHW)),
        convolved(name + "project", layer(name + "pool", x_CHW)),
        axis=0,
    )


def classified(
    layer: Callable[[str, Node], Node], convolved: Callable[[str, Node], Node], name: str, x_CHW: Node, label: Node
) -> Node:
    """Return the loss of an auxiliary classifier."""
    x_CHW = convolved(name + "conv", layer(name + "pool", x_CHW))
    x_F = cntk.relu(layer(name + "fc", cntk.reshape(x_CHW, (-1,))))
    return cross_entropy(layer(name + "classifier", layer(name + "drop", x_F)), label)
