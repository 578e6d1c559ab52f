"""What a network is made of, as data: its layers, their parameters, their counts and their initial weights.

Every framework makes its network from the same list of layers, so that equal seeds are equal networks. Names and
layouts are PyTorch's: a layer's parameters are ``<layer>.weight`` and ``<layer>.bias``; convolutions are OIHW (outputs,
inputs, height, width), matrices KF (outputs, inputs), the gates of an LSTM stacked as rows in the order input, forget,
cell, output.
"""

import collections
from typing import Any, Dict, FrozenSet, List, NamedTuple, Sequence, Tuple, Union

from suites.assemble.initial import ZERO, Initial, constant, drawn
from workers.trainer.base.signatures import Array

GATES = 4


class Parameter(NamedTuple):
    """One array of trainable numbers. ``kind``: what a framework has to know to lay it out: "convolution", "matrix",
    "lstm", "lstm_bias", "embedding" or "vector". ``fixed``: no size trains it."""

    name: str
    shape: Tuple[int, ...]
    kind: str
    initial: Initial
    fixed: bool = False


# A side, or (height, width) where they differ.
Extent = Union[int, Tuple[int, int]]


def sides(extent: Extent) -> Tuple[int, int]:
    """Return (height, width)."""
    return extent if isinstance(extent, tuple) else (extent, extent)


class Convolution(NamedTuple):
    """A convolution of maps. ``pixels``: the ``Extent`` of its output, of which networks of square maps go on with the
    side; ``padding``: zeros on each side."""

    name: str
    inputs: int
    outputs: int
    kernel: Extent
    pixels: Any
    initial: Initial
    stride: Extent = 1
    padding: Extent = 0
    bias: bool = False
    initial_bias: Initial = ZERO

    def parameters(self) -> List[Parameter]:
        shape = (self.outputs, self.inputs) + sides(self.kernel)
        found = [Parameter(self.name + ".weight", shape, "convolution", self.initial)]
        if self.bias:
            found.append(Parameter(self.name + ".bias", (self.outputs,), "vector", self.initial_bias))
        return found

    def flops(self) -> int:
        (height, width), (down, across) = sides(self.kernel), sides(self.pixels)
        return 2 * self.outputs * self.inputs * height * width * down * across


class TransposedConvolution(NamedTuple):
    """A convolution whose output has ``kernel`` times the sides of its input, maps of ``pixels``: each place becomes a
    square of its own. It has a bias. Weights are laid out as PyTorch's: inputs, outputs, height, width.

    Source: "deconv" of He et al., "Mask R-CNN", 2017, figure 4.
    """

    name: str
    inputs: int
    outputs: int
    kernel: int
    pixels: Extent
    initial: Initial

    def parameters(self) -> List[Parameter]:
        shape = (self.inputs, self.outputs, self.kernel, self.kernel)
        found = [Parameter(self.name + ".weight", shape, "convolution", self.initial)]
        return found + [Parameter(self.name + ".bias", (self.outputs,), "vector", ZERO)]

    def flops(self) -> int:
        down, across = sides(self.pixels)
        return 2 * self.inputs * self.outputs * self.kernel**2 * down * across


class Linear(NamedTuple):
    """A matrix product, and a bias where ``bias`` says so, at each of ``places`` of a sample."""

    name: str
    inputs: int
    outputs: int
    initial: Initial
    initial_bias: Initial
    places: int = 1
    bias: bool = True

    def parameters(self) -> List[Parameter]:
        found = [Parameter(self.name + ".weight", (self.outputs, self.inputs), "matrix", self.initial)]
        if self.bias:
            found.append(Parameter(self.name + ".bias", (self.outputs,), "vector", self.initial_bias))
        return found

    def flops(self) -> int:
        return 2 * self.inputs * self.outputs * self.places


def _scale_and_shift(name, channels):
    """Return the parameters of a normalisation that begins as the identity."""
    return [
        Parameter(name + ".weight", (channels,), "vector", constant(1.0)),
        Parameter(name + ".bias", (channels,), "vector", ZERO),
    ]


