"""Makes models in MXNet's Gluon.

A model's ``mxnet.py`` has ``Network(size)``, a hybrid block that computes the loss of a batch (its mean over the
samples). It is one graph of its ``outputs(F, *inputs)``, the tuple of what the network gives, and its
``criterion(F, outputs, *targets)``. Its parameters have the names of the description, but for the words of Gluon below.
Images are NCHW.
"""

import re
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple, Union

import mxnet as mx
import numpy
from mxnet.gluon import nn

from suites import modules
from suites.assemble import layers, parts
from workers.trainer.base import optimizer, updates
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Arrays, Batches, Rule
from workers.trainer.protocol import DEVICE, HOST, PINNED

# What is added to the scores of keys that are not looked at: their share becomes exactly 0.
_NOTHING = -1e9
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


def attach(network: nn.HybridBlock, described: Sequence[layers.Layer]) -> Dict[str, nn.HybridBlock]:
    """Put the blocks of described layers beneath ``network``, at the places that their names tell; return them by
    name. What is tied to a table shares its weights."""
    made = {}
    for name, layer in layers.by_name(described).items():
        above = network
        path = name.split(".")
        for part in path[:-1]:
            if part not in above._children:
                setattr(above, part, nn.HybridBlock())
            above = above._children[part]
        made[name] = _tied(layer, made[layer.table]) if isinstance(layer, layers.Tied) else block(layer)
        setattr(above, path[-1], made[name])
    return made


def _tied(layer, table):
    return nn.Dense(layer.count, use_bias=layer.bias, flatten=False, in_units=layer.width, params=table.params)


def _linear(layer):
    return nn.Dense(layer.outputs, use_bias=layer.bias, flatten=layer.places == 1, in_units=layer.inputs)


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


def _alike(F, constant, x, *axes):
    """Return the beginning of a constant that is as long along ``axes`` as ``x``, which gets no gradient by it."""
    return F.slice_like(constant, F.stop_gradient(x), axes=axes)


class _Positions(nn.HybridBlock):
    """See ``layers.Positions``. Of fewer places than the layer has they are the first ones."""

    def __init__(self, layer):
        super(_Positions, self).__init__()
        self.table = self.params.get_constant("table", layer.table()[None].astype("float32"))

    def hybrid_forward(self, F, x_NTE, table):
        return F.broadcast_add(x_NTE, _alike(F, table, x_NTE, 1))


