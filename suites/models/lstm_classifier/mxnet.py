"""The LSTM classifier in MXNet's Gluon: its own Embedding, LSTM (one operator: oneDNN's, cuDNN's on GPUs) and Dense.

Dimensions: N texts of a batch, T words, E numbers per word, H per hidden state, K classes.
"""

import re

import mxnet as mx
from mxnet.gluon import nn

from suites.datasets import texts
from suites.models.lstm_classifier import architecture

# Gluon's names of an LSTM layer's parameters, and what ``architecture.shapes`` has for them: the gates are stacked in
# the same order.
LSTM_NAME = re.compile(r"(.*)\._unfused\.(\d+)\.(i2h|h2h)_(weight|bias)")
SIDES = {"i2h": "ih", "h2h": "hh"}


class Classifier(nn.HybridBlock):
    """The network of a size (a table of ``[sizes]`` in ``model.toml``) with its loss: one graph for both."""

    def __init__(self, size):
        super(Classifier, self).__init__()
        self.embedding = nn.Embedding(size["vocabulary"], size["embedding"])
        self.lstm = mx.gluon.rnn.LSTM(size["hidden"], size["lstm_layers"], layout="NTC", input_size=size["embedding"])
        self.fc = nn.Dense(size["classes"], in_units=size["hidden"])
        self.cross_entropy = mx.gluon.loss.SoftmaxCrossEntropyLoss()

    def hybrid_forward(self, F, tokens_NT, shares_NT, labels_N):
        x_NTE = self.embedding(tokens_NT)
        x_NTH = self.lstm(x_NTE)
        x_NH = F.sum(F.broadcast_mul(x_NTH, F.expand_dims(shares_NT, axis=2)), axis=1)
        return F.mean(self.cross_entropy(self.fc(x_NH), labels_N))

    def named(self):
        """Return {name: parameter} with the names of ``architecture.shapes``."""
        return {_named(path): parameter for path, parameter in self._collect_params_with_prefix().items()}

    def load(self, weights, contexts):
        """Take {name: array} of ``architecture.shapes`` as the trainable parameters, on all ``contexts``."""
        self.initialize(ctx=contexts)
        for name, parameter in self.named().items():
            # No more than one copy at a time.
            mx.nd.waitall()
            parameter.set_data(mx.nd.array(weights[name]))


def _named(path):
    matched = LSTM_NAME.match(path)
    if not matched:
        return path
    layer, number, side, kind = matched.groups()
    return "%s.%s_%s_l%s" % (layer, kind, SIDES[side], number)


class Model(object):
    """What the adapter trains: trainable parameters, their loss, the batches of a rank and the optimiser's numbers."""

    def __init__(self, network, names, batches, optimizer):
        self.network = network
        named = network.named()
        self.parameters = [named[name] for name in names]
        self.batches = batches
        self.optimizer = optimizer

    def loss(self, batch):
        """Return the mean cross entropy of a batch (tokens_NT, shares_NT, labels_N) on the batch's device."""
        return self.network(*batch)


def to_arrays(tokens_NT, shares_NT, labels_N):
    """Return the arrays of a batch as MXNet's."""
    return (
        mx.nd.array(tokens_NT, dtype="int32"),
        mx.nd.array(shares_NT, dtype="float32"),
        mx.nd.array(labels_N, dtype="int32"),
    )


def build(job, contexts):
    """Return the ``Model`` on ``contexts``, with the initial weights of the plan's seed."""
    size = job["model"]["sizes"][job["plan"]["size"]]
    network = Classifier(size)
    network.load(architecture.initial_weights(size, job["plan"]["seed"]), contexts)
    network.hybridize(static_alloc=True, static_shape=True)

    def batches(rank):
        return texts.batches(job, rank, size, to_arrays)

    return Model(network, architecture.shapes(size), batches, architecture.optimizer(job))
