"""The layers of a network as blocks of MXNet's Gluon. Images are NCHW."""

from typing import Any, Dict, List, Sequence, Union

import mxnet as mx
import numpy
from mxnet.gluon import nn

from suites.assemble import layers

# What is added to the scores of keys that are not looked at: their share becomes exactly 0.
_NOTHING = -1e9


class Bucketed(nn.HybridBlock):
    """A network that is bound to each shape of batches once, and goes back to what was bound when the shape comes
    again: graphs with memory of their own, of the same weights.

    One that is bound by ``static_shape`` would be planned and bound anew whenever the shape changes.
    """

    def _clear_cached_op(self):
        super(Bucketed, self)._clear_cached_op()
        self._bound = {}

    def _call_cached_op(self, *batch):
        shapes = tuple(array.shape for array in batch)
        self._cached_op = self._bound.get(shapes)
        found = super(Bucketed, self)._call_cached_op(*batch)
        self._bound[shapes] = self._cached_op
        return found


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


def _recurrent(layer):
    if layer.cell == "gru":
        return mx.gluon.rnn.GRU(layer.hidden, layout="NTC", input_size=layer.inputs)
    return mx.gluon.rnn.RNN(layer.hidden, activation="tanh", layout="NTC", input_size=layer.inputs)


class _Bidirectional(nn.HybridBlock):
    """Two recurrent blocks, ``ahead`` and ``back``; ``mask_NT``: 1 for what is no padding, 0 for padding. Their hidden
    states are added, or else stand side by side.

    On CPU devices MXNet's own bidirectional operator pays no heed to lengths, whatever it is told.
    """

    def __init__(self, ahead, back, added=False):
        super(_Bidirectional, self).__init__()
        self.ahead, self.back, self._added = ahead, back, added

    def hybrid_forward(self, F, x_NTE, mask_NT):
        lengths_N = F.sum(mask_NT, axis=1)
        ahead_NTH = self.ahead(x_NTE)
        back_NTH = _turned(F, self.back(_turned(F, x_NTE, lengths_N)), lengths_N)
        return ahead_NTH + back_NTH if self._added else F.concat(ahead_NTH, back_NTH, dim=2)


def _side_by_side(layer):
    """See ``layers.BidirectionalLstm``."""
    return _Bidirectional(*(_lstm([one]) for one in layer.directions))


def _both_added(layer):
    """See ``layers.BidirectionalRecurrent``."""
    return _Bidirectional(*(_recurrent(one) for one in layer.directions), added=True)


def _turned(F, x_NTE, lengths_N):
    """Turn the first places of each sample round, so many as its length is."""
    x_TNE = F.SequenceReverse(F.swapaxes(x_NTE, dim1=0, dim2=1), lengths_N, use_sequence_length=True)
    return F.swapaxes(x_TNE, dim1=0, dim2=1)


class _FixedNormalization(nn.HybridBlock):
    """See ``layers.FixedNormalization``. By MXNet's operator of given statistics, which takes half as long as a product
    and a sum; these are such that they change nothing."""

    # A whole power of two: it and the variance are 1 exactly.
    _EPSILON = 2.0**-10

    def __init__(self, layer):
        super(_FixedNormalization, self).__init__()
        for name in ("weight", "bias"):
            setattr(self, name, self.params.get(name, shape=(layer.channels,)))
        self.mean = self.params.get_constant("mean", numpy.zeros(layer.channels, "float32"))
        self.variance = self.params.get_constant("variance", numpy.full(layer.channels, 1.0 - self._EPSILON, "float32"))

    def hybrid_forward(self, F, x_NCHW, weight, bias, mean, variance):
        return F.BatchNorm(
            x_NCHW, weight, bias, mean, variance, eps=self._EPSILON, fix_gamma=False, use_global_stats=True
        )