class _Attention(nn.HybridBlock):
    """See ``layers.Attention``. Dimensions: H heads, D numbers of each, B is N * H, Q places of queries, T of keys.

    Q and T may be less than the layer has. A last array, mask_NT, is 1 for keys that are looked at and 0 for padding;
    where there is none it is left out.
    """

    def __init__(self, layer):
        super(_Attention, self).__init__()
        self._heads = layer.heads
        self._scale = (layer.width // layer.heads) ** -0.5
        self._dropout = layer.dropout
        if layer.causal:
            before_QT = numpy.triu(numpy.full((layer.queries, layer.keys), _NOTHING, "float32"), 1)
            self.before = self.params.get_constant("before", before_QT[None])

    def hybrid_forward(self, F, queries_NQE, keys_NTE, values_NTE, *masks_NT, **constants):
        q_BQD, k_BTD, v_BTD = (self._parted(F, x) for x in (queries_NQE, keys_NTE, values_NTE))
        scores_BQT = F.batch_dot(q_BQD * self._scale, k_BTD, transpose_b=True)
        for before_1QT in constants.values():
            scores_BQT = F.broadcast_add(scores_BQT, _alike(F, before_1QT, scores_BQT, 1, 2))
        for mask_NT in masks_NT:
            nothing_N1T = F.expand_dims((1.0 - mask_NT) * _NOTHING, axis=1)
            scores_BQT = F.broadcast_add(scores_BQT, F.repeat(nothing_N1T, repeats=self._heads, axis=0))
        weights_BQT = F.softmax(scores_BQT, axis=-1)
        if self._dropout:
            weights_BQT = F.Dropout(weights_BQT, p=self._dropout)
        x_NHQD = F.reshape(F.batch_dot(weights_BQT, v_BTD), shape=(-4, -1, self._heads, 0, 0))
        return F.reshape(F.transpose(x_NHQD, axes=(0, 2, 1, 3)), shape=(0, 0, -3))

    def _parted(self, F, x_NTE):
        x_NTHD = F.reshape(x_NTE, shape=(0, 0, -4, self._heads, -1))
        return F.reshape(F.transpose(x_NTHD, axes=(0, 2, 1, 3)), shape=(-3, 0, 0))


_BLOCKS = {
    layers.Convolution: _convolution,
    layers.Linear: _linear,
    layers.Normalization: _normalization,
    layers.LayerNormalization: lambda layer: nn.LayerNorm(epsilon=layer.epsilon, in_channels=layer.width),
    layers.Positions: _Positions,
    layers.Attention: _Attention,
    layers.Embedding: lambda layer: nn.Embedding(layer.count, layer.width),
    layers.Lstm: _lstm,
    layers.Pooling: _pooling,
    layers.Response: _Response,
    layers.Dropout: lambda layer: nn.Dropout(layer.rate),
}


def weighted_cross_entropy(F: Any, logits_NTK: Any, labels_NT: Any, shares_NT: Any, smoothing: float = 0.0) -> Any:
    """Return the sum of the cross entropies, each with its share.

    ``smoothing``: the part of the labels' probability that is spread over all K.
    """
    logarithms_NTK = F.log_softmax(logits_NTK, axis=-1)
    found_NT = F.pick(logarithms_NTK, labels_NT, axis=-1)
    if smoothing:
        found_NT = (1.0 - smoothing) * found_NT + smoothing * F.mean(logarithms_NTK, axis=-1)
    return F.negative(F.sum(found_NT * shares_NT))


class _Evaluation(nn.HybridBlock):
    """The outputs of a network for its inputs, of which there are ``given``, and the loss where there are targets.

    One graph for one number of arrays. To be made before the network itself is hybridized: this hybridizes it too.
    """

    def __init__(self, network, given):
        super(_Evaluation, self).__init__()
        self.network = network
        self._given = given
        self.hybridize()

    def hybrid_forward(self, F, *batch):
        outputs = self.network.outputs(F, *batch[: self._given])
        targets = batch[self._given :]
        return outputs + ((self.network.criterion(F, outputs, *targets),) if targets else ())


class Model(object):
    """What the adapter trains: trainable parameters, their loss, the batches of a rank and the optimiser's numbers.

    Args:
        kinds: those of a batch's fields, of which so many as ``given`` are inputs.
        counts: {normalisation: how many numbers of a channel a batch has}.
    """

    def __init__(
        self,
        network: nn.HybridBlock,
        kinds: Sequence[str],
        given: int,
        names: Sequence[str],
        counts: Mapping[str, int],
        batches: Batches,
        optimizer: Rule,
    ) -> None:
        self.network = network
        self._kinds, self._given = kinds, given
        self._evaluations = [_Evaluation(network, given) for _ in range(2)]
        network.hybridize(static_alloc=True, static_shape=True)
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

    def evaluated(self, arrays: Sequence[Array], context: mx.Context) -> Tuple[List[mx.nd.NDArray], Any]:
        """Return (outputs, loss) of a batch's arrays as the network is evaluated; without targets there is no loss."""
        batch = [array_of(kind, array).as_in_context(context) for kind, array in zip(self._kinds, arrays)]
        if len(batch) == self._given:
            found = self._evaluations[0](*batch)
            return (found if isinstance(found, (list, tuple)) else [found]), None
        found = list(self._evaluations[1](*batch))
        return found[:-1], found[-1]

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
            if one.grad_req == "null" and not isinstance(one, mx.gluon.Constant):
                found[name] = one.data(one.list_ctx()[0]).asnumpy()
        before = 1.0 - layers.Normalization.MOMENTUM
        for norm, count in self._counts.items():
            new = found[norm + ".running_var"] - before
            found[norm + ".running_var"] = before + new * count / (count - 1.0)
        return found


def build(job: Job, contexts: Sequence[mx.Context]) -> Model:
    """Return the ``Model`` on ``contexts``, with its initial weights."""
    network = modules.part_of(job, "mxnet").Network(job.model.size)
    weights = parts.weights_of(job)
    load(network, weights, contexts)
    counts = {
        layer.name: job.plan.per_device_batch_size * layer.pixels**2
        for layer in parts.layers_of(job)
        if isinstance(layer, layers.Normalization)
    }
    kinds = [field.kind for field in parts.fields_of(job)]

    def batches(rank):
        # Every process has as many ranks as it has contexts.
        place = PLACES[job.plan.data_on](contexts[rank % len(contexts)])

        def to_arrays(*arrays):
            return [array_of(kind, array).as_in_context(place) for kind, array in zip(kinds, arrays)]

        return parts.batches(job, rank, "mxnet", to_arrays)

    return Model(network, kinds, parts.given_count(job), list(weights), counts, batches, optimizer.of_job(job))


def named(network: nn.HybridBlock) -> Dict[str, Any]:
    """Return {name: parameter} with the names of the description, and of the running statistics and constants; one that
    several blocks share has the name of the first."""
    found, seen = {}, set()
    for path, one in network._collect_params_with_prefix().items():
        if id(one) not in seen:
            found[_named(path)] = one
        seen.add(id(one))
    return found


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
