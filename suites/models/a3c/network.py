"""A3C's network as data: two convolutions over the last images of a game, and two heads, a policy and a value.

Source of the architecture: Mnih et al., "Asynchronous Methods for Deep Reinforcement Learning", 2016, section 5 and
supplement 8: that of Mnih et al., "Playing Atari with Deep Reinforcement Learning", 2013. Initial weights are those of
MXNet's example (github.com/apache/mxnet, example/reinforcement-learning/a3c: sym.py, a3c.py), which TBD trains.
"""

import math
from typing import List

from suites.assemble.initial import ZERO, Initial, normal, uniform
from suites.assemble.layers import Convolution, Layer, Linear, flops
from workers.trainer.base.signatures import Size

# (kernel, stride) of the convolutions.
KERNELS = ((8, 4), (4, 2))
# What the heads begin within.
HEAD = uniform(0.001)
# What the entropy of the policy, and the square of the value's error, count in the loss: supplement 8, and its code.
ENTROPY, VALUE = 0.01, 0.5


def layers(size: Size) -> List[Layer]:
    """Return all layers of a size (a table of ``[sizes]``), in the order of the forward pass."""
    inputs, pixels, found = size["images"], size["image_pixels"], []  # type: int, int, List[Layer]
    for number, (outputs, (kernel, stride)) in enumerate(zip(size["channels"], KERNELS), 1):
        pixels = (pixels - kernel) // stride + 1
        initial = _over_inputs(inputs * kernel**2)
        found.append(Convolution("conv%d" % number, inputs, outputs, kernel, pixels, initial, stride, bias=True))
        inputs = outputs
    inputs, hidden = inputs * pixels**2, size["hidden"]
    found.append(Linear("fc", inputs, hidden, _over_inputs(inputs), ZERO))
    return found + [Linear("policy", hidden, size["actions"], HEAD, ZERO), Linear("value", hidden, 1, HEAD, ZERO)]


def _over_inputs(inputs: int) -> Initial:
    """MXNet's Xavier(rnd_type="gaussian", factor_type="in", magnitude=2)."""
    return normal(math.sqrt(2.0 / inputs))


def step_operations(size: Size) -> int:
    """Return the operations of a step for each game of a batch: of ``steps`` agent steps the forward pass that acts;
    another one that tells what the state behind them is worth; and then, of all of them, the forward and the backward
    pass that learn, without the gradient of the images."""
    forward, first = flops(layers(size)), layers(size)[0].flops()
    return int((size["steps"] + 1) * forward + size["steps"] * (3 * forward - first))
