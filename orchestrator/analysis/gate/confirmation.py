"""Is the new subject slower than the old one? Both alternate in blocks of fresh processes, as many as it takes.

A block is one run of each, one after the other: what it has in common is in no difference, as the logarithm of the
ratio of its two rates is what counts. After each block from the fourth on the paired t statistic is looked at, twice:

slower        it is told that the loss is above 0
no such loss  it is told that the loss is below the size that was asked for
go on         neither, and there may be more blocks
cannot tell   neither, and there may not

Each of the first two is wrong in at most ``LEVEL`` of cases, all looks together, and each look at its own would not
be: the level is spent as Lan & DeMets (1983, Biometrika 70:659, section 3, alpha*_1) spend it, in proportion to how
many of the planned blocks there are, close to the boundaries of O'Brien & Fleming (1979, Biometrics 35:549). The
boundaries of standard normal sums are found by the recursion of Armitage, McPherson & Rowe (1969, Journal of the
Royal Statistical Society A 132:235), and used at the nominal levels that they have, with Student's t (significance
level approach: Jennison & Turnbull 2000, Group Sequential Methods, section 4.4). "No such loss" spends nothing of the
level of "slower": who goes on in spite of it changes nothing.

``LEVEL`` is 0.25 %, a two-sided 0.5 %, and not 5 %: the rate of false alerts is that of candidates times the level.
200 series with 0.1 of them in 60 nights make 20 trials: 5 % one-sided would be a false alert in two months, 0.25 %
are one in three years.

While it goes on, bounds are the repeated confidence interval of that same boundary (Jennison & Turnbull 1989, Journal
of the Royal Statistical Society B 51:305): it holds at whichever block one looks. Who stops because a loss was large
publishes too large a loss. So where the answer is "slower" the effect is the median unbiased one, and its 95 %
interval orders the outcomes by stages: stopped earlier is further from 0 (Tsiatis, Rosner & Mehta 1984, Biometrics
40:797).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy import special

from orchestrator.analysis.statistics.autocorrelation import Floats

LEVEL = 0.0025  # of each answer, one-sided
CONFIDENCE = 0.95  # of what is published

# Chosen by simulation (``bench/gate.py``).
ASKED_SHARE = 0.75  # of a candidate's difference: the loss that its confirmation asks for
LEAST_ASKED = 0.005  # no smaller loss is asked for

# Judgements.
LEAST_BLOCKS = 4  # the noise of fewer is not known
MOST_BLOCKS = 120
FARTHEST = math.log(1e4)  # of a bound, as a logarithm: whatever is beyond 10,000 times is no bound
LEAST_DEVIATION = 1e-4  # of the logarithm of a ratio
OF_LOOKING = 1.05  # by so much a boundary that is looked at often is further out than that of one look

_REACH = 7.0  # standard deviations, beyond which there is nothing
_PER_NODE = 0.8  # of the integration, in standard deviations of a block

Answer = Literal["slower", "no_such_loss", "go_on", "cannot_tell"]


@dataclass(frozen=True)
class Design:
    """What was fixed before the first block.

    Attributes:
        size: the loss that is asked for, as a logarithm above 0.
        most_blocks: there are no more.
        level: of each answer, one-sided.
    """

    size: float
    most_blocks: int
    level: float = LEVEL


@dataclass(frozen=True)
class Decision:
    """What the blocks so far tell.

    Attributes:
        blocks: how many count; those behind a block that told do not.
        effect: new / old - 1, as a ratio; below 0 the new subject is slower.
        low, high: its bounds: of ``slower`` the interval at ``CONFIDENCE``, else the repeated one. Both are None below
            ``LEAST_BLOCKS``, and ``effect`` is None without a block.
        text: said in words.
    """

    answer: Answer
    blocks: int
    effect: float | None
    low: float | None
    high: float | None
    text: str


def design(difference: float, deviation: float, budget_blocks: int, level: float = LEVEL) -> Design:
    """Plan a confirmation.

    Args:
        difference: the loss that is asked for, as a ratio, such as 0.02.
        deviation: expected standard deviation of the logarithm of a block's ratio: that of a run times the root of 2.
        budget_blocks: blocks that there may be. There are fewer where fewer tell a loss of that size from none.
        level: in how many cases each answer may be wrong, one-sided.

    Raises:
        ValueError: the budget is less than ``LEAST_BLOCKS``, or a number makes no sense.
    """
    if not 0.0 < difference < 1.0:
        raise ValueError(f"a loss of {difference:g} is none that can be asked for: above 0 and below 1")
    if not (math.isfinite(deviation) and deviation >= 0.0):
        raise ValueError(f"{deviation:g} is no standard deviation")
    if budget_blocks < LEAST_BLOCKS:
        raise ValueError(
            f"a budget of {budget_blocks} blocks tells nothing: it takes {LEAST_BLOCKS}, one run of each side in each"
        )
    size = -math.log1p(-difference)
    wanted = _wanted(size, max(deviation, LEAST_DEVIATION), level)
    return Design(size, min(wanted, budget_blocks, MOST_BLOCKS), level)


def _wanted(size: float, deviation: float, level: float) -> int:
    """Blocks after which the bounds are less than ``size`` apart, so that one of the answers holds."""
    blocks = np.arange(LEAST_BLOCKS, MOST_BLOCKS)
    apart = -2.0 * special.stdtrit(blocks - 1, level) * OF_LOOKING * deviation / np.sqrt(blocks)
    return int(LEAST_BLOCKS + np.count_nonzero(apart > size))


def judge(plan: Design, old: Sequence[float], new: Sequence[float]) -> Decision:
    """Say what the blocks so far tell: of the first look that told, whatever came behind it.

    Args:
        old, new: rates of each block's two runs, in the order of the blocks.

    Raises:
        ValueError: the sides are not of one length, there are more blocks than planned, or a rate is not positive.
    """
    if len(old) != len(new) or len(old) > plan.most_blocks:
        raise ValueError(f"{len(old)} and {len(new)} runs are no blocks of a plan of {plan.most_blocks} at most")
    rates = np.array([old, new], dtype=float)
    if not (np.isfinite(rates).all() and (rates > 0).all()):
        raise ValueError("judge wants positive rates")
    losses = np.log(rates[0] / rates[1])
    n = len(losses)
    if n < LEAST_BLOCKS:
        told = f"after {n} of {plan.most_blocks} blocks: the first look is after {LEAST_BLOCKS}"
        return Decision("go_on", n, _ratio(float(losses.mean())) if n else None, None, None, told)
    blocks = np.arange(LEAST_BLOCKS, n + 1)
    middle = float(losses[0])  # and not their mean: later blocks change no digit of what was told
    means = np.cumsum(losses - middle)[LEAST_BLOCKS - 1 :] / blocks
    squares = np.cumsum((losses - middle) ** 2)[LEAST_BLOCKS - 1 :] - blocks * means**2
    errors = np.sqrt(np.maximum(squares / (blocks - 1), LEAST_DEVIATION**2) / blocks)
    means += middle
    halves = np.array(boundaries(plan.most_blocks, plan.level)[: len(blocks)]) * errors
    slower, lossless = means - halves > 0.0, means + halves < plan.size
    told_at = np.flatnonzero(slower | lossless)
    at = int(told_at[0]) if len(told_at) else len(blocks) - 1
    mean, half, count = float(means[at]), float(halves[at]), int(blocks[at])
    if slower[at]:
        return _slower(plan, count, mean, float(errors[at]))
    answer: Answer = "no_such_loss" if lossless[at] else "go_on" if count < plan.most_blocks else "cannot_tell"
    low, high = _ratio(mean + half), _ratio(mean - half)
    return Decision(answer, count, _ratio(mean), low, high, _text(answer, plan, count, low, high))


def _slower(plan: Design, count: int, mean: float, error: float) -> Decision:
    smallest, middle, largest = published(plan.most_blocks, count, mean, error, plan.level)
    effect, low, high = _ratio(middle), _ratio(largest), _ratio(smallest)
    text = f"slower: {effect:+.1%} (95 % interval {low:+.1%} to {high:+.1%}), after {count} blocks"
    return Decision("slower", count, effect, low, high, text)


def _text(answer: Answer, plan: Design, count: int, low: float, high: float) -> str:
    asked = f"{-_ratio(plan.size):.1%}"
    if answer == "no_such_loss":
        return f"no loss of {asked}: {low:+.1%} to {high:+.1%} after {count} blocks"
    if answer == "go_on":
        return f"{low:+.1%} to {high:+.1%} after {count} of {plan.most_blocks} blocks"
    return f"cannot tell a loss of {asked} within {count} blocks: {low:+.1%} to {high:+.1%}"


def _ratio(loss: float) -> float:
    """new / old - 1 of a loss of logarithms. A bound of few noisy blocks may be beyond all floats: it tells nothing."""
    return math.expm1(min(-loss, FARTHEST))


@lru_cache(maxsize=256)
def boundaries(most_blocks: int, level: float = LEVEL) -> tuple[float, ...]:
    """Return how large Student's t has to be after ``LEAST_BLOCKS`` blocks, after one more, … after ``most_blocks``."""
    normal = _normal_boundaries(most_blocks, level)
    return tuple(float(-special.stdtrit(LEAST_BLOCKS + k - 1, special.ndtr(-z))) for k, z in enumerate(normal))


