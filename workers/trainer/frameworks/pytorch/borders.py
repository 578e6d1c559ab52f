"""Keeps a case away from the borders of a network's choices, where rounding decides.

Which side of zero rounding puts the input of a ReLU on is chance, and differs between frameworks and processors; so
does which of two values of a pooling window is the larger. One that changes sides moves the gradients of all layers
before it, by 0.5 % in a small network: far more than rounding does. In a good case nothing is near a border.
"""

from typing import Any, Callable, Dict, Sequence

import numpy
import torch
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from suites.assemble.pytorch.layers import FixedNormalization
from workers.trainer.base.signatures import Array

_RELUS = (torch.ops.aten.relu.default, torch.ops.aten.relu_.default)
_POOLING = torch.ops.aten.max_pool2d_with_indices.default
# What detectors order their proposals by.
_SORT = torch.ops.aten.sort.stable
# Modules that add a bias to each of their channels.
_BIASED = (nn.Conv2d, nn.ConvTranspose2d, nn.Linear, nn.BatchNorm2d, nn.GroupNorm, FixedNormalization)

# Judgements. No parameter keeps its initial, symmetric value: vectors are moved by this deviation.
DEVIATION = 0.2
# How far a bias may be moved, in deviations of what it is added to.
FARTHEST = 0.5
# In single precision the inputs of the first layers move by 1e-6 of their size. Where two numbers of a pooling window
# are nearer than this, a case is drawn anew, so often at most.
APART = 1e-5
TRIES = 8


class Margins(TorchDispatchMode):
    """Watches how near the choices of a network come to their borders.

    ``found`` {from_zero, apart}: the smallest size of what a ReLU is given, and the smallest distance of the two
    largest numbers of a pooling window, or of two that are sorted; as parts of the root mean square of the array that
    they stand in.
    """

    def __init__(self) -> None:
        super().__init__()
        self.found = {"from_zero": float("inf"), "apart": float("inf")}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function in _RELUS:
            self._note("from_zero", args[0].abs(), args[0])
        elif function is _POOLING:
            self._note("apart", _distances(*args), args[0])
        elif function is _SORT and args[0].is_floating_point():
            numbers = args[0][args[0].isfinite()]
            self._note("apart", numbers.sort().values.diff(), numbers)
        return function(*args, **(kwargs or {}))

    def _note(self, name, sizes, x):
        if sizes.numel():
            size = sizes.min().item() / x.square().mean().sqrt().item()
            self.found[name] = min(self.found[name], size)


def _distances(x_NCHW, kernel, stride=(), padding=(0, 0), dilation=(1, 1), ceil=False):
    """Return how far the largest number of each window is from the second.

    Equal numbers have no part in it: they are copies of one, of an overlapping pooling before, or nothing at all,
    behind a ReLU. Whichever is taken, the gradient arrives at the same place.
    """
    height, width = kernel
    down, right = stride or kernel
    beyond = (right - 1, down - 1) if ceil else (0, 0)
    sides = (padding[-1], padding[-1] + beyond[0], padding[0], padding[0] + beyond[1])
    padded = functional.pad(x_NCHW, sides, value=-float("inf"))
    windows = padded.unfold(2, height, down).unfold(3, width, right).flatten(4)
    first, second = windows.topk(2).values.unbind(-1)
    distance = (first - second).flatten()
    return distance[distance > 0]


class _Shifts(TorchDispatchMode):
    """Moves biases so that no ReLU behind them is given a number near zero, channel by channel, in a forward pass.

    The bias is that of the module that ended last: what was added to its output meanwhile (a shortcut) only moves it.
    """

    def __init__(self, network):
        super().__init__()
        self._last = None
        biased = [one for one in network.modules() if isinstance(one, _BIASED) and one.bias is not None]
        self._handles = [one.register_forward_hook(self._ended) for one in biased]

    def _ended(self, module, given, output):
        self._last = module

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function in _RELUS and self._last is not None:
            axis = -1 if isinstance(self._last, nn.Linear) else 1
            if len(self._last.bias) == args[0].shape[axis]:
                args[0].add_(self._moved(self._last.bias, args[0].transpose(1, axis)).transpose(1, axis))
        return function(*args, **(kwargs or {}))

    def _moved(self, bias, x):
        """Move ``bias`` for ``x``; return by how much, in the shape of ``x``. It stays a number of single precision."""
        channels = x.transpose(0, 1).flatten(1).numpy()
        shifts = torch.tensor([shift(numbers) for numbers in channels])
        before = bias.clone()
        bias.copy_((bias + shifts).float())
        return (bias - before).reshape([1, -1] + [1] * (x.dim() - 2))

    def __exit__(self, *error):
        for handle in self._handles:
            handle.remove()
        return super().__exit__(*error)


def shift(numbers: torch.Tensor) -> float:
    """Return what, added to all ``numbers``, leaves none near zero: it moves zero into their widest gap around it."""
    farthest = FARTHEST * float(numbers.std())
    near = numbers[numpy.abs(numbers) < farthest]
    marks = numpy.sort(numpy.concatenate([near, [-farthest, farthest]]))
    widest = int(numpy.diff(marks).argmax())
    return -0.5 * float(marks[widest] + marks[widest + 1])


@torch.no_grad()
def case(model: Any, next_batch: Callable[[], Sequence[torch.Tensor]], seed: int) -> Dict[str, Array]:
    """Return weights and a batch for all frameworks, {name: float32 array}: see ``workers.trainer.loops.parity``.

    The weights are the model's, with all vectors moved. ``model`` computes in double precision; it is left changed.
    """
    generator = numpy.random.RandomState(seed)
    initial = {name: one.clone() for name, one in model.network.named_parameters()}
    best, farthest = None, -1.0
    for _ in range(TRIES):
        batch = next_batch()
        _perturb(model.network, initial, generator)
        with _Shifts(model.network):
            model.loss(batch)
        with Margins() as margins:
            model.loss(batch)
        if margins.found["apart"] > farthest:
            weights = {name: one.float().numpy() for name, one in model.network.named_parameters()}
            best, farthest = dict(weights, **model.given(batch)), margins.found["apart"]
        if farthest >= APART:
            break
    return best


def _perturb(network, initial, generator):
    """Begin with ``initial``, and move all vectors."""
    for name, parameter in network.named_parameters():
        value = initial[name]
        if value.dim() == 1:
            value = (value + torch.from_numpy(generator.normal(0.0, DEVIATION, tuple(value.shape)))).float()
        parameter.copy_(value)
