"""The waiting layers as an operator of MXNet. A step hands one number from layer to layer, and nothing is computed."""

import itertools
from typing import Any, Sequence, Tuple

import mxnet as mx

from suites.models import replay
from suites.models.replay import Layer, Pass
from workers.trainer.base import optimizer, updates
from workers.trainer.base.job import Job
from workers.trainer.base.signatures import Arrays, Batches

BATCHES = 2


class Waiting(mx.autograd.Function):
    """Waits there and back; the gradient of the weights is there when the backward pass of the layer ends."""

    def __init__(self, there: Pass, back: Pass) -> None:
        super(Waiting, self).__init__()
        self._there, self._back = there, back

    def forward(self, x: Any, weight: Any) -> Any:
        self._there.wait()
        self._numbers = weight.size
        return x.copy()

    def backward(self, gradient: Any) -> Tuple[Any, Any]:
        self._back.wait()
        return gradient, mx.nd.zeros(self._numbers, ctx=gradient.context)


class Model(object):
    """What the adapter trains: see ``suites.assemble.mxnet.build.Model``."""

    def __init__(self, layers: Sequence[Layer], rule: Any, contexts: Sequence[mx.Context]) -> None:
        self._optimizer = rule
        self._names = [layer.name + ".weight" for layer in layers]
        self.parameters = []  # type: List[mx.gluon.Parameter]
        for layer, name in zip(layers, self._names):
            parameter = mx.gluon.Parameter(name, shape=(layer.numbers,), init=mx.init.Zero())
            parameter.initialize(ctx=list(contexts))
            self.parameters.append(parameter)
        # Devices take their turns in one process: each has passes of its own.
        self._passes = {str(context): _passes(layers) for context in contexts}  # type: Dict[str, Tuple[Pass, Pass]]

    @property
    def updates(self) -> Tuple[updates.Update, ...]:
        return updates.whole(self.loss, self.parameters, self._optimizer)

    @property
    def batches(self) -> Batches:
        """A number a batch, whatever the rank."""
        return lambda rank: itertools.cycle([([mx.nd.ones(1)], {"iterations": 1})] * BATCHES)

    def loss(self, batch: Sequence[Any]) -> Any:
        """Return 1, after the forward pass."""
        x = batch[0]
        there, back = self._passes[str(x.context)]
        for parameter in self.parameters:
            x = Waiting(there, back)(x, parameter.data(x.context))
        return x

    def described(self, arrays: Sequence[Any]) -> Arrays:
        """Return {name: array} of an array for each parameter."""
        return dict(zip(self._names, arrays))


def _passes(layers):
    there = Pass([layer.forward_s for layer in layers])
    return there, Pass([layer.backward_s for layer in reversed(layers)])


def build(job: Job, contexts: Sequence[mx.Context]) -> Model:
    """Return the ``Model`` on ``contexts``."""
    return Model(replay.layers_of(job), optimizer.of_job(job), contexts)