class _SequenceNormalization(nn.BatchNorm):
    """See ``layers.SequenceNormalization``; of x_NCHT or x_NTC. ``mask_NT``: 1 for what is no padding, 0 for padding.

    MXNet's operator takes no mask, and running statistics are its alone to change. So it is given two points of each
    channel, a deviation below the mean and one above: their mean and variance are those of the channel without padding.
    What it makes of the two, by these or as it is evaluated by the running ones, is a line on which all others are.
    """

    # So little that it changes no variance; it keeps the square root from having no gradient.
    _LEAST = 1e-12

    def __init__(self, layer):
        super(_SequenceNormalization, self).__init__(
            momentum=1.0 - layer.MOMENTUM, epsilon=layer.epsilon, in_channels=layer.channels
        )
        self._axes, self._of_channels = ((0, 2, 3), (1, -1, 1, 1)) if layer.maps else ((0, 1), (1, 1, -1))
        self._of_mask = (0, 1, 1, -1) if layer.maps else (0, -1, 1)

    def hybrid_forward(self, F, x, mask_NT, **parameters):
        mask = F.reshape(mask_NT, shape=self._of_mask)
        share = F.mean(mask, axis=self._axes, keepdims=True)
        mean = self._mean(F, x, mask, share)
        centred = F.broadcast_sub(x, mean)
        deviation = F.sqrt(self._mean(F, F.square(centred), mask, share) + self._LEAST)
        points_2C = F.concat(*(F.reshape(one, shape=(1, -1)) for one in (mean - deviation, mean + deviation)), dim=0)
        found_2C = super(_SequenceNormalization, self).hybrid_forward(F, points_2C, **parameters)
        below, above = (F.reshape(one, shape=self._of_channels) for one in F.split(found_2C, num_outputs=2, axis=0))
        slope, middle = 0.5 * (above - below) / deviation, 0.5 * (above + below)
        return F.broadcast_add(F.broadcast_mul(centred, slope), middle)

    def _mean(self, F, x, mask, share):
        return F.broadcast_div(F.mean(F.broadcast_mul(x, mask), axis=self._axes, keepdims=True), share)


class _AdditiveAttention(nn.HybridBlock):
    """See ``layers.AdditiveAttention``; it takes one query of each sample. ``mask_NT``: as in ``_Attention``."""

    def __init__(self, layer):
        super(_AdditiveAttention, self).__init__()
        self.weight = self.params.get("weight", shape=(layer.width,))

    def hybrid_forward(self, F, query_NW, keys_NTW, values_NTE, mask_NT, weight):
        hidden_NTW = F.tanh(F.broadcast_add(keys_NTW, F.expand_dims(query_NW, axis=1)))
        weight_1W = F.expand_dims(weight, axis=0)
        scores_NT1 = F.FullyConnected(hidden_NTW, weight_1W, num_hidden=1, no_bias=True, flatten=False)
        scores_NT = F.broadcast_add(F.squeeze(scores_NT1, axis=2), (1.0 - mask_NT) * _NOTHING)
        weights_N1T = F.expand_dims(F.softmax(scores_NT, axis=1), axis=1)
        return F.squeeze(F.batch_dot(weights_N1T, values_NTE), axis=1)


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


def alike(F: Any, constant: Any, x: Any, *axes: int) -> Any:
    """Return the beginning of a constant that is as long along ``axes`` as ``x``, which gets no gradient by it."""
    return F.slice_like(constant, F.stop_gradient(x), axes=axes)


class _Positions(nn.HybridBlock):
    """See ``layers.Positions``. Of fewer places than the layer has they are the first ones."""

    def __init__(self, layer):
        super(_Positions, self).__init__()
        self.table = self.params.get_constant("table", layer.table()[None].astype("float32"))

    def hybrid_forward(self, F, x_NTE, table):
        return F.broadcast_add(x_NTE, alike(F, table, x_NTE, 1))


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
            scores_BQT = F.broadcast_add(scores_BQT, alike(F, before_1QT, scores_BQT, 1, 2))
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
    layers.FixedNormalization: _FixedNormalization,
    layers.SequenceNormalization: _SequenceNormalization,
    layers.LayerNormalization: lambda layer: nn.LayerNorm(epsilon=layer.epsilon, in_channels=layer.width),
    layers.Positions: _Positions,
    layers.Attention: _Attention,
    layers.Embedding: lambda layer: nn.Embedding(layer.count, layer.width),
    layers.Lstm: _lstm,
    layers.BidirectionalLstm: _side_by_side,
    layers.BidirectionalRecurrent: _both_added,
    layers.LstmCell: lambda layer: mx.gluon.rnn.LSTMCell(layer.hidden, input_size=layer.inputs),
    layers.AdditiveAttention: _AdditiveAttention,
    layers.Pooling: _pooling,
    layers.Response: _Response,
    layers.Dropout: lambda layer: nn.Dropout(layer.rate),
}
