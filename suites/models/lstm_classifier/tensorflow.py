"""The LSTM classifier in TensorFlow.

Dimensions: N texts of a batch, T words, E numbers per word, H per hidden state.
"""

from typing import Callable, Tuple

import tensorflow as tf

from suites.assemble.tensorflow.functions import cross_entropy, single
from workers.trainer.base.signatures import Size


def outputs(
    layer: Callable[..., tf.Tensor], size: Size, tokens_NT: tf.Tensor, shares_NT: tf.Tensor
) -> Tuple[tf.Tensor]:
    x_TNE = layer("embedding", tokens_NT, before=tf.transpose)
    x_TNH = layer("lstm", x_TNE)
    with tf.name_scope("mean"):
        x_NH = tf.reduce_sum(single(x_TNH) * tf.expand_dims(tf.transpose(shares_NT), 2), axis=0)
    return (layer("fc", x_NH),)


def criterion(outputs: Tuple[tf.Tensor], labels_N: tf.Tensor) -> tf.Tensor:
    return cross_entropy(outputs[0], labels_N)
