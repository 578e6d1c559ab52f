"""The layers of a network in TensorFlow's operations, with PyTorch's paddings, statistics and names. Images are NHWC.

In 16 bits, what a layer gives is in 16 bits, as in Keras's mixed precision, and so are the weights that it multiplies
by. Normalisations, the softmax of an attention and losses compute in single precision; what a model adds up itself goes
through ``single``. In single precision no cast is there.
"""

import collections
import contextlib
from typing import Callable, Dict, Iterable, Iterator, Optional, Sequence

import numpy
import tensorflow as tf

from suites.assemble import layers, layouts
from suites.assemble.tensorflow.functions import again, scope, single
from suites.assemble.tensorflow.recurrent import block_lstm, hidden_states
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.signatures import Array, Arrays

# Of the four gates BlockLSTM has the second and the third the other way round.
_GATES = (0, 2, 1, 3)

LAYOUTS = {
    "convolution": layouts.Layout(None, (2, 3, 1, 0)),
    "matrix": layouts.TRANSPOSED,
    "lstm": layouts.Layout(_GATES, (1, 0)),
    "lstm_bias": layouts.Layout(_GATES, None),
}

# What is added to the scores of keys that are not looked at: their share becomes exactly 0.
_NOTHING = -1e9

# What is computed by BlockLSTM.
_BLOCKS_OF_LSTM = (layers.Lstm, layers.BidirectionalLstm)

# Of the trainable variables, and of what layers give and multiply.
Types = collections.namedtuple("Types", "stored computed")

SINGLE = Types(tf.float32, tf.float32)


def types_of(precision: str, kind: str) -> Types:
    """Return the ``Types`` of a precision on a kind of device; ``amp-bf16`` on CPU devices is no matter of models."""
    if precision == "bf16":
        return Types(tf.bfloat16, tf.bfloat16)
    if precision == "amp-fp16":
        return Types(tf.float32, tf.float16)
    return Types(tf.float32, tf.bfloat16) if precision == "amp-bf16" and kind != "cpu" else SINGLE


