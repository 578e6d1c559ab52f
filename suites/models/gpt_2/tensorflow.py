"""GPT-2 in TensorFlow. Dimensions: N sequences of a batch, T tokens, E numbers per token, K tokens there are."""

from typing import Callable, Tuple

import tensorflow as tf

from suites.assemble.tensorflow.functions import cross_entropy, gelu
from suites.models.gpt_2 import network
from workers.trainer.base.signatures import Size


def outputs(layer: Callable[..., tf.Tensor], size: Size, tokens_NT: tf.Tensor) -> Tuple[tf.Tensor]:
    x_TE = layer("wpe", tf.range(tokens_NT.shape[1]))
    x_NTE = layer("drop", layer("wte", tokens_NT) + x_TE)
    for block in network.blocks(size):
        x_NTE = block_of(layer, block, x_NTE)
    return (layer("output", layer("ln_f", x_NTE)),)


def criterion(outputs: Tuple[tf.Tensor], following_NT: tf.Tensor) -> tf.Tensor:
    return cross_entropy(outputs[0], following_NT)


def block_of(layer: Callable[..., tf.Tensor], block: network.Block, x_NTE: tf.Tensor) -> tf.Tensor:
    """Each part reads the normalised sum, and is added to the sum itself."""
    attended_NTE = layer(block.attention.name, tf.split(layer(block.c_attn.name, layer(block.ln_1.name, x_NTE)), 3, 2))
    x_NTE += layer(block.attn_drop.name, layer(block.attn_proj.name, attended_NTE))
    inner_NTE = gelu(block.name + ".mlp.gelu", layer(block.c_fc.name, layer(block.ln_2.name, x_NTE)))
    return x_NTE + layer(block.mlp_drop.name, layer(block.mlp_proj.name, inner_NTE))
