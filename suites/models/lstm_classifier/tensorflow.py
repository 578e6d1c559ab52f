"""The LSTM classifier in TensorFlow.

Dimensions: N texts of a batch, T words, E numbers per word, H per hidden state.
"""

import tensorflow as tf

from suites.assemble.tensorflow import cross_entropy


def loss(layer, size, tokens_NT, shares_NT, labels_N):
    x_TNE = layer("embedding", tokens_NT, before=tf.transpose)
    x_TNH = layer("lstm", x_TNE)
    with tf.name_scope("mean"):
        x_NH = tf.reduce_sum(x_TNH * tf.expand_dims(tf.transpose(shares_NT), 2), axis=0)
    return cross_entropy(layer("fc", x_NH), labels_N)
