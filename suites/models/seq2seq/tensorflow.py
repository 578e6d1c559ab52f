"""Seq2Seq in TensorFlow: BlockLSTM over sources, cells from place to place of the targets, written out in the graph.

Dimensions: N sentences of a batch, S tokens of a source, T of a target, E numbers per token, H per hidden state, K
tokens that there are.
"""

from typing import Tuple

import tensorflow as tf

from suites.assemble.tensorflow.functions import again, single, weighted_cross_entropy
from suites.assemble.tensorflow.layers import Layers
from workers.trainer.base.signatures import Size


def outputs(
    layer: Layers, size: Size, sources_NS: tf.Tensor, mask_NS: tf.Tensor, targets_NT: tf.Tensor
) -> Tuple[tf.Tensor]:
    x_SNE = layer("source_tokens", sources_NS, before=tf.transpose)
    values_SNH = layer("encoder.upper", layer("encoder.lower", [x_SNE, mask_NS]))
    values_NSH = tf.transpose(values_SNH, (1, 0, 2))
    keys_NSH = layer("encoder.keys", values_NSH)
    words = tf.unstack(layer("target_tokens", targets_NT, before=tf.transpose))
    fed_NH = tf.zeros_like(words[0])
    lower = upper = (fed_NH, single(fed_NH))
    found = []
    with layer.loop():
        for word_NE in words:
            keys_NSH, values_NSH = again(keys_NSH), again(values_NSH)
            lower = layer("decoder.lower", [tf.concat([word_NE, fed_NH], axis=1), *lower])
            upper = layer("decoder.upper", [lower[0], *upper])
            query_NH = layer("decoder.query", upper[0])
            context_NH = layer("decoder.attention", [query_NH, keys_NSH, values_NSH, mask_NS])
            fed_NH = layer("decoder.vector", tf.concat([upper[0], context_NH], axis=1))
            found.append(fed_NH)
    return (layer("output", tf.stack(found, axis=1)),)


def criterion(outputs: Tuple[tf.Tensor], following_NT: tf.Tensor, shares_NT: tf.Tensor) -> tf.Tensor:
    return weighted_cross_entropy(outputs[0], following_NT, shares_NT)
