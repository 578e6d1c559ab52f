"""What a network in TensorFlow computes beside its layers: functions between them, and losses."""

from typing import ContextManager

import tensorflow as tf


def scope(name: str) -> ContextManager[str]:
    """Return the name scope ``name``, which may be there already: TensorFlow would number another one."""
    outer = tf.get_current_name_scope()
    return tf.name_scope("%s/%s/" % (outer, name) if outer else name + "/")


def single(x: tf.Tensor) -> tf.Tensor:
    """Return ``x`` in single precision: for sums, and for what is between layers."""
    return tf.cast(x, tf.float32)


def again(x: tf.Tensor) -> tf.Tensor:
    """Return ``x``, to be read another time: in a loop that is written out, where each time reads what the time before
    has read, its gradients are added up one by one on the way back.

    Of all of them TensorFlow would make one sum at the end, and keep each until then (of Seq2Seq's 30 times 0.6 GB). So
    would its optimiser of graphs, of sums of sums; the copy between them takes no memory of its own.
    """
    # As TensorFlow calls the gradients of a scope, which it does not do here.
    gradients = "gradient_tape/" + tf.get_current_name_scope()

    @tf.custom_gradient
    def read(x):
        def backward(gradient):
            with tf.name_scope(gradients):
                return tf.raw_ops.Snapshot(input=gradient)

        return tf.identity(x), backward

    return read(x)


def relu(name: str, x: tf.Tensor) -> tf.Tensor:
    with scope(name):
        return tf.nn.relu(x)


def gelu(name: str, x: tf.Tensor) -> tf.Tensor:
    """Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2: the approximation by tanh."""
    with tf.name_scope(name):
        return tf.nn.gelu(x, approximate=True)


def flat(x_NHWC: tf.Tensor) -> tf.Tensor:
    """Return all numbers of each image as x_NF, in the order of the other frameworks: channels first."""
    x_NCHW = tf.transpose(x_NHWC, (0, 3, 1, 2))
    return tf.reshape(x_NCHW, (x_NCHW.shape[0], -1))


def cross_entropy(logits_NK: tf.Tensor, labels_N: tf.Tensor) -> tf.Tensor:
    """Return the mean cross entropy."""
    with tf.name_scope("loss"):
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels_N, logits=single(logits_NK)))


def weighted_cross_entropy(
    logits_NTK: tf.Tensor, labels_NT: tf.Tensor, shares_NT: tf.Tensor, smoothing: float = 0.0
) -> tf.Tensor:
    """Return the sum of the cross entropies, each with its share.

    ``smoothing``: the part of the labels' probability that is spread over all K.
    """
    with tf.name_scope("loss"):
        logits_NTK = single(logits_NTK)
        found_NT = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels_NT, logits=logits_NTK)
        if smoothing:
            # That to the even distribution; picking a logit of each row would have a gradient that is mostly zeros.
            even_NT = tf.reduce_logsumexp(logits_NTK, axis=2) - tf.reduce_mean(logits_NTK, axis=2)
            found_NT = (1.0 - smoothing) * found_NT + smoothing * even_NT
        return tf.reduce_sum(found_NT * shares_NT)
