"""The layers of a network in CNTK's operations, with PyTorch's paddings, statistics and names. Images are CHW."""

import collections
import math
from typing import Dict, Iterable, Sequence

import cntk
import numpy

from suites.assemble import layers, layouts
from suites.assemble.cntk.functions import Node
from workers.trainer.base.signatures import Array, Arrays

LAYOUTS = {"matrix": layouts.TRANSPOSED}


class Layers(object):
    """The layers of a network by name, beginning with ``weights`` {name: described array}.

    ``variables`` {name: trainable parameter} in the order of the forward pass; ``statistics`` {norm: (mean, variance)}.

    Args:
        count: samples of a batch: CNTK counts the time of running statistics in samples.
    """

    def __init__(self, described: Sequence[layers.Layer], weights: Arrays, count: int) -> None:
        self._layers = layers.by_name(described)
        self._parameters = layers.parameters(described)
        self._count = count
        self.variables = collections.OrderedDict()
        for one in self._parameters:
            value = layouts.apply(LAYOUTS.get(one.kind, layouts.AS_IT_IS), weights[one.name])
            self.variables[one.name] = cntk.parameter(init=value, name=one.name)
        self.statistics = {}

    def described(self, arrays: Iterable[Array]) -> Dict[str, Array]:
        """Return {name: described array} of an array for each of ``variables``."""
        return layouts.described(LAYOUTS, self._parameters, arrays)

    def running(self) -> Dict[str, Array]:
        """Return {name: array} of the running statistics."""
        names = ("running_mean", "running_var")
        return {
            "%s.%s" % (norm, name): value.value
            for norm, pair in self.statistics.items()
            for name, value in zip(names, pair)
        }

    def __call__(self, name: str, x: Node) -> Node:
        layer = self._layers[name]
        return _OPERATIONS[type(layer)](self, layer, x)

    def _weight(self, layer, last="weight"):
        return self.variables["%s.%s" % (layer.name, last)]

    def _convolution(self, layer, x_CHW):
        automatic = _automatic(layer)
        if not any(automatic):
            x_CHW = _padded(x_CHW, layer.padding)
        y_CHW = cntk.convolution(
            self._weight(layer), x_CHW, (layer.stride, layer.stride), auto_padding=[False] + automatic, name=layer.name
        )
        if not layer.bias:
            return y_CHW
        return y_CHW + cntk.reshape(self._weight(layer, "bias"), (layer.outputs, 1, 1))

    def _linear(self, layer, x_F):
        return cntk.times(x_F, self._weight(layer)) + self._weight(layer, "bias")

    def _normalization(self, layer, x_CHW):
        mean, variance = cntk.constant(0.0, (layer.channels,)), cntk.constant(1.0, (layer.channels,))
        self.statistics[layer.name] = (mean, variance)
        return cntk.batch_normalization(
            x_CHW,
            self._weight(layer),
            self._weight(layer, "bias"),
            mean,
            variance,
            spatial=True,
            normalization_time_constant=-self._count / math.log(1.0 - layer.MOMENTUM),
            epsilon=layer.epsilon,
            use_cudnn_engine=True,
            # As if a sample had been seen: at 0 the first batch would replace the initial statistics.
            running_count=cntk.constant(1.0, ()),
        )

    def _pooling(self, layer, x_CHW):
        kind = cntk.AVG_POOLING if layer.average else cntk.MAX_POOLING
        return cntk.pooling(
            x_CHW,
            kind,
            (layer.kernel, layer.kernel),
            (layer.stride, layer.stride),
            auto_padding=[False] + _automatic(layer),
            ceil_out_dim=layer.ceil,
            include_pad=layer.average,
            name=layer.name,
        )

    def _response(self, layer, x_CHW):
        """CNTK has none of its own: the squares of neighbouring channels are added up by a convolution over them."""
        ones = cntk.constant(numpy.ones((1, layer.size, 1, 1), dtype=numpy.float32))
        squares_1CHW = cntk.reshape(cntk.square(x_CHW), (1,) + x_CHW.shape)
        sums_CHW = cntk.reshape(
            cntk.convolution(ones, squares_1CHW, auto_padding=[False, True, False, False]), x_CHW.shape
        )
        scale = cntk.exp(layer.beta * cntk.log(layer.k + layer.alpha / layer.size * sums_CHW))
        return cntk.element_divide(x_CHW, scale)

    def _dropout(self, layer, x):
        return cntk.dropout(x, layer.rate, name=layer.name) if layer.rate else x


_OPERATIONS = {
    layers.Convolution: Layers._convolution,
    layers.Linear: Layers._linear,
    layers.Normalization: Layers._normalization,
    layers.Pooling: Layers._pooling,
    layers.Response: Layers._response,
    layers.Dropout: Layers._dropout,
}


def _automatic(layer):
    """Return, down and across, whether CNTK's own padding is the layer's: it puts a kernel's middle on the first pixel.

    That is PyTorch's symmetric padding by half of the kernel, for odd kernels and strides up to 2.
    """
    kernels, paddings = layers.sides(layer.kernel), layers.sides(layer.padding)
    return [k > 1 and p == k // 2 and layer.stride <= 2 for k, p in zip(kernels, paddings)]


def _padded(x_CHW, padding):
    down, across = layers.sides(padding)
    return cntk.pad(x_CHW, [(0, 0), (down, down), (across, across)]) if down or across else x_CHW
