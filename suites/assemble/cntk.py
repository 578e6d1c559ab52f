"""Makes models in CNTK's operations, with PyTorch's paddings, statistics and names.

A model's ``cntk.py`` has ``outputs(layer, size, *inputs)``, the tuple of nodes of what the network gives, and
``criterion(outputs, *targets)``, the node with the loss of each sample. ``layer(name, x)`` applies a described layer.
CNTK keeps the axis of the samples to itself; images are CHW, labels numbers.
"""

import collections
import math
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

import cntk
import numpy

from suites import modules
from suites.assemble import layers, layouts, parts
from suites.inputs import Field
from workers.trainer.base import optimizer, updates
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Array, Arrays, Batches, Rule
from workers.trainer.protocol import DEVICE

# A variable or an operation of CNTK's graph.
Node = Any

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


def cross_entropy(logits_K: Node, label: Node) -> Node:
    """Return the cross entropy of each sample."""
    return cntk.cross_entropy_with_softmax(logits_K, cntk.one_hot(label, logits_K.shape[0]))


class Model(object):
    """What the adapter trains: a criterion over arguments, parameters, batches of a rank, an optimiser's numbers.

    ``outputs``: what the network gives for its inputs, which are the first of ``arguments``; ``fields``: of them all.
    """

    def __init__(
        self,
        network: Layers,
        fields: Sequence[Field],
        arguments: Sequence[Node],
        outputs: Sequence[Node],
        criterion: Node,
        batches: Batches,
        optimizer: Rule,
    ) -> None:
        self.network = network
        self._fields = fields
        self.arguments = arguments
        self._outputs = tuple(outputs)
        self.criterion = criterion
        self.parameters = list(network.variables.values())
        self.batches = batches
        self._optimizer = optimizer

    @property
    def updates(self) -> Tuple[updates.Update, ...]:
        """All its parameters by its one loss."""
        return updates.whole(self.criterion, self.parameters, self._optimizer)

    def evaluated(self, arrays: Sequence[Array]) -> Tuple[List[Array], Optional[Array]]:
        """Return (outputs, the loss of each sample) of a batch's arrays; without targets there is no loss.

        What is asked of a network without a backward pass behind it CNTK computes with its running statistics, and
        drops nothing.
        """
        found = {
            node: value(field.kind, array, cntk.cpu())
            for node, field, array in zip(self.arguments, self._fields, arrays)
        }
        wanted = self._outputs + ((self.criterion,) if len(arrays) == len(self.arguments) else ())
        computed = cntk.combine(list(wanted)).eval(found)
        outputs = [computed[node.output] if len(wanted) > 1 else computed for node in self._outputs]
        return outputs, computed[self.criterion.output] if len(wanted) > len(self._outputs) else None


def build(job: Job, process: Process) -> Model:
    """Return the ``Model``, with its initial weights.

    Raises:
        TrainerError: ``unsupported``, the images are too small for this framework.
    """
    own, size = modules.part_of(job, "cntk"), job.model.size
    described = parts.layers_of(job)
    _check(described)
    network = Layers(described, parts.weights_of(job), job.plan.per_device_batch_size)
    fields = parts.fields_of(job)
    arguments = tuple(cntk.input_variable(_shape(field)) for field in fields)

    place = cntk.gpu(0) if job.plan.data_on == DEVICE else cntk.cpu()

    def to_values(*arrays):
        return tuple(value(field.kind, array, place) for field, array in zip(fields, arrays))

    def batches(rank):
        return parts.batches(job, rank, "cntk", to_values)

    given = parts.given_count(job)
    outputs = own.outputs(network, size, *arguments[:given])
    criterion = own.criterion(outputs, *arguments[given:])
    return Model(network, fields, arguments, outputs, criterion, batches, optimizer.of_job(job))


def _check(described):
    """Refuse what CNTK cannot compute: it wants no kernel larger than its input, whatever the padding.

    Raises:
        TrainerError: ``unsupported``, with the first convolution that is too large.
    """
    for layer in described:
        # The input is no larger than pixels * stride + kernel - 2 * padding - 1.
        if (
            isinstance(layer, layers.Convolution)
            and 2 * max(layers.sides(layer.padding)) >= layer.pixels * layer.stride
        ):
            raise TrainerError(
                "unsupported",
                "CNTK has no convolution whose kernel is larger than its input, and %s is %d x %d on %d x %d pixels:"
                " take larger images, such as those of the size small"
                % ((layer.name,) + layers.sides(layer.kernel) + (layer.pixels, layer.pixels)),
            )


def _shape(field):
    return field.shape[-1:] + field.shape[:-1] if field.kind == "image" else field.shape


def value(kind: str, array: Array, place: cntk.DeviceDescriptor) -> cntk.Value:
    """Return CNTK's value, at ``place``, of an array of a batch, see ``suites.inputs.Field``: all are float32."""
    array = array.transpose(0, 3, 1, 2) if kind == "image" else array
    return cntk.Value(numpy.ascontiguousarray(array, dtype=numpy.float32), device=place)