class Normalization(NamedTuple):
    """Batch normalisation of each channel, beginning as the identity. ``pixels``: side of the map; ``epsilon``: what is
    added to the variance.

    In all frameworks the share of a new batch in the running statistics is that below.
    """

    name: str
    channels: int
    pixels: int
    epsilon: float = 1e-5

    MOMENTUM = 0.1

    def parameters(self) -> List[Parameter]:
        return [
            Parameter(self.name + ".weight", (self.channels,), "vector", constant(1.0)),
            Parameter(self.name + ".bias", (self.channels,), "vector", constant(0.0)),
        ]

    def flops(self) -> int:
        return 0


class FixedNormalization(NamedTuple):
    """A batch normalisation that stays as it was learnt elsewhere: a scale and a shift of each channel. What the
    statistics were is within them; ``scale``: what stands in their place where nothing was learnt.

    Source: He et al., "Deep Residual Learning for Image Recognition", 2015, appendix A ("BN layers are fixed").
    """

    name: str
    channels: int
    scale: float

    def parameters(self) -> List[Parameter]:
        initial = constant(self.scale), ZERO
        found = _scale_and_shift(self.name, self.channels)
        return [one._replace(initial=number, fixed=True) for one, number in zip(found, initial)]

    def flops(self) -> int:
        return 0


class SequenceNormalization(NamedTuple):
    """Batch normalisation of each channel of sequences, over all places that are no padding, beginning as the identity.

    ``maps``: of maps, which have their places along the width, and not of vectors. The variance is the mean square in
    the running statistics too, in which a new batch has the share below. ``epsilon``: what is added to the variance.

    Source: Ioffe and Szegedy, "Batch Normalization", 2015; over sequences as Amodei et al., "Deep Speech 2", 2015,
    section 3.2, who say nothing of padding.
    """

    name: str
    channels: int
    maps: bool = False
    epsilon: float = 1e-5

    MOMENTUM = 0.1

    def parameters(self) -> List[Parameter]:
        return _scale_and_shift(self.name, self.channels)

    def flops(self) -> int:
        return 0


class MapNormalization(NamedTuple):
    """Normalisation of each sample's map over all its channels and places; each channel then has a scale and a shift of
    its own, beginning as the identity. ``epsilon``: what is added to the variance.

    Source: "layer normalisation" of Gulrajani et al., "Improved Training of Wasserstein GANs", 2017, as their code has
    it (tflib/ops/layernorm.py); one group of Wu and He, "Group Normalization", 2018.
    """

    name: str
    channels: int
    epsilon: float = 1e-5

    def parameters(self) -> List[Parameter]:
        return _scale_and_shift(self.name, self.channels)

    def flops(self) -> int:
        return 0


class Upsampling(NamedTuple):
    """Maps of twice the side: each number stands at four places."""

    name: str

    def parameters(self) -> List[Parameter]:
        return []

    def flops(self) -> int:
        return 0


class Embedding(NamedTuple):
    """A table with a row of ``width`` numbers for each of ``count`` tokens."""

    name: str
    count: int
    width: int
    initial: Initial

    def parameters(self) -> List[Parameter]:
        return [Parameter(self.name + ".weight", (self.count, self.width), "embedding", self.initial)]

    def flops(self) -> int:
        return 0


class Tied(NamedTuple):
    """The product of ``places`` vectors of a sample with the rows of an ``Embedding``, ``table``, that is there before:
    a number for each of its ``count`` tokens. The weights are the table's; ``bias``: whether it has one of its own.

    Source: Press and Wolf, "Using the Output Embedding to Improve Language Models", 2017.
    """

    name: str
    table: str
    count: int
    width: int
    places: int
    bias: bool = False

    def parameters(self) -> List[Parameter]:
        return [Parameter(self.name + ".bias", (self.count,), "vector", ZERO)] if self.bias else []

    def flops(self) -> int:
        return 2 * self.count * self.width * self.places


