"""Inception-v3 in TensorFlow. Dimensions: N images of a batch, H height, W width, C channels, F features."""

from typing import Callable, Tuple

import tensorflow as tf

from suites.assemble.tensorflow.functions import cross_entropy, relu
from suites.models.inception_v3 import network
from workers.trainer.base.signatures import Size


def outputs(layer: Callable[..., tf.Tensor], size: Size, images_NHWC: tf.Tensor) -> Tuple[tf.Tensor, ...]:
    """Return the logits of the classifier, and those of the auxiliary head, where there is one."""

    def unit(one, x_NHWC):
        return relu(one.name + ".relu", layer(one.bn.name, layer(one.conv.name, x_NHWC)))

    x_NHWC = images_NHWC
    for part in network.stem(size):
        x_NHWC = unit(part, x_NHWC) if isinstance(part, network.Unit) else layer(part.name, x_NHWC)
    auxiliary, found = network.auxiliary(size), []
    for module in network.modules(size):
        if auxiliary and module.name == network.AFTER_AUXILIARY:
            found.append(classified(layer, unit, auxiliary, x_NHWC))
        x_NHWC = branched(layer, unit, module, x_NHWC)
    x_NF = layer("dropout", mean("avgpool", x_NHWC))
    return (layer("fc", x_NF), *found)


def criterion(outputs: Tuple[tf.Tensor, ...], labels_N: tf.Tensor) -> tf.Tensor:
    found = [network.AUXILIARY_WEIGHT * cross_entropy(logits_NK, labels_N) for logits_NK in outputs[1:]]
    return tf.add_n([cross_entropy(outputs[0], labels_N)] + found)


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
) -> tf.Tensor:
    """Return the logits of the auxiliary head."""
    x_NHWC = layer(auxiliary.pool.name, x_NHWC)
    for one in auxiliary.units:
        x_NHWC = unit(one, x_NHWC)
    return layer(auxiliary.fc.name, mean("AuxLogits.mean", x_NHWC))


def mean(name: str, x_NHWC: tf.Tensor) -> tf.Tensor:
    with tf.name_scope(name):
        return tf.reduce_mean(x_NHWC, axis=(1, 2))
