"""The Transformer in TensorFlow.

Dimensions: N sentences of a batch, S tokens of a source, T of a target, Q of either, E numbers per token, K tokens that
there are.
"""

from typing import Callable, Tuple

import tensorflow as tf

from suites.assemble.tensorflow.functions import relu, weighted_cross_entropy
from suites.models.transformer import network
from workers.trainer.base.signatures import Size


def outputs(
    layer: Callable[..., tf.Tensor], size: Size, sources_NS: tf.Tensor, mask_NS: tf.Tensor, targets_NT: tf.Tensor
) -> Tuple[tf.Tensor]:
    x_NSE = embedded(layer, size, "source", sources_NS)
    for encoder in network.encoders(size):
        x_NSE = fed(layer, encoder.fed, attended(layer, encoder.own, x_NSE, x_NSE, mask_NS))
    x_NTE = embedded(layer, size, "target", targets_NT)
    for decoder in network.decoders(size):
        # Padding stands behind all tokens: none of these looks at it.
        x_NTE = attended(layer, decoder.own, x_NTE, x_NTE)
        x_NTE = fed(layer, decoder.fed, attended(layer, decoder.source, x_NTE, x_NSE, mask_NS))
    return (layer("output", x_NTE),)


def criterion(outputs: Tuple[tf.Tensor], following_NT: tf.Tensor, shares_NT: tf.Tensor) -> tf.Tensor:
    return weighted_cross_entropy(outputs[0], following_NT, shares_NT, network.LABEL_SMOOTHING)


def embedded(layer: Callable[..., tf.Tensor], size: Size, side: str, tokens_NQ: tf.Tensor) -> tf.Tensor:
    x_NQE = layer("tokens", tokens_NQ) * size["width"] ** 0.5
    return layer(side + "_drop", layer(side + "_positions", x_NQE))


def attended(
    layer: Callable[..., tf.Tensor], part: network.Attended, x_NQE: tf.Tensor, seen_NSE: tf.Tensor, *mask_NS: tf.Tensor
) -> tf.Tensor:
    """``mask_NS``: of what is looked at, if there is padding before a token of it."""
    given = [layer(one.name, x) for one, x in ((part.query, x_NQE), (part.key, seen_NSE), (part.value, seen_NSE))]
    y_NQE = layer(part.projection.name, layer(part.attention.name, [*given, *mask_NS]))
    return layer(part.norm.name, x_NQE + layer(part.drop.name, y_NQE))


def fed(layer: Callable[..., tf.Tensor], part: network.Fed, x_NQE: tf.Tensor) -> tf.Tensor:
    y_NQE = layer(part.outer.name, relu(part.inner.name + ".relu", layer(part.inner.name, x_NQE)))
    return layer(part.norm.name, x_NQE + layer(part.drop.name, y_NQE))
