"""How many runs a wanted precision takes: Stein's two stages (Stein 1945, Annals of Mathematical Statistics 16:243).

The runs of a first stage of fixed size say how noisy runs are, and with that how many there must be in all; the later
ones say nothing about noise. So the mean is independent of what decided when to stop, and the interval

    mean of all runs +- t(first - 1) x s(first stage) / sqrt(all)

holds the truth as often as it says, whatever the number of runs. An interval from the variance of all runs would not:
one stops when that happens to be small.

Rates are positive, so mean and deviation are those of their logarithms. An interval is within 1 % where its upper end
is 1 % above the value, or less; its lower end is then nearer still.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import stdev

CONFIDENCE = 0.95
_LARGEST = 600.0  # of a logarithm; its power is a number still, also times a rate
FIRST_STAGE = 6  # runs or more: fewer know too little of the noise (t(2) is 4.3, t(5) is 2.6)


@dataclass(frozen=True)
class Stein:
    """What a first stage says.

    Attributes:
        wanted: runs in all, the first stage among them, for an interval within the target.
        half_width_ratio: from the value to the upper end of the 95 % interval of the runs that there are, over the
            value.
        met: whether that is within the target.
    """

    wanted: int
    half_width_ratio: float
    met: bool


def first_stage(repeats: int) -> int:
    """Return how many runs of a cell are carried out before anything is decided."""
    return max(FIRST_STAGE, repeats)


def stein(values: Sequence[float], first: int, target: float) -> Stein:
    """Judge the rates of a cell's runs: ``values``, above 0, in the order of their repetitions, the ``first`` of them
    the first stage.

    Raises:
        ValueError: fewer than two values in the first stage: nothing is known of the noise.
    """
    scale = scale_of([math.log(value) for value in values], first)
    half = scale / math.sqrt(len(values))
    wanted = max(first, math.ceil((scale / math.log1p(target)) ** 2 * (1 - 1e-9)))
    return Stein(wanted, upper_side(half), half <= math.log1p(target) * (1 + 1e-9))


def upper_side(half_width: float) -> float:
    """How far above a value its interval reaches, over the value: the half-width is that of the logarithm."""
    return math.expm1(min(half_width, _LARGEST))


def power(logarithm: float) -> float:
    """e to the ``logarithm``. Where runs differ a hundredfold the end of an interval may be a number that no computer
    holds: then the largest, or the least, that this gives."""
    return math.exp(min(max(logarithm, -_LARGEST), _LARGEST))


def scale_of(values: Sequence[float], first: int) -> float:
    """Return t(first - 1) x s(first stage) of numbers: over sqrt(n) it is the half-width of the interval of n runs.

    Raises:
        ValueError: fewer than two values in the first stage.
    """
    stage = values[:first]
    if len(stage) < 2:
        raise ValueError("Stein's rule wants two values or more in its first stage")
    from scipy import special  # it takes long to import, and most commands need none of it

    return float(special.stdtrit(len(stage) - 1, 0.5 + CONFIDENCE / 2)) * stdev(stage)
