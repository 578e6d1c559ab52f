"""Makes models in MXNet's Gluon.

A model's ``mxnet.py`` has ``Network(size)``, a hybrid block that computes the loss of a batch (its mean over the
samples). It is one graph of its ``outputs(F, *inputs)``, the tuple of what the network gives, and its
``criterion(F, outputs, *targets)``. Its parameters have the names of the description, but for the words of Gluon below.
Images are NCHW.
"""

import re
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple

import mxnet as mx
from mxnet.gluon import nn

from suites import modules
from suites.assemble import layers, parts
from workers.trainer.base import optimizer, updates
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Array, Arrays, Batches, Rule
from workers.trainer.protocol import DEVICE, HOST, PINNED

# Gluon's names of parameters, and the description's.
_NAMES = {"gamma": "weight", "beta": "bias"}

# Of a layer over all places, which has a number, and of a cell.
_LSTM_NAME = re.compile(r"(.*?)(?:\._unfused\.(\d+))?\.(i2h|h2h)_(weight|bias)")

_SIDES = {"i2h": "ih", "h2h": "hh"}

# Where synthetic batches lie -> that context, from a rank's own.
PLACES = {HOST: lambda own: mx.cpu(), PINNED: lambda own: mx.cpu_pinned(), DEVICE: lambda own: own}


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
    """What the adapter trains: parameters, their loss, the batches of a rank and the optimiser's numbers.

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
        """All its parameters that are trained by its one loss."""
        trained = [parameter for parameter in self.parameters if parameter.grad_req != "null"]
        return updates.whole(self.loss, trained, self._optimizer)

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
        """Return {name: described array} of an array for each of ``parameters``, without those that are None: MXNet has
        the described layouts."""
        return {name: array for name, array in zip(self._names, arrays) if array is not None}

    def running(self) -> Dict[str, Array]:
        """Return {name: array} of the running statistics on the first device, after one batch.

        MXNet averages the mean square over a batch's numbers of a channel, others that of one number less: theirs is
        returned.
        """
        found = {}
        for name, one in named(self.network).items():
            if name not in self._names and not isinstance(one, mx.gluon.Constant):
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
    found = named(network)
    for name in parts.frozen_of(job):
        found[name].grad_req = "null"
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

        def outputs(*arrays):
            found, _ = model.evaluated(arrays, contexts[rank % len(contexts)])
            return [one.asnumpy() for one in found]

        return parts.batches(job, rank, "mxnet", to_arrays, outputs)

    model = Model(network, kinds, parts.given_count(job), list(weights), counts, batches, optimizer.of_job(job))
    return model


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
        name = "%s.%s_%s" % (layer, kind, _SIDES[side])
        return name if number is None else "%s_l%s" % (name, number)
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
