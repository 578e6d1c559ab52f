"""One optimiser update in MXNet, in its parts: each queues operators and returns, nothing waits but for the input."""

import collections

from workers.trainer.frameworks.mxnet.library import mx


class Step(object):
    """A model on its devices, with a trainer and a stream of batches for each device.

    ``losses``: those of the last step, an array of one number per device.
    """

    def __init__(self, model, contexts, trainer, divisor, streams=()):
        self.model = model
        self.contexts = contexts
        self.trainer = trainer
        self.losses = []
        self._divisor = divisor
        self.streams = streams
        self._batches = []

    def run(self):
        """Return the work of a whole step."""
        work = self.input()
        self.forward()
        self.backward()
        self.update()
        return work

    def input(self):
        """Take a batch for each device; return their work."""
        self._batches = [next(stream) for stream in self.streams]
        total = collections.OrderedDict()
        for _, work in self._batches:
            for unit, amount in work.items():
                total[unit] = total.get(unit, 0) + amount
        return total

    def arrays(self):
        """Return the arrays of the last batch of the first device."""
        return self._batches[0][0]

    def forward(self):
        """Copy the batches to the devices, if they are not there, and compute the losses."""
        with mx.autograd.record():
            self.losses = [
                self.model.loss([array.as_in_context(context) for array in arrays])
                for context, (arrays, _) in zip(self.contexts, self._batches)
            ]

    def backward(self):
        mx.autograd.backward(self.losses)

    def update(self):
        """Exchange the gradients, where there are others, and update the weights."""
        self.trainer.step(self._divisor)
