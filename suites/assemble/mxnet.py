"""Makes models in MXNet's Gluon.

A model's ``mxnet.py`` has ``Network(size)``, a hybrid block that computes the loss of a batch (its mean over the
samples): one graph for both. Its parameters have the names of the description, but for the words of Gluon below. Images
are NCHW.
"""

import re
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple, Union

import mxnet as mx
from mxnet.gluon import nn

from suites.assemble import layers, parts
from workers.trainer import optimizer, updates
from workers.trainer.job import Job
from workers.trainer.protocol import DEVICE, HOST, PINNED
from workers.trainer.signatures import Array, Arrays, Batches, Rule

# Gluon's names of parameters, and the description's.
_NAMES = {"gamma": "weight", "beta": "bias"}
_LSTM_NAME = re.compile(r"(.*)\._unfused\.(\d+)\.(i2h|h2h)_(weight|bias)")
_SIDES = {"i2h": "ih", "h2h": "hh"}


# Where synthetic batches lie -> that context, from a rank's own.
PLACES = {HOST: lambda own: mx.cpu(), PINNED: lambda own: mx.cpu_pinned(), DEVICE: lambda own: own}


def block(layer: Union[layers.Layer, List[layers.Lstm]]) -> nn.HybridBlock:
    """Return the block of a described layer; of an LSTM, the list of its layers is one block."""
    kind = type(layer[0]) if isinstance(layer, list) else type(layer)
    return _BLOCKS[kind](layer)


def _convolution(layer):
    return nn.Conv2D(
        layer.outputs,
        layer.kernel,
        strides=layer.stride,
        padding=layer.padding,
        use_bias=layer.bias,
        in_channels=layer.inputs,
    )


def _normalization(layer):
    # MXNet's momentum is the share of what was before.
    return nn.BatchNorm(momentum=1.0 - layer.MOMENTUM, epsilon=layer.epsilon, in_channels=layer.channels)


def _pooling(layer):
    kind = nn.AvgPool2D if layer.average else nn.MaxPool2D
    return kind(layer.kernel, strides=layer.stride, padding=layer.padding, ceil_mode=layer.ceil)


def _lstm(parts_of_it):
    first = parts_of_it[0]
    return mx.gluon.rnn.LSTM(first.hidden, len(parts_of_it), layout="NTC", input_size=first.inputs)


class _Response(nn.HybridBlock):
    """MXNet's own operator, with an axis put on and taken off so that its gradient is right.

    On CPU devices oneDNN's gradient of it is wrong (by a third where alpha is 0.5) if the layer behind hands it a
    gradient in oneDNN's blocked layout, as convolutions and poolings of 8, 16, ... channels do. Arrays of five axes
    have MXNet's layout. Seen with MXNet 1.9.1, hybridized and not; not without oneDNN.
    """

    def __init__(self, layer):
        super(_Response, self).__init__()
        self._layer = layer

    def hybrid_forward(self, F, x_NCHW):
        layer = self._layer
        y_NCHW = F.LRN(x_NCHW, alpha=layer.alpha, beta=layer.beta, knorm=layer.k, nsize=layer.size)
        return F.squeeze(F.expand_dims(y_NCHW, axis=1), axis=1)


_BLOCKS = {
    layers.Convolution: _convolution,
    layers.Linear: lambda layer: nn.Dense(layer.outputs, in_units=layer.inputs),
    layers.Normalization: _normalization,
    layers.Embedding: lambda layer: nn.Embedding(layer.count, layer.width),
    layers.Lstm: _lstm,
    layers.Pooling: _pooling,
    layers.Response: _Response,
    layers.Dropout: lambda layer: nn.Dropout(layer.rate),
}


