"""BERT in TensorFlow.

Dimensions: N sequences of a batch, T tokens, E numbers per token, P hidden tokens, K tokens there are.
"""

from typing import Callable, Tuple

import tensorflow as tf

from suites.assemble.tensorflow.functions import cross_entropy, gelu, weighted_cross_entropy
from suites.models.bert_base import network
from workers.trainer.base.signatures import Size


def outputs(
    layer: Callable[..., tf.Tensor],
    size: Size,
    tokens_NT: tf.Tensor,
    segments_NT: tf.Tensor,
    mask_NT: tf.Tensor,
    *places_NP: tf.Tensor,
) -> Tuple[tf.Tensor, ...]:
    """Return the logits of the answer's ends, or of the hidden tokens at ``places_NP`` and of the second text."""
    x_NTE = layer("embeddings.tokens", tokens_NT) + layer("embeddings.segments", segments_NT)
    x_NTE += layer("embeddings.positions", tf.range(tokens_NT.shape[1]))
    x_NTE = layer("embeddings.drop", layer("embeddings.norm", x_NTE))
    for block in network.blocks(size):
        x_NTE = block_of(layer, block, x_NTE, mask_NT)
    if size["task"] == "finetune":
        return (layer("answer", x_NTE),)
    x_NPE = tf.gather(x_NTE, places_NP[0], batch_dims=1)
    x_NPE = layer("transform_norm", gelu("transform.gelu", layer("transform", x_NPE)))
    logits_NPK = layer("output", x_NPE)
    pooled_NE = layer("pooler", x_NTE[:, 0])
    return logits_NPK, layer("following", tf.tanh(pooled_NE))


def criterion(outputs: Tuple[tf.Tensor, ...], *targets: tf.Tensor) -> tf.Tensor:
    """Return the sum of both losses of pre-training, or the mean of those of an answer's two ends."""
    if len(outputs) == 1:
        logits_2NT = tf.transpose(outputs[0], (2, 0, 1))
        return (cross_entropy(logits_2NT[0], targets[0]) + cross_entropy(logits_2NT[1], targets[1])) / 2
    logits_NPK, logits_N2 = outputs
    originals_NP, shares_NP, following_N = targets
    of_tokens = weighted_cross_entropy(logits_NPK, originals_NP, shares_NP)
    return of_tokens + cross_entropy(logits_N2, following_N)


def block_of(layer: Callable[..., tf.Tensor], block: network.Block, x_NTE: tf.Tensor, mask_NT: tf.Tensor) -> tf.Tensor:
    """Sums are normalised after each part."""
    given = [layer(one.name, x_NTE) for one in (block.query, block.key, block.value)]
    attended_NTE = layer(block.projection.name, layer(block.attention.name, [*given, mask_NT]))
    x_NTE = layer(block.attention_norm.name, x_NTE + layer(block.attention_drop.name, attended_NTE))
    inner_NTI = gelu(block.inner.name + ".gelu", layer(block.inner.name, x_NTE))
    return layer(block.norm.name, x_NTE + layer(block.drop.name, layer(block.outer.name, inner_NTI)))
