"""GoogLeNet in TensorFlow. Dimensions: N images of a batch, H height, W width, C channels, F features."""

from typing import Callable, Tuple

import tensorflow as tf

from suites.assemble.tensorflow.functions import cross_entropy, flat, relu
from suites.models.googlenet import network
from workers.trainer.base.signatures import Size


def outputs(layer: Callable[..., tf.Tensor], size: Size, images_NHWC: tf.Tensor) -> Tuple[tf.Tensor, ...]:
    """Return the logits of the main classifier, and those of the auxiliary ones."""

    def convolved(name, x_NHWC):
        return relu(name + ".relu", layer(name, x_NHWC))

    x_NHWC = layer("norm1", layer("pool1", convolved("conv1", images_NHWC)))
    x_NHWC = convolved("conv2", convolved("reduce2", x_NHWC))
    x_NHWC = layer("pool2", layer("norm2", x_NHWC))
    auxiliary = []
    for module in network.modules(size):
        x_NHWC = inception(layer, convolved, module.name + ".", x_NHWC)
        if module.auxiliary:
            auxiliary.append(classified(layer, convolved, module.auxiliary.name + ".", x_NHWC))
        if module.after:
            x_NHWC = layer(module.after.name, x_NHWC)
    x_NF = layer("drop", layer("pool5", x_NHWC), before=flat)
    return (layer("classifier", x_NF), *auxiliary)


def criterion(outputs: Tuple[tf.Tensor, ...], labels_N: tf.Tensor) -> tf.Tensor:
    auxiliary = [cross_entropy(logits_NK, labels_N) for logits_NK in outputs[1:]]
    return cross_entropy(outputs[0], labels_N) + network.AUXILIARY_WEIGHT * tf.add_n(auxiliary)


def inception(
    layer: Callable[..., tf.Tensor], convolved: Callable[[str, tf.Tensor], tf.Tensor], name: str, x_NHWC: tf.Tensor
) -> tf.Tensor:
    branches = (
        convolved(name + "conv1x1", x_NHWC),
        convolved(name + "conv3x3", convolved(name + "reduce3x3", x_NHWC)),
        convolved(name + "conv5x5", convolved(name + "reduce5x5", x_NHWC)),
        convolved(name + "project", layer(name + "pool", x_NHWC)),
    )
    with tf.name_scope(name + "concat"):
        return tf.concat(branches, axis=3)


def classified(
    layer: Callable[..., tf.Tensor],
    convolved: Callable[[str, tf.Tensor], tf.Tensor],
    name: str,
    x_NHWC: tf.Tensor,
) -> tf.Tensor:
    """Return the logits of an auxiliary classifier."""
    x_NHWC = convolved(name + "conv", layer(name + "pool", x_NHWC))
    x_NF = relu(name + "fc.relu", layer(name + "fc", x_NHWC, before=flat))
    return layer(name + "classifier", layer(name + "drop", x_NF))
