"""GoogLeNet in CNTK. Dimensions: C channels, H height, W width, F features."""

from typing import Callable, Tuple

import cntk

from suites.assemble.cntk.functions import Node, cross_entropy
from suites.models.googlenet import network
from workers.trainer.base.signatures import Size


def outputs(layer: Callable[[str, Node], Node], size: Size, images_CHW: Node) -> Tuple[Node, ...]:
    """Return the logits of the main classifier, and those of the auxiliary ones."""

    def convolved(name, x_CHW):
        return cntk.relu(layer(name, x_CHW))

    x_CHW = layer("norm1", layer("pool1", convolved("conv1", images_CHW)))
    x_CHW = convolved("conv2", convolved("reduce2", x_CHW))
    x_CHW = layer("pool2", layer("norm2", x_CHW))
    auxiliary = []
    for module in network.modules(size):
        x_CHW = inception(layer, convolved, module.name + ".", x_CHW)
        if module.auxiliary:
            auxiliary.append(classified(layer, convolved, module.auxiliary.name + ".", x_CHW))
        if module.after:
            x_CHW = layer(module.after.name, x_CHW)
    x_F = layer("drop", cntk.reshape(layer("pool5", x_CHW), (-1,)))
    return (layer("classifier", x_F),) + tuple(auxiliary)


def criterion(outputs: Tuple[Node, ...], label: Node) -> Node:
    auxiliary = [cross_entropy(logits_K, label) for logits_K in outputs[1:]]
    return cross_entropy(outputs[0], label) + network.AUXILIARY_WEIGHT * sum(auxiliary)


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
    layer: Callable[[str, Node], Node], convolved: Callable[[str, Node], Node], name: str, x_CHW: Node
) -> Node:
    """Return the logits of an auxiliary classifier."""
    x_CHW = convolved(name + "conv", layer(name + "pool", x_CHW))
    x_F = cntk.relu(layer(name + "fc", cntk.reshape(x_CHW, (-1,))))
    return layer(name + "classifier", layer(name + "drop", x_F))
