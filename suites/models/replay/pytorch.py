"""The waiting layers as PyTorch's modules. A step hands one number from layer to layer, and nothing is computed."""

import itertools
from typing import Any, Sequence, Tuple

import torch
from torch import Tensor, nn

from suites.models import replay
from suites.models.replay import Layer, Pass
from workers.trainer.base import optimizer, updates
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Arrays, Batches

BATCHES = 2


class Waiting(torch.autograd.Function):
    """Waits there and back; the gradient of the weights is there when the backward pass of the layer ends."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, there: Pass, back: Pass) -> Tensor:
        there.wait()
        ctx.back, ctx.numbers, ctx.options = back, weight.numel(), {"dtype": weight.dtype, "device": weight.device}
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tuple[Tensor, Tensor, None, None]:
        of_weights = torch.zeros(ctx.numbers, **ctx.options)
        ctx.back.wait()
        return gradient, of_weights, None, None


class WaitingLayer(nn.Module):
    def __init__(self, layer: Layer, there: Pass, back: Pass) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(layer.numbers))
        self._there, self._back = there, back

    def forward(self, x: Tensor) -> Tensor:
        return Waiting.apply(x, self.weight, self._there, self._back)


class Model(object):
    """What the adapter trains: see ``suites.assemble.pytorch.build.Model``."""

    def __init__(self, layers: Sequence[Layer], rule: Any, device: torch.device) -> None:
        there = Pass([layer.forward_s for layer in layers])
        back = Pass([layer.backward_s for layer in reversed(layers)])
        self.network = nn.Sequential()
        for layer in layers:
            self.network.add_module(layer.name, WaitingLayer(layer, there, back))
        self.network.to(device)
        self._device = device
        self._optimizer = rule

    @property
    def updates(self) -> Tuple[updates.Update, ...]:
        return updates.whole(self.loss, list(self.network.parameters()), self._optimizer)

    @property
    def batches(self) -> Batches:
        """A number a batch, whatever the rank."""
        return lambda rank: itertools.cycle([([torch.ones(1)], {"iterations": 1})] * BATCHES)

    def loss(self, batch: Sequence[Tensor]) -> Tensor:
        """Return 1, after the forward pass."""
        return self.network(batch[0].to(self._device)).mean()

    def described(self, arrays: Sequence[Any]) -> Arrays:
        """Return {name: array} of an array for each parameter."""
        names = (name for name, _ in self.network.named_parameters())
        return {name: array for name, array in zip(names, arrays) if array is not None}


def build(job: Job, process: Process, device: torch.device) -> Model:
    """Return the ``Model`` on ``device``."""
    return Model(replay.layers_of(job), optimizer.of_job(job), device)