class Model(object):
    """What the adapter trains: trainable parameters, their loss, the batches of a rank and the optimiser's numbers.

    Args:
        counts: {normalisation: how many numbers of a channel a batch has}.
    """

    def __init__(
        self,
        network: nn.HybridBlock,
        names: Sequence[str],
        counts: Mapping[str, int],
        batches: Batches,
        optimizer: Rule,
    ) -> None:
        self.network = network
        self._names = names
        self._counts = counts
        found = named(network)
        self.parameters = [found[name] for name in names]
        self.batches = batches
        self._optimizer = optimizer

    @property
    def updates(self) -> Tuple[updates.Update, ...]:
        """All its parameters by its one loss."""
        return updates.whole(self.loss, self.parameters, self._optimizer)

    def loss(self, batch: Sequence[Any]) -> Any:
        """Return the loss of a batch, on the batch's device."""
        return self.network(*batch)

    def described(self, arrays: Iterable[Array]) -> Dict[str, Array]:
        """Return {name: described array} of an array for each of ``parameters``: MXNet has the described layouts."""
        return dict(zip(self._names, arrays))

    def running(self) -> Dict[str, Array]:
        """Return {name: array} of the running statistics on the first device, after one batch.

        MXNet averages the mean square over a batch's numbers of a channel, others that of one number less: theirs is
        returned.
        """
        found = {}
        for name, one in named(self.network).items():
            if one.grad_req == "null":
                found[name] = one.data(one.list_ctx()[0]).asnumpy()
        before = 1.0 - layers.Normalization.MOMENTUM
        for norm, count in self._counts.items():
            new = found[norm + ".running_var"] - before
            found[norm + ".running_var"] = before + new * count / (count - 1.0)
        return found


def build(job: Job, contexts: Sequence[mx.Context]) -> Model:
    """Return the ``Model`` on ``contexts``, with its initial weights."""
    network = parts.framework_of(job, "mxnet").Network(job.model.size)
    weights = parts.weights_of(job)
    load(network, weights, contexts)
    counts = {
        layer.name: job.plan.per_device_batch_size * layer.pixels**2
        for layer in parts.layers_of(job)
        if isinstance(layer, layers.Normalization)
    }
    network.hybridize(static_alloc=True, static_shape=True)
    kinds = [field.kind for field in parts.fields_of(job)]

    def batches(rank):
        # Every process has as many ranks as it has contexts.
        place = PLACES[job.plan.data_on](contexts[rank % len(contexts)])

        def to_arrays(*arrays):
            return [array_of(kind, array).as_in_context(place) for kind, array in zip(kinds, arrays)]

        return parts.batches(job, rank, "mxnet", to_arrays)

    return Model(network, list(weights), counts, batches, optimizer.of_job(job))


def named(network: nn.HybridBlock) -> Dict[str, Any]:
    """Return {name: parameter} with the names of the description, and of the running statistics."""
    return {_named(path): one for path, one in network._collect_params_with_prefix().items()}


def _named(path):
    matched = _LSTM_NAME.match(path)
    if matched:
        layer, number, side, kind = matched.groups()
        return "%s.%s_%s_l%s" % (layer, kind, _SIDES[side], number)
    prefix, _, last = path.rpartition(".")
    return prefix + "." + _NAMES.get(last, last)


def load(network: nn.HybridBlock, weights: Arrays, contexts: Sequence[mx.Context]) -> None:
    """Take {name: array} as the trainable parameters, on all ``contexts``; all of them must be there.

    Raises:
        KeyError: the network has a parameter that the description lacks.
    """
    network.initialize(ctx=contexts)
    for name, parameter in named(network).items():
        # No more than one copy at a time.
        mx.nd.waitall()
        if parameter.grad_req != "null":
            parameter.set_data(mx.nd.array(weights[name]))


def array_of(kind: str, array: Array) -> mx.nd.NDArray:
    """Return MXNet's array, on the host, of an array of a batch, see ``suites.inputs.Field``."""
    if kind in ("label", "tokens"):
        return mx.nd.array(array, dtype="int32")
    return mx.nd.array(array.transpose(0, 3, 1, 2) if kind == "image" else array, dtype="float32")