class Positions(NamedTuple):
    """Adds to each vector of ``width`` numbers what tells its place among ``length``: sines and cosines, not trained.

    Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.5.
    """

    name: str
    length: int
    width: int

    def parameters(self) -> List[Parameter]:
        return []

    def flops(self) -> int:
        return 0

    def table(self) -> Array:
        """Return what is added: float64, (length, width)."""
        import numpy

        angles_TI = numpy.arange(self.length)[:, None] / 10000.0 ** (numpy.arange(0, self.width, 2) / float(self.width))
        return numpy.stack([numpy.sin(angles_TI), numpy.cos(angles_TI)], axis=2).reshape(self.length, self.width)


class LayerNormalization(NamedTuple):
    """Normalisation of each vector of ``width`` numbers over these, beginning as the identity.

    Source: Ba, Kiros, Hinton, "Layer Normalization", 2016. ``epsilon``: what is added to the variance.
    """

    name: str
    width: int
    epsilon: float

    def parameters(self) -> List[Parameter]:
        return [
            Parameter(self.name + ".weight", (self.width,), "vector", constant(1.0)),
            Parameter(self.name + ".bias", (self.width,), "vector", ZERO),
        ]

    def flops(self) -> int:
        return 0


class Attention(NamedTuple):
    """Scaled products of queries, keys and values, in ``heads`` parts of ``width`` numbers; projections are ``Linear``.

    ``causal``: a place looks at itself and those before it. ``dropout``: of the weights that the softmax gives. What
    keys are padding is in the batch. All products of ``queries`` with ``keys`` places count, masked ones too: so does
    PyTorch's counter, and so does the literature (Chowdhery et al., "PaLM", 2022, appendix B).

    Source: Vaswani et al., "Attention Is All You Need", 2017, section 3.2.
    """

    name: str
    width: int
    heads: int
    queries: int
    keys: int
    dropout: float
    causal: bool = False

    def parameters(self) -> List[Parameter]:
        return []

    def flops(self) -> int:
        return 4 * self.queries * self.keys * self.width


class Lstm(NamedTuple):
    """Layer ``number`` of the LSTM ``name``, over ``length`` places; it has two biases, as PyTorch's has."""

    name: str
    number: int
    inputs: int
    hidden: int
    length: int
    initial: Initial

    def parameters(self) -> List[Parameter]:
        return _parameters_of_gates(self)

    def parameter(self, part: str) -> str:
        """Return the name of its parameter ``part``: weight_ih, weight_hh, bias_ih or bias_hh."""
        return "%s.%s_l%d" % (self.name, part, self.number)

    def flops(self) -> int:
        return self.length * 2 * GATES * self.hidden * (self.inputs + self.hidden)


class BidirectionalLstm(NamedTuple):
    """Two LSTMs of ``hidden`` numbers side by side, over ``length`` places: one reads each sequence from its begin, one
    from its end, which is the last place that is no padding.

    Padding stands behind a sequence: turned round is what stands before it, so that no state has seen padding. What is
    given for places of padding means nothing.

    Source: Schuster and Paliwal, "Bidirectional Recurrent Neural Networks", 1997.
    """

    name: str
    inputs: int
    hidden: int
    length: int
    initial: Initial

    @property
    def directions(self) -> Tuple[Lstm, Lstm]:
        """That from the begin, and that from the end."""
        facts = (0, self.inputs, self.hidden, self.length, self.initial)
        return Lstm(self.name + ".ahead", *facts), Lstm(self.name + ".back", *facts)

    def parameters(self) -> List[Parameter]:
        return [parameter for one in self.directions for parameter in one.parameters()]

    def flops(self) -> int:
        return sum(one.flops() for one in self.directions)


