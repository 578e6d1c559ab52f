"""A ratio of two things measured side by side, with its interval.

Pairs are taken in turn (A B, B A, A B …), so that a slow minute of the machine meets both. The interval is Student's t
on the logarithms of the pairs' ratios: the pairs are independent repetitions, the readings inside one are not.
"""

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from scipy import stats


@dataclass(frozen=True)
class Ratio:
    """``value`` is the geometric mean of the pairs' ratios; ``ci_low`` and ``ci_high`` bound it at 95 %."""

    name: str
    wanted: str
    value: float
    ci_low: float
    ci_high: float
    pairs: int
    a: list[float]
    b: list[float]

    def __str__(self) -> str:
        interval = f"{self.value:.3f} [{self.ci_low:.3f}, {self.ci_high:.3f}]"
        return f"{self.name:<62} {interval:<24} n={self.pairs:<3} wanted {self.wanted}"

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def ratio(name: str, wanted: str, a: Sequence[float], b: Sequence[float]) -> Ratio:
    """The ratio a/b of pairs, all positive.

    Raises:
        ValueError: fewer than two pairs.
    """
    if len(a) < 2 or len(a) != len(b):
        raise ValueError(f"{name}: a ratio needs two pairs or more")
    logs = [math.log(x / y) for x, y in zip(a, b, strict=True)]
    mean, n = statistics.fmean(logs), len(logs)
    half = float(stats.t.ppf(0.975, n - 1)) * statistics.stdev(logs) / math.sqrt(n)
    return Ratio(name, wanted, math.exp(mean), math.exp(mean - half), math.exp(mean + half), n, list(a), list(b))


# Judgements. A pilot tells the deviation to a third; where more would be needed, a machine is no place to ask on.
PILOT, MOST_PAIRS = 6, 40
WANTED_HALF_WIDTH = 0.01


def pairs_for(a: Sequence[float], b: Sequence[float], half_width: float = WANTED_HALF_WIDTH) -> int:
    """How many pairs make the interval's half-width that of ``half_width``, by the deviation of a pilot's, which is in
    no interval itself; no fewer than the pilot has, and ``MOST_PAIRS`` at most.

    Raises:
        ValueError: fewer than two pairs.
    """
    deviation = statistics.stdev(math.log(x / y) for x, y in zip(a, b, strict=True))
    for n in range(len(a), MOST_PAIRS):
        if float(stats.t.ppf(0.975, n - 1)) * deviation / math.sqrt(n) <= math.log1p(half_width):
            return n
    return MOST_PAIRS


def in_turn(pairs: int, a: Callable[[], float], b: Callable[[], float]) -> tuple[list[float], list[float]]:
    """Take ``pairs`` pairs, the order within a pair changing each time."""
    taken: tuple[list[float], list[float]] = ([], [])
    for index in range(pairs):
        for which in (0, 1) if index % 2 == 0 else (1, 0):
            taken[which].append((a, b)[which]())
        print(f"  pair {index + 1}/{pairs}: {taken[0][-1]:.4g} / {taken[1][-1]:.4g}", file=sys.stderr, flush=True)
    return taken