class Layers(object):
    """The layers of a network by name, beginning with ``weights`` {name: described array}.

    ``variables`` {name: trainable variable} in the order of the forward pass; ``statistics`` {norm: (mean, variance)}.
    ``compiled``: whether XLA is to compile them. ``types``: what they are stored and computed in. ``seed``: what is
    dropped is drawn by it and by the step, see ``draw``.

    Raises:
        TrainerError: ``unsupported``, a layer is not there in bfloat16.
    """

    def __init__(
        self,
        described: Sequence[layers.Layer],
        weights: Arrays,
        compiled: bool = False,
        types: Types = SINGLE,
        seed: int = 0,
    ) -> None:
        self._compiled = compiled
        self._types = types
        if types.stored == tf.bfloat16 and any(isinstance(layer, _BLOCKS_OF_LSTM) for layer in described):
            raise TrainerError("unsupported", "TensorFlow's LSTM (BlockLSTM) has no bfloat16")
        self._layers = layers.by_name(described)
        self._parameters = layers.parameters(described)
        self.variables = collections.OrderedDict()
        for one in self._parameters:
            value = layouts.apply(LAYOUTS.get(one.kind, layouts.AS_IT_IS), weights[one.name])
            self.variables[one.name] = tf.Variable(_stored(value, types.stored), name=one.name)
        self.statistics = {}
        self._trains = True
        # Within ``loop``: {name: the weight as it was read last}.
        self._held = None
        self._tied = {layer.table for layer in described if isinstance(layer, layers.Tied)}
        self._seed, self._draws = seed, None
        self._dropping = [one.name for one in described if getattr(one, "rate", 0.0) or getattr(one, "dropout", 0.0)]
        if self._dropping:
            with tf.device("/CPU:0"):
                self._draws = tf.Variable(tf.zeros(2, tf.int64), trainable=False)
        for layer in described:
            if isinstance(layer, (layers.Normalization, layers.SequenceNormalization)):
                mean, variance = numpy.zeros(layer.channels), numpy.ones(layer.channels)
                self.statistics[layer.name] = (_statistic(mean), _statistic(variance))

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Within it normalisations take the running statistics, and nothing is dropped."""
        self._trains = False
        try:
            yield
        finally:
            self._trains = True

    def draw(self, step: int) -> None:
        """Let what is dropped be that of the step, whatever was drawn before. TensorFlow's own generators are in the
        operators of a graph, and cannot be read."""
        if self._draws is not None:
            self._draws.assign(numpy.array([self._seed, step]))

    @property
    def trains(self) -> bool:
        """Whether a batch is trained by, and not evaluated."""
        return self._trains

    @contextlib.contextmanager
    def loop(self) -> Iterator[None]:
        """Within it layers that are applied again and again read their weights by ``again``."""
        self._held = {}
        try:
            yield
        finally:
            self._held = None

    def described(self, arrays: Iterable[Array]) -> Dict[str, Array]:
        """Return {name: described array} of an array for each of ``variables``."""
        return layouts.described(LAYOUTS, self._parameters, arrays)

    def running(self) -> Dict[str, Array]:
        """Return {name: array} of the running statistics."""
        names = ("running_mean", "running_var")
        return {
            "%s.%s" % (norm, name): value.numpy()
            for norm, pair in self.statistics.items()
            for name, value in zip(names, pair)
        }

    def __call__(self, name: str, x: tf.Tensor, before: Optional[Callable[[tf.Tensor], tf.Tensor]] = None) -> tf.Tensor:
        """Return what the layer makes of ``x``, or of ``before(x)``, which then counts as the layer's."""
        layer = self._layers[name]
        if isinstance(layer, list):
            return self._lstm(layer, x)
        with scope(name):
            return _OPERATIONS[type(layer)](self, layer, self._computed(before(x) if before else x))

    def _computed(self, x):
        """Return numbers as layers compute with them; what else a layer may be given as it is."""
        return tf.cast(x, self._types.computed) if isinstance(x, tf.Tensor) and x.dtype.is_floating else x

    def _weight(self, layer, last="weight"):
        return self._of("%s.%s" % (layer.name, last))

    def _of(self, name):
        if self._held is None:
            return _as(self.variables[name], self._types.computed)
        if name in self._held:
            self._held[name] = again(self._held[name])
        else:
            self._held[name] = tf.convert_to_tensor(_as(self.variables[name], self._types.computed))
        return self._held[name]

    def _single_weight(self, layer, last="weight"):
        return _as(self.variables["%s.%s" % (layer.name, last)], tf.float32)

    def _convolution(self, layer, x_NHWC):
        strides = list(layers.sides(layer.stride))
        y_NHWC = tf.nn.conv2d(x_NHWC, self._weight(layer), strides, _padding(layer.padding))
        return tf.nn.bias_add(y_NHWC, self._weight(layer, "bias")) if layer.bias else y_NHWC

    def _transposed_convolution(self, layer, x_NHWC):
        count, height, width, _ = x_NHWC.shape
        shape = (count, layer.kernel * height, layer.kernel * width, layer.outputs)
        y_NHWC = tf.nn.conv2d_transpose(x_NHWC, self._weight(layer), shape, layer.kernel, "VALID")
        return tf.nn.bias_add(y_NHWC, self._weight(layer, "bias"))

    def _linear(self, layer, x):
        # Of vectors in several axes TensorFlow's product would be many small ones.
        x_NF = tf.reshape(x, (-1, layer.inputs)) if x.shape.rank > 2 else x
        y_NK = tf.matmul(x_NF, self._weight(layer))
        if layer.bias:
            y_NK = y_NK + self._weight(layer, "bias")
        return tf.reshape(y_NK, (*x.shape[:-1], layer.outputs)) if x.shape.rank > 2 else y_NK

    def _normalization(self, layer, x_NHWC):
        scale, shift = self._single_weight(layer), self._single_weight(layer, "bias")
        normalize = tf.compat.v1.nn.fused_batch_norm
        if not self._trains:
            known = self.statistics[layer.name]
            return normalize(x_NHWC, scale, shift, *known, epsilon=layer.epsilon, is_training=False)[0]
        y_NHWC, mean, variance = normalize(x_NHWC, scale, shift, epsilon=layer.epsilon)
        for statistic, value in zip(self.statistics[layer.name], (mean, variance)):
            statistic.assign_add(layer.MOMENTUM * (value - statistic))
        return y_NHWC

    def _fixed_normalization(self, layer, x_NHWC):
        return x_NHWC * self._weight(layer) + self._weight(layer, "bias")

    def _sequence_normalization(self, layer, given):
        """``given``: x_NHTC or x_TNC, and mask_NT: 1 for what is no padding, 0 for padding."""
        x, mask_NT = given
        found = single(x)
        mean, variance = self.statistics[layer.name]
        if self._trains:
            mask = mask_NT[:, None, :, None] if layer.maps else tf.transpose(mask_NT)[:, :, None]
            axes, count = list(range(x.shape.rank - 1)), tf.reduce_sum(mask) * (x.shape[1] if layer.maps else 1)
            mean = tf.reduce_sum(found * mask, axes) / count
            variance = tf.reduce_sum(tf.square(found - mean) * mask, axes) / count
            for statistic, value in zip(self.statistics[layer.name], (mean, variance)):
                statistic.assign_add(layer.MOMENTUM * (value - statistic))
        scale, shift = self._single_weight(layer), self._single_weight(layer, "bias")
        return self._computed((found - mean) * tf.math.rsqrt(variance + layer.epsilon) * scale + shift)

    def _layer_normalization(self, layer, x):
        x = single(x)
        centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        scale, shift = self._single_weight(layer), self._single_weight(layer, "bias")
        return self._computed(centred * tf.math.rsqrt(variance + layer.epsilon) * scale + shift)

    def _map_normalization(self, layer, x_NHWC):
        x_NHWC = single(x_NHWC)
        centred_NHWC = x_NHWC - tf.reduce_mean(x_NHWC, axis=(1, 2, 3), keepdims=True)
        variance_N111 = tf.reduce_mean(tf.square(centred_NHWC), axis=(1, 2, 3), keepdims=True)
        scale_C, shift_C = self._single_weight(layer), self._single_weight(layer, "bias")
        return self._computed(centred_NHWC * (tf.math.rsqrt(variance_N111 + layer.epsilon) * scale_C) + shift_C)

    def _upsampling(self, layer, x_NHWC):
        for axis in (2, 1):
            sides = list(x_NHWC.shape)
            sides[axis] *= 2
            x_NHWC = tf.reshape(tf.stack([x_NHWC, x_NHWC], axis=axis + 1), sides)
        return x_NHWC

    def _embedding(self, layer, tokens):
        table = self.variables[layer.name + ".weight"]
        if layer.name in self._tied or table.dtype != tf.float32:
            return self._computed(_looked_up(tf.convert_to_tensor(table), tokens))
        return self._computed(tf.gather(table, tokens))

    def _product_with_table(self, layer, x_NTE):
        x_NE = tf.reshape(x_NTE, (-1, layer.width))
        y_NK = tf.matmul(x_NE, self._of(layer.table + ".weight"), transpose_b=True)
        if layer.bias:
            y_NK = y_NK + self._weight(layer, "bias")
        return tf.reshape(y_NK, (*x_NTE.shape[:-1], layer.count))

    def _positions(self, layer, x_NTE):
        return x_NTE + tf.constant(layer.table()[: x_NTE.shape[1]], x_NTE.dtype)

    def _attention(self, layer, given):
        """``given``: queries, keys, values and, where there is padding, mask_NT: 1 for keys that are looked at."""
        q_NHQD, k_NHTD, v_NHTD = (_parted(self._computed(x), layer.heads) for x in given[:3])
        scale = (layer.width // layer.heads) ** -0.5
        scores_NHQT = single(tf.matmul(q_NHQD * scale, k_NHTD, transpose_b=True))
        if layer.causal:
            scores_NHQT += _NOTHING * (1.0 - tf.linalg.band_part(tf.ones(scores_NHQT.shape[2:]), -1, 0))
        if len(given) > 3:
            scores_NHQT += _NOTHING * (1.0 - given[3][:, None, None, :])
        weights_NHQT = tf.nn.softmax(scores_NHQT)
        if layer.dropout and self._trains:
            weights_NHQT = self._dropped(layer.name, weights_NHQT, layer.dropout)
        x_NQHD = tf.transpose(tf.matmul(self._computed(weights_NHQT), v_NHTD), (0, 2, 1, 3))
        return tf.reshape(x_NQHD, (*x_NQHD.shape[:2], layer.width))

    def _pooling(self, layer, x_NHWC):
        if layer.average:
            # "SAME" leaves what it pads out of the average.
            padded_NHWC = tf.pad(x_NHWC, _padding(layer.padding)) if layer.padding else x_NHWC
            return tf.nn.avg_pool2d(padded_NHWC, layer.kernel, layer.stride, "VALID")
        # Padded explicitly: "SAME" would pad even sides at the right and bottom only.
        beyond = _beyond(layer, x_NHWC.shape[1]) if layer.ceil else 0
        sides = _padding(layer.padding, beyond)
        if not self._compiled:
            return tf.nn.max_pool2d(x_NHWC, layer.kernel, layer.stride, sides)
        # XLA "does not support pooling ops with explicit padding"; it fuses the two.
        padded_NHWC = tf.pad(x_NHWC, sides, constant_values=x_NHWC.dtype.min)
        return tf.nn.max_pool2d(padded_NHWC, layer.kernel, layer.stride, "VALID")

    def _response(self, layer, x_NHWC):
        y_NHWC = tf.nn.lrn(single(x_NHWC), layer.size // 2, layer.k, layer.alpha / layer.size, layer.beta)
        return self._computed(y_NHWC)

    def _dropout(self, layer, x):
        return self._dropped(layer.name, x, layer.rate) if layer.rate and self._trains else x

    def _dropped(self, name, x, rate):
        """Each layer and each rank of a strategy draws numbers of its own."""
        rank = tf.distribute.get_replica_context().replica_id_in_sync_group
        own = tf.stack([tf.cast(number, tf.int64) for number in (self._dropping.index(name), rank)])
        return tf.nn.experimental.stateless_dropout(x, rate, self._draws + own * 2**32)

    def _lstm(self, parts_of_it, x_TNE):
        """Return the hidden states x_TNH of the last layer; all layers begin with zeros.

        A layer is one operator for all places, BlockLSTM, on CPU devices and on GPUs alike: Keras's layer is a loop in
        the graph with some ten operators per place. (Not BlockLSTMV2, which has PyTorch's order of the gates:
        TensorFlow 2.21 gives it the gradient of the other, in the wrong order.)
        """
        for layer in parts_of_it:
            with tf.name_scope("%s.l%d" % (layer.name, layer.number)):
                x_TNE = self._remember(layer, x_TNE)
        return x_TNE

    def _side_by_side(self, layer, given):
        return tf.concat(self._in_both_directions(layer, given, self._remember), axis=2)

    def _added(self, layer, given):
        return tf.add_n(self._in_both_directions(layer, given, self._repeat))

    def _in_both_directions(self, layer, given, states):
        """``given``: x_TNE and mask_NT, 1 for what is no padding and 0 for padding."""
        x_TNE, mask_NT = given
        lengths_N = tf.cast(tf.reduce_sum(mask_NT, axis=1), tf.int32)

        def turned(x_TNE):
            return tf.reverse_sequence(x_TNE, lengths_N, seq_axis=0, batch_axis=1)

        ahead, back = layer.directions
        return [states(ahead, x_TNE), turned(states(back, turned(x_TNE)))]

    def _repeat(self, layer, x_TNE):
        """Return the hidden states x_TNH of a ``layers.Recurrent``."""
        of_input, of_state, bias, other_bias = (
            self._of(layer.parameter(part)) for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        x_TNE, biases = self._computed(x_TNE), [bias, other_bias] if layer.cell == "gru" else [bias + other_bias]
        products_PG = tf.matmul(tf.reshape(x_TNE, (-1, layer.inputs)), of_input) + biases[0]
        products_TNG = tf.reshape(products_PG, (*x_TNE.shape[:2], of_state.shape[1]))
        return hidden_states(layer.cell, products_TNG, *map(tf.convert_to_tensor, (of_state, *biases[1:])))

    def _cell(self, layer, given):
        """``given``: x_NE, hidden_NH, cell_NH; return the two states that follow. The cell is in single precision.

        BlockLSTM over one place would copy both weights into one matrix at each.
        """
        x_NE, hidden_NH, cell_NH = given
        of_input, of_state, bias, other_bias = (
            self._of(layer.parameter(part)) for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        gates_NG = tf.matmul(x_NE, of_input) + tf.matmul(hidden_NH, of_state) + (bias + other_bias)
        # In the order of ``_GATES``.
        enter_NH, new_NH, forget_NH, leave_NH = tf.split(single(gates_NG), layers.GATES, axis=1)
        cell_NH = tf.sigmoid(forget_NH) * cell_NH + tf.sigmoid(enter_NH) * tf.tanh(new_NH)
        return self._computed(tf.sigmoid(leave_NH) * tf.tanh(cell_NH)), cell_NH

    def _additive_attention(self, layer, given):
        """``given``: a query of each sample, keys, values, and mask_NT as in ``_attention``."""
        query_NW, keys_NTW, values_NTE, mask_NT = given
        hidden_NTW = tf.tanh(keys_NTW + query_NW[:, None, :])
        scores_P1 = tf.matmul(tf.reshape(hidden_NTW, (-1, layer.width)), self._weight(layer)[:, None])
        scores_NT = single(tf.reshape(scores_P1, mask_NT.shape)) + _NOTHING * (1.0 - mask_NT)
        weights_N1T = self._computed(tf.nn.softmax(scores_NT))[:, None, :]
        return tf.squeeze(tf.matmul(weights_N1T, self._computed(values_NTE)), axis=1)

    def _remember(self, layer, x_TNE):
        """BlockLSTM has no bfloat16: beside layers that compute in it, it stays in single precision."""
        dtype = tf.float16 if self._types.computed == tf.float16 else tf.float32
        x_TNE = tf.cast(x_TNE, dtype)
        of_input, of_state, bias, other_bias = (
            _as(self.variables[layer.parameter(part)], dtype)
            for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        return block_lstm(x_TNE, of_input, of_state, bias + other_bias)


_OPERATIONS = {
    layers.Convolution: Layers._convolution,
    layers.TransposedConvolution: Layers._transposed_convolution,
    layers.Linear: Layers._linear,
    layers.Normalization: Layers._normalization,
    layers.FixedNormalization: Layers._fixed_normalization,
    layers.SequenceNormalization: Layers._sequence_normalization,
    layers.LayerNormalization: Layers._layer_normalization,
    layers.MapNormalization: Layers._map_normalization,
    layers.Upsampling: Layers._upsampling,
    layers.Embedding: Layers._embedding,
    layers.Tied: Layers._product_with_table,
    layers.Positions: Layers._positions,
    layers.Attention: Layers._attention,
    layers.BidirectionalLstm: Layers._side_by_side,
    layers.BidirectionalRecurrent: Layers._added,
    layers.LstmCell: Layers._cell,
    layers.AdditiveAttention: Layers._additive_attention,
    layers.Pooling: Layers._pooling,
    layers.Response: Layers._response,
    layers.Dropout: Layers._dropout,
}


def _parted(x_NTE, heads):
    """Return x_NHTD: the numbers of a vector in as many parts as there are heads."""
    x_NTHD = tf.reshape(x_NTE, (*x_NTE.shape[:2], heads, x_NTE.shape[2] // heads))
    return tf.transpose(x_NTHD, (0, 2, 1, 3))


@tf.custom_gradient
def _looked_up(table_KE, tokens):
    """Return the rows of a table whose gradient also comes from elsewhere, or that is in 16 bits.

    TensorFlow would make rows of that whole gradient first, and copy both one behind the other. In 16 bits a sum over
    hundreds of places would stand still.
    """

    # As TensorFlow calls the gradients of a scope, which it does not do here.
    scope = "gradient_tape/" + tf.get_current_name_scope()

    def backward(gradient):
        with tf.name_scope(scope):
            flat = single(tf.reshape(gradient, (-1, table_KE.shape[1])))
            found = tf.math.unsorted_segment_sum(flat, tf.reshape(tokens, (-1,)), table_KE.shape[0])
            return tf.cast(found, table_KE.dtype), None

    return tf.gather(table_KE, tokens), backward


def _as(variable, dtype):
    """A variable of that type as it is: operators read it under names of their own."""
    return variable if variable.dtype == dtype else tf.cast(variable, dtype)


def _stored(value, dtype):
    """Copied: TensorFlow lets a variable use the memory of an array, past its allocator, until the first update; so a
    weight that is frozen would never be in its count."""
    return tf.raw_ops.DeepCopy(x=value) if dtype == tf.float32 else tf.cast(value, dtype)


def _statistic(value):
    """A running statistic, each rank's own: it has no part in training, and is not exchanged."""
    return tf.Variable(
        value.astype(numpy.float32),
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


def _padding(side, beyond=0):
    """Symmetric, as PyTorch pads, and ``beyond`` at the end; a list even where it is zero: "SAME" depends on stride."""
    down, across = layers.sides(side)
    return [[0, 0], [down, down + beyond], [across, across + beyond], [0, 0]]


def _beyond(layer, pixels):
    """Return how far the last window is outside."""
    return -(pixels + 2 * layer.padding - layer.kernel) % layer.stride