class LstmCell(NamedTuple):
    """An LSTM that a network takes from place to place itself, ``length`` of them; its equations are ``Lstm``'s."""

    name: str
    inputs: int
    hidden: int
    length: int
    initial: Initial

    def parameters(self) -> List[Parameter]:
        return _parameters_of_gates(self)

    def parameter(self, part: str) -> str:
        """See ``Lstm.parameter``."""
        return "%s.%s" % (self.name, part)

    def flops(self) -> int:
        return self.length * 2 * GATES * self.hidden * (self.inputs + self.hidden)


def _parameters_of_gates(layer: Union[Lstm, LstmCell]) -> List[Parameter]:
    rows = GATES * layer.hidden
    shapes = (("weight_ih", (rows, layer.inputs)), ("weight_hh", (rows, layer.hidden)))
    found = [Parameter(layer.parameter(part), shape, "lstm", layer.initial) for part, shape in shapes]
    return found + [
        Parameter(layer.parameter(part), (rows,), "lstm_bias", layer.initial) for part in ("bias_ih", "bias_hh")
    ]


# How many products with the state a cell has at each place.
CELLS = {"rnn": 1, "gru": 3}


class Recurrent(NamedTuple):
    """A recurrent layer over ``length`` places, begun with zeros; it has two biases, as PyTorch's has. ``cell``:

    ``rnn``
        hidden = tanh(W x + b + V hidden + c) (Elman, "Finding Structure in Time", 1990)
    ``gru``
        Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014, with the reset gate behind the
        product, as cuDNN has it: new = tanh(W x + b + reset * (V hidden + c)). Rows are those of reset, update, new.
    """

    name: str
    cell: str
    inputs: int
    hidden: int
    length: int
    initial: Initial

    def parameters(self) -> List[Parameter]:
        rows = CELLS[self.cell] * self.hidden
        found = [Parameter(self.parameter("weight_ih"), (rows, self.inputs), "matrix", self.initial)]
        found.append(Parameter(self.parameter("weight_hh"), (rows, self.hidden), "matrix", self.initial))
        biases = ("bias_ih", "bias_hh")
        return found + [Parameter(self.parameter(part), (rows,), "vector", self.initial) for part in biases]

    def parameter(self, part: str) -> str:
        """Return the name of its parameter ``part``: weight_ih, weight_hh, bias_ih or bias_hh."""
        return "%s.%s_l0" % (self.name, part)

    def flops(self) -> int:
        return self.length * 2 * CELLS[self.cell] * self.hidden * (self.inputs + self.hidden)


class BidirectionalRecurrent(NamedTuple):
    """Two recurrent layers whose hidden states are added: one reads each sequence from its begin, one from its end, as
    in ``BidirectionalLstm``.

    Source: Amodei et al., "Deep Speech 2", 2015, section 3.1.
    """

    name: str
    cell: str
    inputs: int
    hidden: int
    length: int
    initial: Initial

    @property
    def directions(self) -> Tuple[Recurrent, Recurrent]:
        """That from the begin, and that from the end."""
        facts = (self.cell, self.inputs, self.hidden, self.length, self.initial)
        return Recurrent(self.name + ".ahead", *facts), Recurrent(self.name + ".back", *facts)

    def parameters(self) -> List[Parameter]:
        return [parameter for one in self.directions for parameter in one.parameters()]

    def flops(self) -> int:
        return sum(one.flops() for one in self.directions)


class AdditiveAttention(NamedTuple):
    """One query after the other, ``queries`` of them, looks at ``keys`` places: the softmax of v * tanh(key + query)
    says how much of each value, a vector of ``outputs`` numbers, is taken. Queries, keys and v have ``width`` numbers;
    projections are ``Linear``. What places are padding is in the batch; they count, as in ``Attention``.

    Source: Bahdanau, Cho, Bengio, "Neural Machine Translation by Jointly Learning to Align and Translate", 2015,
    appendix A.1.2.
    """

    name: str
    width: int
    outputs: int
    queries: int
    keys: int
    initial: Initial

    def parameters(self) -> List[Parameter]:
        return [Parameter(self.name + ".weight", (self.width,), "vector", self.initial)]

    def flops(self) -> int:
        return 2 * self.queries * self.keys * (self.width + self.outputs)


