"""Inception-v3 in CNTK. Dimensions: C channels, H height, W width, F features."""

from typing import Callable, Tuple

import cntk

from suites.assemble.cntk.functions import Node, cross_entropy
from suites.models.inception_v3 import network
from workers.trainer.base.signatures import Size


def outputs(layer: Callable[[str, Node], Node], size: Size, images_CHW: Node) -> Tuple[Node, ...]:
    """Return the logits of the classifier, and those of the auxiliary head, where there is one."""

    def unit(one, x_CHW):
        return cntk.relu(layer(one.bn.name, layer(one.conv.name, x_CHW)))

    x_CHW = images_CHW
    for part in network.stem(size):
        x_CHW = unit(part, x_CHW) if isinstance(part, network.Unit) else layer(part.name, x_CHW)
    auxiliary, found = network.auxiliary(size), []
    for module in network.modules(size):
        if auxiliary and module.name == network.AFTER_AUXILIARY:
            found.append(classified(layer, unit, auxiliary, x_CHW))
        x_CHW = branched(layer, unit, module, x_CHW)
    return (layer("fc", layer("dropout", mean(x_CHW))),) + tuple(found)


def criterion(outputs: Tuple[Node, ...], label: Node) -> Node:
    main = cross_entropy(outputs[0], label)
    if len(outputs) == 1:
        return main
    return main + network.AUXILIARY_WEIGHT * cross_entropy(outputs[1], label)


def branched(
    layer: Callable[[str, Node], Node],
    unit: Callable[[network.Unit, Node], Node],
    module: network.Inception,
    x_CHW: Node,
) -> Node:
    found = []
    for branch in module.branches:
        y_CHW = layer(branch.pool.name, x_CHW) if branch.pool else x_CHW
        for one in branch.units:
            y_CHW = unit(one, y_CHW)
        found += [unit(one, y_CHW) for one in branch.ends] or [y_CHW]
    return cntk.splice(*found, axis=0)


def classified(
    layer: Callable[[str, Node], Node],
    unit: Callable[[network.Unit, Node], Node],
    auxiliary: network.Auxiliary,
    x_CHW: Node,
) -> Node:
    """Return the logits of the auxiliary head."""
    x_CHW = layer(auxiliary.pool.name, x_CHW)
    for one in auxiliary.units:
        x_CHW = unit(one, x_CHW)
    return layer(auxiliary.fc.name, mean(x_CHW))


def mean(x_CHW: Node) -> Node:
    """Return x_F: the mean of each channel."""
    return cntk.reshape(cntk.reduce_mean(x_CHW, axis=(1, 2)), (-1,))
