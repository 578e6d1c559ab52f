"""The numbers that weights begin with: distributions, and what they are drawn by."""

import math
from typing import Any, Sequence, Tuple

from workers.trainer.base.signatures import Array

# A distribution of initial numbers: made by the functions below.
Initial = Tuple[str, float]


def normal(deviation: float) -> Initial:
    """Initial numbers with a normal distribution around 0."""
    return "normal", deviation


def truncated(deviation: float) -> Initial:
    """The same, with those drawn anew that are farther from 0 than twice the deviation."""
    return "truncated", deviation


def uniform(bound: float) -> Initial:
    """Initial numbers with a uniform distribution from -bound to bound."""
    return "uniform", bound


def constant(value: float) -> Initial:
    """Initial numbers that are all the same."""
    return "constant", value


ZERO = constant(0.0)


def over_outputs(outputs: int, kernel: int) -> Initial:
    """He's deviation over the outputs: variance 2 / (outputs * kernel^2), as torchvision initialises its ResNets."""
    return normal(math.sqrt(2.0 / (outputs * kernel**2)))


def xavier(inputs: int, kernel: int = 1) -> Initial:
    """Caffe's "xavier": uniform, variance 1 / (inputs * kernel^2).

    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010,
    equation 10, of which Caffe takes the inputs alone (include/caffe/filler.hpp).
    """
    return uniform(math.sqrt(3.0 / (inputs * kernel**2)))


def glorot(inputs: int, outputs: int) -> Initial:
    """Glorot and Bengio's "normalized initialization", equation 16: uniform, variance 2 / (inputs + outputs)."""
    return uniform(math.sqrt(6.0 / (inputs + outputs)))


def over_inputs(inputs: int) -> Initial:
    """PyTorch's bound for its layers: uniform within 1 / sqrt(inputs), weights and biases."""
    return uniform(1.0 / math.sqrt(inputs))


def drawn(generator: Any, shape: Sequence[int], initial: Initial) -> Array:
    """Return a float32 array, by numpy's ``RandomState``."""
    import numpy

    distribution, number = initial
    if distribution == "normal":
        values = generator.standard_normal(shape) * number
    elif distribution == "truncated":
        values = _within_two(generator, shape) * number
    elif distribution == "uniform":
        values = generator.uniform(-number, number, shape)
    else:
        values = numpy.full(shape, number)
    return values.astype(numpy.float32)


def _within_two(generator, shape):
    values = generator.standard_normal(shape)
    beyond = abs(values) > 2.0
    while beyond.any():
        values[beyond] = generator.standard_normal(int(beyond.sum()))
        beyond = abs(values) > 2.0
    return values
