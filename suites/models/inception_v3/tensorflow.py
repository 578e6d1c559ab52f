"""Inception-v3 in TensorFlow. Dimensions: N images of a batch, H height, W width, C channels, F features."""

from typing import Callable

import tensorflow as tf

from suites.assemble.tensorflow import cross_entropy, relu
from suites.models.inception_v3 import network
from workers.trainer.signatures import Size


def loss(layer: Callable[..., tf.Tensor], size: Size, images_NHWC: tf.Tensor, labels_N: tf.Tensor) -> tf.Tensor:
    def unit(one, x_NHWC):
        return relu(one.name + ".relu", layer(one.bn.name, layer(one.conv.name, x_NHWC)))

    x_NHWC = images_NHWC
    for part in network.stem(size):
        x_NHWC = unit(part, x_NHWC) if isinstance(part, network.Unit) else layer(part.name, x_NHWC)
    auxiliary, found = network.auxiliary(size), []
    for module in network.modules(size):
        if auxiliary and module.name == network.AFTER_AUXILIARY:
            found.append(network.AUXILIARY_WEIGHT * classified(layer, unit, auxiliary, x_NHWC, labels_N))
        x_NHWC = branched(layer, unit, module, x_NHWC)
    x_NF = layer("dropout", mean("avgpool", x_NHWC))
    return tf.add_n([cross_entropy(layer("fc", x_NF), labels_N)] + found)


def branched(
    layer: Callable[..., tf.Tensor],
    unit: Callable[[network.Unit, tf.Tensor], tf.Tensor],
    module: network.Inception,
    x_NHWC: tf.Tensor,
) -> tf.Tensor:
    found = []
    for branch in module.branches:
        y_NHWC = layer(branch.pool.name, x_NHWC) if branch.pool else x_NHWC
        for one in branch.units:
            y_NHWC = unit(one, y_NHWC)
        found += [unit(one, y_NHWC) for one in branch.ends] or [y_NHWC]
    with tf.name_scope(module.name + ".concat"):
        return tf.concat(found, axis=3)


def classified(
    layer: Callable[..., tf.Tensor],
    unit: Callable[[network.Unit, tf.Tensor], tf.Tensor],
    auxiliary: network.Auxiliary,
    x_NHWC: tf.Tensor,
    labels_N: tf.Tensor,
) -> tf.Tensor:
    """Return the loss of the auxiliary head."""
    x_NHWC = layer(auxiliary.pool.name, x_NHWC)
    for one in auxiliary.units:
        x_NHWC = unit(one, x_NHWC)
    return cross_entropy(layer(auxiliary.fc.name, mean("AuxLogits.mean", x_NHWC)), labels_N)


def mean(name: str, x_NHWC: tf.Tensor) -> tf.Tensor:
    with tf.name_scope(name):
        return tf.reduce_mean(x_NHWC, axis=(1, 2))
