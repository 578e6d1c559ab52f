"""Where the level of a series changes: the optimal partition that PELT finds (Killick, Fearnhead & Eckley 2012, JASA
107:1590), without its pruning: for the few hundred points here, whole rows at a time are quicker.

The cost of a segment is its sum of squares around its mean (a change in mean, variance given by the caller).
"""

import math

import numpy as np

from orchestrator.analysis.statistics.autocorrelation import Floats


def change_points(values: Floats, penalty: float, least: int) -> list[int]:
    """Return the indices at which a new segment begins (without 0), optimal for the penalised cost.

    Args:
        values: the series; the caller takes out spikes first.
        penalty: cost of one more segment, in the square of the series' unit.
        least: no segment is shorter, in values.
    """
    n = len(values)
    if n < 2 * least:
        return []
    total = _cumulated(values)
    # F(t): least cost of y[0:t] (Killick's notation), less what the squares before t add to it
    cost_f = np.full(n + 1, math.inf)
    cost_f[0] = -penalty
    last = np.zeros(n + 1, dtype=int)
    position = np.arange(n + 1)
    for t in range(least, n + 1):
        starts = slice(0, t - least + 1)  # those between 0 and `least` cost infinitely much: no segment is shorter
        path = cost_f[starts] - (total[t] - total[starts]) ** 2 / (t - position[starts])
        best = int(np.argmin(path))
        cost_f[t] = path[best] + penalty
        last[t] = best
    return _backwards(last, n)


def penalty(long_run: float, n: int, strictness: float) -> float:
    """Return the cost of a segment: ``strictness`` x log(n) x long-run variance.

    Strictness 2 is the Schwarz criterion for independent noise (a position and a level). The long-run variance is what
    makes the waves of an autocorrelated series too dear to be called shifts (Lavielle & Moulines 2000).
    """
    return strictness * math.log(n) * long_run


def _cumulated(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values - values.mean())])


def _backwards(last: np.ndarray, n: int) -> list[int]:
    points: list[int] = []
    t = n
    while last[t] > 0:
        t = int(last[t])
        points.append(t)
    return points[::-1]
