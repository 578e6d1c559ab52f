"""Which kernels, or operators of a framework, take longer: fresh profiled processes of both sides, a table of each.

What is compared is each kernel's seconds a step, mean over the ranks of a process, by Welch's t over the processes of
both sides (Welch 1947, Biometrika 34:28). All kernels are one family (Holm 1979, Scandinavian Journal of Statistics
6:65): that none of those is told which take as long as before holds in 95 % of cases. What is not told stays one
number, so that nobody takes noise for a cause.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import special

from orchestrator.analysis.profile.kernels import per_step
from orchestrator.domain.around.alerts import OperatorChange, Operators
from orchestrator.domain.value.profile import KernelTable

LEAST_PROFILED = 3  # processes of a side: two do not tell how they differ
FAMILY_ERROR = 0.05
_LEAST_ERROR = 1e-6  # of a mean: nothing is known more closely


def operators_of(before: Sequence[Sequence[KernelTable]], after: Sequence[Sequence[KernelTable]]) -> Operators | None:
    """Return what takes longer, or less long; None where a side has fewer than ``LEAST_PROFILED`` processes.

    Args:
        before, after: of each process the kernel tables of its ranks.
    """
    if min(len(before), len(after)) < LEAST_PROFILED:
        return None
    sides = [[per_step(tables) for tables in side] for side in (before, after)]
    kinds = {
        row.name: row.kind for side in (before, after) for tables in side for table in tables for row in table.rows
    }
    whole = _change("all kernels", "", *([sum(one.values()) for one in side] for side in sides))
    changes = [_change(name, kind, *_seconds(sides, name)) for name, kind in sorted(kinds.items())]
    told = _told([(one, p) for one, p in changes])
    found = tuple(sorted(told, key=lambda one: -abs(one.difference_s)))
    rest_s = whole[0].difference_s - sum(one.difference_s for one in found)
    return Operators(whole[0], found, rest_s, (len(before), len(after)))


def _seconds(sides: Sequence[Sequence[Mapping[str, float]]], name: str) -> list[list[float]]:
    return [[one.get(name, 0.0) for one in side] for side in sides]


def _change(name: str, kind: str, before: Sequence[float], after: Sequence[float]) -> tuple[OperatorChange, float]:
    """(The change with its 95 % interval, the p of none)."""
    means = [float(np.mean(side)) for side in (before, after)]
    shares = [float(np.var(side, ddof=1)) / len(side) for side in (before, after)]
    error = max(math.sqrt(sum(shares)), _LEAST_ERROR * max(means), np.finfo(float).tiny)
    spread = sum(share**2 / (len(side) - 1) for share, side in zip(shares, (before, after), strict=True))
    degrees = sum(shares) ** 2 / spread if spread > 0.0 else float(min(len(before), len(after)) - 1)
    difference = means[1] - means[0]
    half = float(-special.stdtrit(degrees, 0.025)) * error
    p = 2.0 * float(special.stdtr(degrees, -abs(difference) / error))
    return OperatorChange(name, kind, means[0], means[1], difference - half, difference + half), p


def _told(changes: Sequence[tuple[OperatorChange, float]]) -> list[OperatorChange]:
    """Those that hold for all together, by Holm's procedure."""
    found = []
    for place, (one, p) in enumerate(sorted(changes, key=lambda pair: pair[1])):
        if p > FAMILY_ERROR / (len(changes) - place):
            break
        found.append(one)
    return found
