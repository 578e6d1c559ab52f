"""Speed-up and efficiency: the rate on n devices over the rate on one, block by block.

The definition is that of the second paper and of most others: speed-up S = rate(n) / rate(1), efficiency S / n. With
the same batch on each device (weak scaling) that is the scaled speed-up of Gustafson 1988 (Communications of the ACM
31:532); with one batch divided over the devices (strong scaling) it is T(1) / T(n) for the same work.

What a block has in common is in both rates and divides out. The interval is that of the mean logarithm of the ratio
within blocks (Student's t), so the noise of the baseline is in it. Each interval speaks for itself, at 95 %.
"""

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.analysis.cell.between_runs import CONFIDENCE
from orchestrator.analysis.statistics import blocks

METHOD = "ratio to one device within blocks, Student's t on logarithms"


@dataclass(frozen=True)
class Ratio:
    """A ratio of rates over ``blocks`` blocks; without bounds where these are fewer than two."""

    value: float
    ci_low: float | None
    ci_high: float | None
    blocks: int

    @property
    def confidence(self) -> float | None:
        return None if self.ci_low is None else CONFIDENCE

    def over(self, devices: int) -> "Ratio":
        """The efficiency, of a speed-up by so many devices."""
        low, high = (None if bound is None else bound / devices for bound in (self.ci_low, self.ci_high))
        return Ratio(self.value / devices, low, high, self.blocks)


def speedup(one: Mapping[Any, float], many: Mapping[Any, float], stage: Container[Any] | None = None) -> Ratio | None:
    """The rates of ``many`` devices over those of ``one``; None where no block has both.

    Args:
        one, many: block -> rate, above 0.
        stage: the blocks whose noise chose how many there are, as of ``blocks.compare_groups``.
    """
    both = [block for block in one if block in many]
    if not both:
        return None
    (pair,) = blocks.compare_groups([{"one": one, "many": many}], "one", stage)[0]
    if pair.ratio is not None:
        return Ratio(pair.ratio, pair.ci_low, pair.ci_high, len(both))
    logs = [math.log(many[block] / one[block]) for block in both]
    return Ratio(math.exp(math.fsum(logs) / len(logs)), None, None, len(both))
