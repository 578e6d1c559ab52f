"""The work of one process of ``tbd noise``: steps of a small training in numpy, timed in intervals of so many steps.

Run as a file by the agent's own Python, which has numpy. Arguments: intervals before the timed ones, timed intervals,
steps of each. Prints one JSON object at its end: ``durations_s`` of the timed intervals, the ``first_loss`` and the
``last_loss``.

Two hidden layers of 1,024 by matrix products in float32, whose results are allocated anew at every step, as a
framework's are: what such a step costs depends on the cores, the caches, and the pages that the allocator gets.
"""

from __future__ import annotations

import json
import sys
import time

BATCH, INPUTS, HIDDEN, OUTPUTS = 128, 512, 1024, 16
LEARNING_RATE = 0.05


class Training:
    """A fit of random targets to random inputs, the same in every process."""

    def __init__(self) -> None:
        import numpy

        generator = numpy.random.RandomState(5)
        self._maximum = numpy.maximum
        sizes = (INPUTS, HIDDEN, HIDDEN, OUTPUTS)
        self._inputs = generator.standard_normal((BATCH, INPUTS)).astype(numpy.float32)
        self._targets = generator.standard_normal((BATCH, OUTPUTS)).astype(numpy.float32)
        self._weights = [
            (generator.standard_normal((rows, columns)) * (2.0 / rows) ** 0.5).astype(numpy.float32)
            for rows, columns in zip(sizes, sizes[1:])
        ]

    def step(self) -> float:
        """Train on the whole batch once; return the loss of before."""
        first, second, last = self._weights
        one = self._maximum(self._inputs @ first, 0)
        two = self._maximum(one @ second, 0)
        error = two @ last - self._targets
        slope = error / BATCH
        gradient_last = two.T @ slope
        slope = (slope @ last.T) * (two > 0)
        gradient_second = one.T @ slope
        slope = (slope @ second.T) * (one > 0)
        gradients = (self._inputs.T @ slope, gradient_second, gradient_last)
        for weights, gradient in zip(self._weights, gradients):
            weights -= LEARNING_RATE * gradient
        return float((error * error).mean())


def main(warm_up: int, intervals: int, steps: int) -> None:
    training = Training()
    first_loss = training.step()
    durations = []
    for _ in range(warm_up + intervals):
        begun = time.perf_counter()
        for _ in range(steps):
            loss = training.step()
        durations.append(time.perf_counter() - begun)
    told = {"durations_s": durations[warm_up:], "first_loss": first_loss, "last_loss": loss}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:4]))