@lru_cache(maxsize=256)
def _normal_boundaries(most_blocks: int, level: float = LEVEL) -> tuple[float, ...]:
    """The same of a standard normal Z."""
    shares = np.arange(LEAST_BLOCKS, most_blocks + 1) / most_blocks
    spent = 2.0 * special.ndtr(special.ndtri(level / 2) / np.sqrt(shares))
    walk, found = _Walk(), []
    for more in np.diff(spent, prepend=0.0):
        low, high = 0.0, _REACH
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if walk.beyond(middle) > more else (low, middle)
        found.append(high)
        walk.go_on_below(high)
    return tuple(found)


class _Walk:
    """The sum of independent standard normal values, one a block, as far as it has crossed no boundary."""

    def __init__(self) -> None:
        self._block = LEAST_BLOCKS
        self._nodes: Floats = np.zeros(1)  # of the sum before this block, each with its probability
        self._weights: Floats = np.ones(1)
        self._spread = math.sqrt(LEAST_BLOCKS)  # of what this look adds

    def beyond(self, z: float) -> float:
        """How likely the walk came so far and is beyond ``z`` standard deviations at this look."""
        return float(self._weights @ special.ndtr((self._nodes - z * math.sqrt(self._block)) / self._spread))

    def go_on_below(self, z: float) -> None:
        """To the next look; what is beyond ``z`` at this one has stopped."""
        root = math.sqrt(self._block)
        lowest, highest = -_REACH * root, min(z, _REACH) * root
        if highest <= lowest:
            self._weights = np.zeros(1)
            self._nodes = np.zeros(1)
        else:
            unit, weights = _gauss_legendre(16 * math.ceil((highest - lowest) / _PER_NODE / 16))
            nodes = lowest + (unit + 1.0) * (highest - lowest) / 2
            off = (nodes[:, None] - self._nodes[None, :]) / self._spread
            density = np.exp(-(off**2) / 2) @ self._weights / (self._spread * math.sqrt(2 * math.pi))
            self._weights = density * weights * (highest - lowest) / 2
            self._nodes = nodes
        self._block += 1
        self._spread = 1.0


