"""The LSTM classifier in TensorFlow operations, with PyTorch's gates, biases and names.

A layer is one operator for all words, BlockLSTM, on CPU devices and on GPUs alike: Keras's layer is a loop in the graph
with some ten operators per word. (Not BlockLSTMV2, which has PyTorch's order of the gates: TensorFlow 2.21 gives it the
gradient of the other, in the wrong order.)

Dimensions: N texts of a batch, T words, V words of the vocabulary, E numbers per word, H per hidden state, G = 4 H of
the gates, K classes.
"""

import collections

import numpy
import tensorflow as tf

from suites.datasets import texts
from suites.models.lstm_classifier import architecture


def to_layout(name, value):
    """Return an array of ``architecture.shapes`` (GE, GH, KH) in TensorFlow's layout (EG, HG, HK).

    The embedding (VE) is alike. Of the four gates BlockLSTM has the second and the third the other way round.
    """
    if name.startswith("lstm."):
        enter, forget, cell, leave = numpy.split(value, 4)
        value = numpy.concatenate([enter, cell, forget, leave])
    return numpy.ascontiguousarray(value.T) if value.ndim == 2 and name != "embedding.weight" else value


def from_layout(name, value):
    """The reverse of ``to_layout``."""
    if value.ndim == 2 and name != "embedding.weight":
        value = value.T
    if name.startswith("lstm."):
        enter, cell, forget, leave = numpy.split(value, 4)
        value = numpy.concatenate([enter, forget, cell, leave])
    return value


class Classifier(tf.Module):
    """The network of a size (a table of ``[sizes]`` in ``model.toml``), beginning with ``weights`` {name: array}."""

    def __init__(self, size, weights):
        super().__init__()
        self._layers = architecture.layers(size)
        self.weights = collections.OrderedDict()
        for name in architecture.shapes(size):
            self.weights[name] = tf.Variable(to_layout(name, weights[name]), name=name)

    def __call__(self, tokens_NT, shares_NT):
        with tf.name_scope("embedding"):
            x_TNE = tf.gather(self.weights["embedding.weight"], tf.transpose(tokens_NT))
        for layer in self._layers:
            with tf.name_scope("lstm." + layer.name):
                x_TNE = self._remember(layer, x_TNE)
        with tf.name_scope("mean"):
            x_NH = tf.reduce_sum(x_TNE * tf.expand_dims(tf.transpose(shares_NT), 2), axis=0)
        with tf.name_scope("fc"):
            return tf.matmul(x_NH, self.weights["fc.weight"]) + self.weights["fc.bias"]

    def _remember(self, layer, x_TNE):
        """Return the hidden states x_TNH of a layer, all of which begin with zeros."""
        of_input, of_state, bias, other_bias = (
            self.weights["lstm.%s_%s" % (part, layer.name)] for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        begin_NH = tf.zeros([tf.shape(x_TNE)[1], layer.hidden], x_TNE.dtype)
        unused_H = tf.zeros([layer.hidden], x_TNE.dtype)
        return tf.raw_ops.BlockLSTM(
            seq_len_max=tf.shape(x_TNE, tf.int64)[0],
            x=x_TNE,
            cs_prev=begin_NH,
            h_prev=begin_NH,
            w=tf.concat([of_input, of_state], axis=0),
            wci=unused_H,
            wcf=unused_H,
            wco=unused_H,
            b=bias + other_bias,
            # Neither of TensorFlow's additions to the cell.
            forget_bias=0.0,
            cell_clip=0.0,
            use_peephole=False,
        ).h


class Model(object):
    """What the adapter trains: a network's variables, its loss, the batches of a rank and its optimiser's numbers."""

    def __init__(self, network, batches, optimizer):
        self.network = network
        self.variables = list(network.weights.values())
        self.batches = batches
        self.optimizer = optimizer

    def loss(self, batch):
        """Return the mean cross entropy of a batch (tokens_NT, shares_NT, labels_N)."""
        tokens_NT, shares_NT, labels_N = batch
        logits_NK = self.network(tokens_NT, shares_NT)
        with tf.name_scope("loss"):
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels_N, logits=logits_NK))


def to_tensors(*arrays):
    """Return the tensors of a batch of arrays."""
    return tuple(tf.constant(array) for array in arrays)


def build(job, process):
    """Return the ``Model``, with the initial weights of the plan's seed."""
    size = job["model"]["sizes"][job["plan"]["size"]]
    network = Classifier(size, architecture.initial_weights(size, job["plan"]["seed"]))

    def batches(rank):
        return texts.batches(job, rank, size, to_tensors)

    return Model(network, batches, architecture.optimizer(job))
