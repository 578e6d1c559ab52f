"""A3C in TensorFlow. Dimensions: N agent steps of a batch, C images, H height, W width, F features, A actions."""

from typing import Callable, Tuple

import tensorflow as tf

from suites.assemble.tensorflow.functions import flat, relu, single
from suites.models.a3c import network
from workers.trainer.base.signatures import Size


def outputs(layer: Callable[..., tf.Tensor], size: Size, images_NHWC: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Return the logits of the actions, and what the state is worth."""
    x_NHWC = relu("relu1", layer("conv1", images_NHWC))
    x_NHWC = relu("relu2", layer("conv2", x_NHWC))
    x_NF = relu("relu3", layer("fc", x_NHWC, before=flat))
    logits_NA, values_N1 = layer("policy", x_NF), layer("value", x_NF)
    with tf.name_scope("values"):
        return logits_NA, tf.squeeze(values_N1, axis=1)


def criterion(outputs: Tuple[tf.Tensor, tf.Tensor], actions_N: tf.Tensor, returns_N: tf.Tensor) -> tf.Tensor:
    """Mnih et al., 2016, section 4: through the advantage no gradient flows."""
    with tf.name_scope("loss"):
        logits_NA, values_N = map(single, outputs)
        errors_N = returns_N - values_N
        logarithms_NA = tf.nn.log_softmax(logits_NA)
        taken_N = tf.gather(logarithms_NA, actions_N, axis=1, batch_dims=1)
        entropies_N = -tf.reduce_sum(tf.exp(logarithms_NA) * logarithms_NA, axis=1)
        losses_N = -taken_N * tf.stop_gradient(errors_N) - network.ENTROPY * entropies_N
        return tf.reduce_mean(losses_N + network.VALUE * tf.square(errors_N))
