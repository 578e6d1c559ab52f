"""Parts of a time as differences between two cells, in seconds: estimated block by block, so that they add up.

What two cells of one experiment have in common in a block divides out of a ratio (``statistics.blocks``); of a
difference in seconds it drops out as far as it is added. Means are arithmetic, since parts have to add up.
"""

import math
from collections.abc import Container
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy import special

from orchestrator.analysis.s_sgd.explain.rank_steps import Block, Values

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over blocks in seconds with its 95 % interval by Student's t (Welch's between two sides that share no
    blocks); without bounds where fewer than two blocks tell, or all tell the same."""

    seconds: float
    ci_low: float | None = None
    ci_high: float | None = None


@dataclass(frozen=True)
class Term:
    """A part as what a cell has of it in each block, less what the ``other`` cell has; ``told``: whether both know."""

    name: str
    own: Values
    other: Values | None = None
    told: bool = True
    note: str | None = None


def estimate(term: Term, paired: bool, stage: Container[Block] | None = None) -> Estimate:
    """Return the mean of a term with its interval.

    Args:
        paired: both sides have the same blocks.
        stage: the blocks that tell the noise, as of ``blocks.compare_groups``; None: all do.
    """
    other = term.other or {}
    if paired or not other:
        differences = {block: value - other.get(block, 0.0) for block, value in term.own.items()}
        mean, spread = fmean(differences.values()), error(differences, stage)
    else:
        mean = fmean(term.own.values()) - fmean(other.values())
        spread = _welch(error(term.own, stage), error(other, None))
    if spread is None or spread[0] == 0.0:
        return Estimate(mean)
    half = float(special.stdtrit(spread[1], (1 + CONFIDENCE) / 2)) * math.sqrt(spread[0])
    return Estimate(mean, mean - half, mean + half)


def error(values: Values, stage: Container[Block] | None) -> tuple[float, float] | None:
    """Return (variance of the mean, its degrees of freedom); None where too few blocks tell it. What is nothing in
    every block was not measured, and has no error."""
    noise = [value for block, value in values.items() if stage is None or block in stage]
    if not any(values.values()):
        return 0.0, math.inf
    if len(noise) < 2:
        return None
    return stdev(noise) ** 2 / len(values), len(noise) - 1


def _welch(a: tuple[float, float] | None, b: tuple[float, float] | None) -> tuple[float, float] | None:
    """Of a difference: variances add up, degrees of freedom by Satterthwaite (1946, Biometrics Bulletin 2:110)."""
    if a is None or b is None:
        return None
    variance = a[0] + b[0]
    weight = a[0] ** 2 / a[1] + b[0] ** 2 / b[1]
    return variance, variance**2 / weight if weight > 0 else math.inf
