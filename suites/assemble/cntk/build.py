"""Makes models in CNTK.

A model's ``cntk.py`` has ``outputs(layer, size, *inputs)``, the tuple of nodes of what the network gives, and
``criterion(outputs, *targets)``, the node with the loss of each sample. ``layer(name, x)`` applies a described layer.
CNTK keeps the axis of the samples to itself; images are CHW, labels numbers.
"""

from typing import List, Optional, Sequence, Tuple

import cntk
import numpy

from suites import modules
from suites.assemble import layers, parts
from suites.assemble.cntk.functions import Node
from suites.assemble.cntk.layers import Layers
from suites.inputs import Field
from workers.trainer.base import optimizer, updates
from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Array, Batches, Rule
from workers.trainer.protocol import DEVICE


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
