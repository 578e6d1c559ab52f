"""One step in MXNet, in its parts: each queues operators and returns, nothing waits but for the input."""

import collections
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple

from workers.trainer.base.signatures import Array, Batch, Work
from workers.trainer.base.work import total
from workers.trainer.frameworks.mxnet import optimizers
from workers.trainer.frameworks.mxnet.library import mx


class Step(object):
    """One update of a model on its devices, with a trainer and a stream of batches for each device.

    ``losses``: those of the last step, an array of one number per device.

    Args:
        limit: the rule's ``gradient_norm_limit``.
        servers_update: see ``store.Exchange``.
    """

    def __init__(
        self,
        model: Any,
        loss: Callable[[Sequence[Any]], Any],
        contexts: Sequence[Any],
        trainer: Any,
        divisor: int,
        times: int = 1,
        limit: Optional[float] = None,
        servers_update: bool = False,
    ) -> None:
        self.model = model
        self.contexts = contexts
        self.trainer = trainer
        self.losses = []
        self.times = times
        self.streams = ()
        self._loss = loss
        self._divisor = divisor
        self._limit = limit
        self._servers_update = servers_update
        self._batches = []

    @property
    def trainers(self) -> Sequence[Any]:
        """Those of all updates."""
        return [self.trainer]

    def run(self) -> Work:
        """Return the work of a whole step."""
        work = self.input()
        self.forward()
        self.backward()
        self.update()
        return work

    def rehearse(self) -> None:
        """Do a step's passes, without an update."""
        self.input()
        self.forward()
        self.backward()

    def input(self) -> Work:
        """Take a batch for each device; return their work."""
        self._batches = [next(stream) for stream in self.streams]
        found = collections.OrderedDict()
        for _, work in self._batches:
            for unit, amount in work.items():
                found[unit] = found.get(unit, 0) + amount
        return found

    def arrays(self) -> Sequence[Any]:
        """Return the arrays of the last batch of the first device."""
        return self._batches[0][0]

    def forward(self) -> None:
        """Copy the batches to the devices, if they are not there, and compute the losses."""
        with mx.autograd.record():
            self.losses = [
                self._loss([array.as_in_context(context) for array in arrays])
                for context, (arrays, _) in zip(self.contexts, self._batches)
            ]

    def backward(self) -> None:
        mx.autograd.backward(self.losses)

    def update(self) -> None:
        """Exchange the gradients, where there are others, and update the weights."""
        optimizers.update(self.trainer, self._divisor, self._limit, self.contexts, self._servers_update)

    def gradients(self, parameters: Sequence[Any]) -> Tuple[float, List[Array]]:
        """Return (loss, gradients by ``parameters`` on the first device, None of those that stay) of the next batch,
        without an update."""
        self.rehearse()
        trained = [parameter.grad_req != "null" for parameter in parameters]
        found = zip(trained, parameters)
        return self.loss(), [one.grad(self.contexts[0]).asnumpy() if is_trained else None for is_trained, one in found]

    def loss(self) -> float:
        """Return the mean of the last losses."""
        return sum(float(loss.asscalar()) for loss in self.losses) / len(self.losses)


class Steps(object):
    """Several updates in one step, as one ``Step``.

    MXNet computes gradients by all arrays that are marked for it: before each update, those of its parameters are, and
    those of the other updates are not.

    Args:
        parts: [(``Step``, its parameters)] in their order.
    """

    def __init__(self, parts: Sequence[Tuple[Step, Sequence[Any]]]) -> None:
        self._parts = parts
        self._marked = None
        self.model, self.contexts = parts[0][0].model, parts[0][0].contexts
        self._order = [part for part in parts for _ in range(part[0].times)]
        self.times = len(self._order)

    @property
    def trainers(self) -> Sequence[Any]:
        """Those of all updates."""
        return [step.trainer for step, _ in self._parts]

    @property
    def streams(self) -> Sequence[Iterator[Batch]]:
        """The batches of each device, which all updates share."""
        return self._parts[0][0].streams

    @streams.setter
    def streams(self, streams: Sequence[Iterator[Batch]]) -> None:
        for step, _ in self._parts:
            step.streams = streams

    @property
    def losses(self) -> Sequence[Any]:
        """Those of the first update, when it was carried out last."""
        return self._parts[0][0].losses

    def run(self) -> Work:
        """Return the work of a whole step."""
        works = []
        for step, parameters in self._order:
            self._mark(parameters)
            works.append(step.run())
        return total(works)

    def rehearse(self) -> None:
        """Do a step's passes, without an update."""
        for step, parameters in self._order:
            self._mark(parameters)
            step.rehearse()

    def gradients(self, parameters: Sequence[Any]) -> Tuple[float, List[Array]]:
        """See ``Step.gradients``; each update takes a batch. Of a parameter that several share, it is the sum."""
        loss, found = None, {id(parameter): 0.0 for parameter in parameters}
        for step, own in self._parts:
            self._mark(own)
            one, gradients = step.gradients(own)
            loss = one if loss is None else loss
            for parameter, gradient in zip(own, gradients):
                found[id(parameter)] = found[id(parameter)] + gradient
        return loss, [found[id(parameter)] for parameter in parameters]

    def loss(self) -> float:
        """Return the mean of the last losses of the first update."""
        return self._parts[0][0].loss()

    def _mark(self, parameters):
        if parameters is self._marked:
            return
        for _, others in self._parts:
            _request(others, "null")
        _request(parameters, "write")
        self._marked = parameters


def _request(parameters, what):
    """Say whether gradients by ``parameters`` are computed from now on ("write") or not ("null")."""
    arrays = [array for parameter in parameters for array in parameter.list_data()]
    mx.autograd.mark_variables(arrays, [array for one in parameters for array in one.list_grad()], what)
