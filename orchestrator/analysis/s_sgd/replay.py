"""One device's step as layers that can be waited for: what the model ``replay`` does instead of computing."""

import math

from orchestrator.analysis.s_sgd.inputs import Inputs

BYTES_PER_NUMBER = 4  # a replay exchanges single precision: as many bytes, whatever they were


def layers_to_wait_for(inputs: Inputs) -> list[tuple[int, float, float]]:
    """Return (numbers, seconds of the forward pass, of the backward pass) of each layer that has parameters, the one
    next to the input first.

    The backward pass of a layer without parameters belongs to the next one below that has some, whose gradient comes
    after it; below the lowest, to that one, whose gradient comes so much too late. The forward pass, beside which
    nothing is exchanged, is divided as the backward pass is.
    """
    found: list[tuple[int, float]] = []
    seconds = 0.0
    for size, backward_s in zip(reversed(inputs.gradient_bytes), reversed(inputs.parts.backward_s), strict=True):
        seconds += backward_s
        if size:
            found.append((max(1, size // BYTES_PER_NUMBER), seconds))
            seconds = 0.0
    if not found:
        return []
    found[-1] = (found[-1][0], found[-1][1] + seconds)
    share = inputs.parts.forward_s / math.fsum(one for _, one in found)
    return [(numbers, backward_s * share, backward_s) for numbers, backward_s in reversed(found)]
