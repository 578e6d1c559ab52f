"""Makes models in TensorFlow.

A model's ``tensorflow.py`` has ``outputs(layer, size, *inputs)``, the tuple of what the network gives, and
``criterion(outputs, *targets)``, a scalar tensor: the mean over the samples of a batch. ``layer(name, x)`` applies a
described layer, under a name scope of its own. One of several updates has a ``Model`` of its own besides, and a
``build`` that gives it to the one here.
"""

import functools
from typing import Callable, FrozenSet, Optional, Sequence, Tuple

import tensorflow as tf

from suites import modules
from suites.assemble import parts
from suites.assemble.tensorflow.functions import single
from suites.assemble.tensorflow.layers import Layers, types_of
from workers.trainer.base import updates
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Array, Batches, Rule
from workers.trainer.protocol import DEVICE, HOST

# The name scope of what the network does to make a batch, by which profiles know it: scopes.ACTING beside the adapter.
ACTING = "tbd.acting"

# Between the seeds of two ranks.
_SEEDS = 65537

# Where synthetic batches lie -> that device, by the number of a rank among those of the process.
PLACES = {HOST: "/CPU:0", DEVICE: "/GPU:{}"}


class Model(object):
    """What the adapter trains: a network's variables, its loss, the batches of a rank and its optimiser's numbers, of
    several updates those of each by its name.

    ``outputs`` and ``criterion``: see above; the first ``given`` tensors of a batch are the network's inputs.
    """

    def __init__(
        self,
        network: Layers,
        frozen: FrozenSet[str],
        outputs: Callable[..., Tuple[tf.Tensor, ...]],
        criterion: Callable[..., tf.Tensor],
        given: int,
        batches: Batches,
        optimizer: Rule,
        precision: str,
    ) -> None:
        self.precision = precision
        self.network = network
        self.variables = list(network.variables.values())
        self._trained = [variable for name, variable in network.variables.items() if name not in frozen]
        self._outputs, self._criterion, self._given = outputs, criterion, given
        self._evaluate = tf.function(self._evaluated, autograph=False)
        self._act = tf.function(self._acted, autograph=False)
        self.batches = batches
        self._optimizer = optimizer

    @property
    def updates(self) -> Tuple[updates.Update, ...]:
        """All its parameters that are trained by its one loss."""
        return updates.whole(self.loss, self._trained, self._optimizer)

    def loss(self, batch: Sequence[tf.Tensor]) -> tf.Tensor:
        """Return the loss of a batch, the mean over its samples; updates the running statistics."""
        return self._criterion(self._outputs(*batch[: self._given]), *batch[self._given :])

    def draw(self, step: int) -> None:
        """See ``Layers.draw``."""
        self.network.draw(step)

    def evaluated(self, batch: Sequence[tf.Tensor]) -> Tuple[Tuple[tf.Tensor, ...], Optional[tf.Tensor]]:
        """Return (outputs, loss) of a batch as the network is evaluated; without targets there is no loss."""
        # Traced within: once for each shape of a batch.
        with self.network.evaluating():
            return self._evaluate(*batch)

    def acted(self, arrays: Sequence[Array]) -> Tuple[Array, ...]:
        """Return what the network gives now for arrays of its inputs."""
        with self.network.evaluating():
            return tuple(one.numpy() for one in self._act(*map(tf.constant, arrays)))

    def _acted(self, *inputs):
        with tf.name_scope(ACTING):
            return self._evaluated(*inputs)[0]

    def _evaluated(self, *batch):
        found, targets = self._outputs(*batch[: self._given]), batch[self._given :]
        return tuple(map(single, found)), self._criterion(found, *targets) if targets else None


def build(job: Job, process: Process, kind: Callable[..., Model] = Model) -> Model:
    """Return the ``Model``, with its initial weights; ``kind``: what makes it."""
    own, size = modules.part_of(job, "tensorflow"), job.model.size
    types = types_of(job.plan.precision, process.device_kind)
    # Each process draws numbers of its own.
    seed = job.plan.seed + min(process.ranks) * _SEEDS
    network = Layers(parts.layers_of(job), parts.weights_of(job), "xla" in job.plan.switches, types, seed)

    def batches(rank):
        # Left to itself TensorFlow puts constants on the first GPU, for all ranks: see suites.inputs.
        place = PLACES[job.plan.data_on].format(sorted(process.ranks).index(rank))

        def to_tensors(*arrays):
            with tf.device(place):
                return tuple(tf.constant(array) for array in arrays)

        return parts.batches(job, rank, "tensorflow", to_tensors, lambda *arrays: model.acted(arrays))

    outputs, rule = functools.partial(own.outputs, network, size), updates.rules(job)
    frozen, given = parts.frozen_of(job), parts.given_count(job)
    model = kind(network, frozen, outputs, own.criterion, given, batches, rule, job.plan.precision)
    return model
