"""One step of PyTorch, in parts: the timed loop takes them at a go, the profilers one by one."""

from typing import Any, Callable, Iterator, Optional, Sequence

import torch

from workers.trainer.base.signatures import Batch, Work
from workers.trainer.base.work import total


class Feed(object):
    """The batches of a rank, taken to ``device``: ``tensors`` of the last one, ``work`` of all in a step.
    ``dtype``: the network's, for what is no integer."""

    def __init__(self, device: Any, dtype: torch.dtype, channels_last: bool = False) -> None:
        self.tensors = None
        self.work = None
        self.batches = None
        self._device = device
        self._dtype = dtype
        self._channels_last = channels_last

    def begin(self, batches: Iterator[Batch]) -> None:
        """Feed from ``batches``, an endless iterator of (tensors, work)."""
        self.batches = batches

    def first(self) -> None:
        """Take the first batch of a step."""
        self.tensors, self.work = next(self.batches)

    def further(self) -> None:
        """Take another batch of the same step."""
        before = self.work
        self.first()
        self.work = total([before, self.work])

    def copy(self) -> None:
        self.tensors = [self._copied(tensor) for tensor in self.tensors]

    def _copied(self, tensor):
        """Images that a dataset's loader has made are in single precision and in a layout of its own: they are brought
        into the network's type and layout."""
        dtype = self._dtype if tensor.is_floating_point() else tensor.dtype
        if self._channels_last and tensor.dim() == 4:
            return tensor.to(self._device, dtype, non_blocking=True, memory_format=torch.channels_last)
        return tensor.to(self._device, dtype, non_blocking=True)


class Minimizer(object):
    """One update of a step, ``times`` times in a row, in parts.

    Args:
        loss: a function of the tensors of a batch.
        parameters: those whose gradients are computed; None for all that the loss depends on.
        optimizer, schedule: of the same parameters.
        casting: the arithmetic, see ``precision.Casting``.
    """

    def __init__(
        self,
        feed: Feed,
        loss: Callable[[Sequence[Any]], Any],
        parameters: Optional[Sequence[Any]],
        optimizer: Any,
        schedule: Any,
        times: int,
        casting: Any,
    ) -> None:
        self.loss = None
        self.optimizer = optimizer
        self.times = times
        self._feed = feed
        self._loss = loss
        self._parameters = parameters
        self.schedule = schedule
        self.casting = casting

    def prepare(self, switches: Any) -> None:
        """Let ``switches`` (``switches.Switches``) replace the loss, by the batch that the feed has copied last."""
        parameters = [one for group in self.optimizer.param_groups for one in group["params"]]
        self._loss = switches.loss(self._loss, parameters, self._feed.tensors, self.casting)

    def clear(self) -> None:
        self.optimizer.zero_grad()

    def forward(self) -> None:
        self.loss = self.casting.forward(self._loss, self._feed.tensors)

    def backward(self) -> None:
        self.casting.backward(self.loss, self._parameters)
        self.loss = self.loss.detach()

    def update(self) -> None:
        self.schedule()
        self.casting.update(self.optimizer)

    def unscale(self) -> None:
        """See ``precision.Casting``."""
        self.casting.unscale(self.optimizer)


class Step(object):
    """What a step does with ``model``: its ``minimizers`` one after another, each with a batch of ``feed``.

    ``parts`` are pairs (name, function) in order; the names are those of ``layers``' breakdown (an update has two
    parts: the gradients of the last step are given back before the forward pass).
    """

    def __init__(self, model: Any, feed: Feed, minimizers: Sequence[Minimizer]) -> None:
        self.model = model
        self.minimizers = minimizers
        self.parts = tuple(_parts(feed, minimizers))
        self._feed = feed

    @property
    def loss(self) -> Any:
        """The loss of the first update, when it was carried out last."""
        return self.minimizers[0].loss

    @property
    def tensors(self) -> Sequence[Any]:
        """Those of the last batch."""
        return self._feed.tensors

    def __call__(self) -> Work:
        """Do one step; return its work."""
        for _, part in self.parts:
            part()
        return self._feed.work

    def prepare(self, switches: Any) -> None:
        """See ``Minimizer.prepare``; each takes a batch."""
        for minimizer in self.minimizers:
            self._feed.first()
            self._feed.copy()
            minimizer.prepare(switches)

    def compute(self) -> None:
        """Do no update: the gradients are those of the next batch of each; where two share a parameter, their sum."""
        for minimizer in self.minimizers:
            minimizer.clear()
        for minimizer in self.minimizers:
            for part in (self._feed.first, self._feed.copy, minimizer.forward, minimizer.backward):
                part()
        for minimizer in self.minimizers:
            minimizer.unscale()

    def take(self) -> Sequence[Any]:
        """Return the tensors of the next batch, on the host."""
        self._feed.first()
        return self._feed.tensors


def _parts(feed, minimizers):
    fetch = feed.first
    for minimizer in minimizers:
        for _ in range(minimizer.times):
            yield "input", fetch
            yield "host_to_device", feed.copy
            yield "update", minimizer.clear
            yield "forward", minimizer.forward
            yield "backward", minimizer.backward
            yield "update", minimizer.update
            fetch = feed.further
