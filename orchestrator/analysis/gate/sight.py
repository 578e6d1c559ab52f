"""How small a slowdown the gate sees of a series, and how many runs a night would see a smaller one.

A drop is called where the step test of ``candidates`` is beyond its level, and where a step explains more than any ramp
by ``MARGIN``. Of a drop without noise both are known: the sum of squares that it explains, and how much of that a ramp
leaves. So the smallest drop of which both come true in ``CHANCE`` of cases follows from the noise of the nights: the
power of a t test, and of a squared normal value. ``bench/gate.py`` holds it against simulated nights.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from orchestrator.analysis.gate.candidates import (
    LEAST_DEVIATION,
    LEAST_NIGHTS,
    LEVEL,
    MARGIN,
    WINDOW,
    clipped,
    fitted,
    memory_of,
)
from orchestrator.analysis.gate.suspects import Suspect
from orchestrator.analysis.history.baselines import Observation
from orchestrator.analysis.statistics.autocorrelation import Floats

CHANCE = 0.9  # that it is called
WITHIN = 3  # nights


@dataclass(frozen=True)
class Sight:
    """What is seen of a series on one place.

    Attributes:
        drop: the smallest that is called within ``WITHIN`` nights in ``CHANCE`` of cases, as a ratio above 0.
        deviation: of the logarithm of a night, by ``nights`` of them since the last change.
    """

    drop: float
    deviation: float
    nights: int


def sight_of(values: Floats) -> Sight | None:
    """Return what is seen from tonight on; None of fewer nights than can be judged.

    Args:
        values: mean logarithm of the rates of each night since the last change, oldest first.
    """
    seen = values[-(WINDOW - WITHIN) :]
    if len(seen) < LEAST_NIGHTS:
        return None
    rest = clipped(seen - seen[0])
    rest = rest - rest.mean()
    deviation = max(math.sqrt(float(rest @ rest) / (len(rest) - 1)), LEAST_DEVIATION)
    memory = memory_of(np.zeros(0), rest)
    nights = len(seen) + WITHIN
    of_one = fitted(-(np.arange(nights) >= len(seen)).astype(float), memory)  # a drop of 1 without noise
    beyond = float(special.ndtri(CHANCE))
    by_level = (beyond - float(special.stdtrit(nights - 3, LEVEL))) / math.sqrt(of_one.step.explained)
    by_margin = (beyond + math.sqrt(beyond**2 + MARGIN)) / math.sqrt(of_one.step.explained - of_one.ramp.explained)
    size = max(by_level, by_margin) * deviation * math.sqrt(1.0 - memory**2)
    return Sight(-math.expm1(-size), deviation, len(seen))


def sights_of(observations: Sequence[Observation], moves: Sequence[Suspect]) -> dict[str, Sight]:
    """Place -> what is seen on it, of those that have enough nights since the last step of ``moves``."""
    begun = {move.place: move.begins.point for move in moves if move.kind == "step"}
    values: dict[str, list[float]] = {}
    for one in observations:
        if one.point >= begun.get(one.place, 0):
            values.setdefault(one.place, []).append(one.value)
    found = {place: sight_of(np.array(theirs)) for place, theirs in values.items()}
    return {place: sight for place, sight in found.items() if sight is not None}


def runs_for(drop: float, seen: float, night: float, run: float, runs: float) -> float | None:
    """How many runs a night it takes to see ``drop``, instead of ``runs`` by which ``seen`` is seen; None where no
    number does, as nights differ by more than their runs explain.

    Args:
        night, run: standard deviations of the logarithm, of a night and of a run within one.
    """
    between = max(night**2 - run**2 / runs, 0.0)
    left = (night * math.log1p(-drop) / math.log1p(-seen)) ** 2 - between
    return run**2 / left if left > 0.0 else None