@lru_cache(maxsize=64)
def _gauss_legendre(count: int) -> tuple[Floats, Floats]:
    """Nodes and weights on [-1, 1]."""
    return np.polynomial.legendre.leggauss(count)


def published(
    most_blocks: int, count: int, mean: float, error: float, level: float = LEVEL
) -> tuple[float, float, float]:
    """Return (lower end, median unbiased value, upper end) of the loss where block ``count`` told that it is above 0.

    A loss is in the interval unless an outcome as far from 0 as this one has less than half of 1 - ``CONFIDENCE``
    under it, or more than the rest. All noise is taken for that of the blocks there are.

    Args:
        mean, error: of the blocks' losses.
    """
    from scipy import optimize  # 23 MB, which a server that confirms nothing need not hold

    farthest = (boundaries(most_blocks, level)[count - LEAST_BLOCKS] + _REACH) * error
    side = (1.0 - CONFIDENCE) / 2

    def end(share: float) -> float:
        return float(
            optimize.brentq(
                lambda loss: _as_far(boundaries(most_blocks, level), count, mean, error, loss) - share,
                mean - farthest,
                mean + farthest,
                xtol=error * 1e-2,
            )
        )

    return end(side), end(0.5), end(1.0 - side)


def _as_far(limits: Sequence[float], count: int, mean: float, error: float, loss: float) -> float:
    """How likely a true ``loss`` is told at an earlier block, or at this one by as large a t."""
    walk, all_of_it = _Walk(), 0.0
    deviation = error * math.sqrt(count)
    for block, boundary in zip(range(LEAST_BLOCKS, count), limits, strict=False):
        z = _normal(boundary - loss * math.sqrt(block) / deviation, block - 1)
        all_of_it += walk.beyond(z)
        walk.go_on_below(z)
    return all_of_it + walk.beyond(_normal((mean - loss) / error, count - 1))


def _normal(t: float, degrees: int) -> float:
    """The standard normal value that is as rare as ``t``."""
    return float(np.clip(-special.ndtri(special.stdtr(degrees, -t)), -_REACH - 1, _REACH + 1))
