"""Deep Speech 2 in TensorFlow, with its own CTC; its recurrent cells are written out in a loop.

Dimensions: N utterances of a batch, F frequencies, T frames, C channels, H frequencies and P places of a map, E numbers
of a place, K symbols, L characters of a transcript.
"""

from typing import Tuple

import tensorflow as tf

from suites.assemble.tensorflow.functions import single
from suites.assemble.tensorflow.layers import Layers
from suites.models.deep_speech_2 import network
from workers.trainer.base.signatures import Size


def outputs(layer: Layers, size: Size, spectrograms_NFT: tf.Tensor, mask_NT: tf.Tensor) -> Tuple[tf.Tensor]:
    x_NHPC, mask_NP = spectrograms_NFT[..., None], mask_NT
    for name, (_, stride) in zip(("convolution1", "convolution2"), network.STRIDES):
        mask_NP = mask_NP[:, ::stride]
        x_NHPC = layer(name + "_norm", [layer(name, x_NHPC), mask_NP])
        with tf.name_scope(name + "_clip"):
            # Behind an utterance is nothing, as beyond the border.
            x_NHPC = tf.clip_by_value(x_NHPC, 0.0, network.MOST) * tf.cast(mask_NP[:, None, :, None], x_NHPC.dtype)
    # All numbers of a place in the order of the other frameworks: channels first.
    x_PNCH = tf.transpose(x_NHPC, (2, 0, 3, 1))
    x_PNE = tf.reshape(x_PNCH, (*x_PNCH.shape[:2], -1))
    for number in range(1, size["recurrent_layers"] + 1):
        name = "recurrent%d" % number
        x_PNE = layer(name + "_norm", [x_PNE, mask_NP]) if number > 1 else x_PNE
        x_PNE = layer(name, [x_PNE, mask_NP])
    logits_PNK = layer("output", layer("output_norm", [x_PNE, mask_NP]))
    return (tf.transpose(logits_PNK, (1, 0, 2)),)


def criterion(outputs: Tuple[tf.Tensor], labels_NL: tf.Tensor, places_N: tf.Tensor) -> tf.Tensor:
    with tf.name_scope("loss"):
        where = tf.where(labels_NL > 0)
        values = tf.cast(tf.gather_nd(labels_NL, where), tf.int32)
        # The blank comes last there.
        logits_PNK = tf.roll(tf.transpose(single(outputs[0]), (1, 0, 2)), -1, axis=2)
        found = tf.raw_ops.CTCLoss(
            inputs=logits_PNK,
            labels_indices=where,
            labels_values=values - 1,
            sequence_length=tf.cast(places_N, tf.int32),
        )
        return tf.reduce_mean(found.loss)