class Pooling(NamedTuple):
    """Windows of a map: by their maximum, or their average, in which padding counts as zeros (without ``ceil`` then).

    ``ceil``: also a last window that is partly outside.
    """

    name: str
    kernel: int
    stride: int
    padding: int = 0
    ceil: bool = False
    average: bool = False

    def parameters(self) -> List[Parameter]:
        return []

    def flops(self) -> int:
        return 0

    def pixels(self, before: int) -> int:
        """Return the side of its output, of maps with the side ``before``."""
        room = before + 2 * self.padding - self.kernel
        return (-(-room // self.stride) if self.ceil else room // self.stride) + 1


class Response(NamedTuple):
    """Local response normalisation: x / (k + alpha / size * sum of the squares of ``size`` channels around x)^beta.

    Source: Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks", 2012, section 3.3,
    with Caffe's division of alpha by the size.
    """

    name: str
    size: int
    alpha: float
    beta: float
    k: float

    def parameters(self) -> List[Parameter]:
        return []

    def flops(self) -> int:
        return 0


class Dropout(NamedTuple):
    """Numbers that are nothing with a probability of ``rate``, the others divided by 1 - rate."""

    name: str
    rate: float

    def parameters(self) -> List[Parameter]:
        return []

    def flops(self) -> int:
        return 0


Layer = Union[
    Convolution,
    TransposedConvolution,
    Linear,
    Normalization,
    FixedNormalization,
    SequenceNormalization,
    LayerNormalization,
    MapNormalization,
    Upsampling,
    Embedding,
    Tied,
    Positions,
    Attention,
    Lstm,
    BidirectionalLstm,
    LstmCell,
    Recurrent,
    BidirectionalRecurrent,
    AdditiveAttention,
    Pooling,
    Response,
    Dropout,
]


def parameters(layers: Sequence[Layer]) -> List[Parameter]:
    """Return the ``Parameter`` of all layers, in the order of the forward pass."""
    return [parameter for layer in layers for parameter in layer.parameters()]


def shapes(layers: Sequence[Layer]) -> Dict[str, Tuple[int, ...]]:
    """Return {name: shape} of the parameters, in the order of the forward pass."""
    return collections.OrderedDict((one.name, one.shape) for one in parameters(layers))


def count(layers: Sequence[Layer], without: FrozenSet[str] = frozenset()) -> int:
    """Return how many numbers the parameters have, ``without`` those of these names."""
    total = 0
    for one in parameters(layers):
        if one.name in without:
            continue
        size = 1
        for extent in one.shape:
            size *= extent
        total += size
    return total


def frozen(layers: Sequence[Layer], above: Sequence[str]) -> FrozenSet[str]:
    """Return the names of the parameters that stay: fixed ones, and those beneath the names ``above``: of ``encoder``
    those of ``encoder.0.inner``, …"""
    beginnings = tuple(name + "." for name in above)
    return frozenset(one.name for one in parameters(layers) if one.fixed or one.name.startswith(beginnings))


def flops(layers: Sequence[Layer]) -> int:
    """Return the operations of one sample's forward pass: 2 per multiply-add, convolutions and matrix products only."""
    return sum(layer.flops() for layer in layers)


def by_name(layers: Sequence[Layer]) -> Dict[str, Any]:
    """Return {name: layer}; of an LSTM of several layers the list of them."""
    found: Dict[str, Any] = collections.OrderedDict()
    for layer in layers:
        if isinstance(layer, Lstm):
            found.setdefault(layer.name, []).append(layer)
        else:
            found[layer.name] = layer
    return found


def initial_weights(layers: Sequence[Layer], seed: int) -> Dict[str, Array]:
    """Return {name: float32 array}, drawn in order. ``RandomState`` is frozen: its numbers are those of every numpy."""
    import numpy

    generator = numpy.random.RandomState(seed)
    return collections.OrderedDict((one.name, drawn(generator, one.shape, one.initial)) for one in parameters(layers))
