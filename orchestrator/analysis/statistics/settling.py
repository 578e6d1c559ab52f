"""Where a cell's warm-up ends: one cut for all its runs, from what they share.

What the runs of a cell have in common, interval by interval, is warm-up or drift of the workload; what differs between
them is noise. So the cut is sought on their mean series. Sources:

    MSER          cut where the standard error of the mean of what is left is least: White 1997, Simulation 69:323
    replications  a t over runs of early against late says whether that was enough: the test for initialization bias of
                  Goldsman, Schruben & Swain 1994, Naval Research Logistics 41:579, with whole runs as its batches

Rare spikes would draw MSER to where they happen to lie, and the mean with it: for the search alone, each run is clipped
to what its own median and its deviation (Hampel's identifier, Davies & Gather 1993, JASA 88:782) call usual.

MSER stops a little early, because the last of a transient costs less than the intervals it would take: hence
``MARGIN``.
A run's own speed never decides whether it counts; its length may (``scouts``).
"""

import math
from collections.abc import Sequence
from statistics import median_high

import numpy as np
from scipy import special

from orchestrator.analysis.statistics.autocorrelation import NORMAL_MAD, Floats
from orchestrator.domain.value.variation import Cut

MARGIN = 1.75  # times MSER: judgement; docs/read_results/statistics.md has what it buys
MOST = 0.5  # of the series is cut at most
LATE = 1 / 3  # MSER that cuts this share or more did not see the end of the warm-up
SIGNIFICANCE = 0.05
REACH = 4.0  # deviations from a run's median beyond which a value is clipped for the search
SCOUT = 3  # cuts: a shorter run is mostly warm-up


def cut_of(series: Sequence[Floats], remembered: int | None = None) -> Cut:
    """Return the cut of a cell.

    The larger of the cell's own cut and the remembered one counts: a cell may be too noisy to show a warm-up that the
    workload is known to have, and a warm-up that is seen is there whatever was seen before. Neither takes more than
    half: of runs that are too short for the remembered one it is said that they have not settled.

    Args:
        series: for each run its time per unit of work (any unit) by interval; lengths may differ. Runs of less than
            half the longest one's intervals have no say.
        remembered: what was kept for this workload on this node (``to_remember``), in intervals.

    Raises:
        ValueError: no run, or all of them empty.
    """
    lengths = [len(run) for run in series]
    longest = max(lengths, default=0)
    if longest == 0:
        raise ValueError("a cut wants a run with intervals")
    said = [np.asarray(run, float) for run in series if 2 * len(run) >= longest]
    common = min(len(run) for run in said)
    runs = np.array([run[:common] for run in said])
    raw = mser(without_spikes(runs).mean(axis=0))
    most, known = int(MOST * common), remembered or 0
    own = min(math.ceil(MARGIN * raw), most)
    first = min(max(own, known), most)
    reason = _too_late(max(raw, known if known > most else 0), common) or _still_moving(runs, first)
    return Cut(first, own, raw, reason is None, reason)


def mser(series: Floats) -> int:
    """Return how many intervals White's rule cuts: the d that makes sum (y - mean)^2 / (n - d)^2 of the rest least.

    It looks up to the middle: the statistic of a few last values is small by chance.
    """
    n = len(series)
    left = np.arange(n, 0, -1)[: n // 2 + 1]
    level = series - series.mean()  # no digits are lost in the sums of squares
    total, squares = (np.cumsum(values[::-1])[::-1][: n // 2 + 1] for values in (level, level**2))
    return int(np.argmin((squares - total**2 / left) / left**2))


def without_spikes(runs: Floats) -> Floats:
    """Return runs (in rows) with what is further than ``REACH`` deviations from a run's median set to that border.

    A warm-up above the border keeps its place and its end; only its height is lost, which the search does not need.
    """
    middle = np.median(runs, axis=-1, keepdims=True)
    reach = REACH * NORMAL_MAD * np.median(np.abs(runs - middle), axis=-1, keepdims=True)
    return np.clip(runs, middle - reach, middle + reach)


def is_scout(length: int, cut: int) -> bool:
    """Whether a run of ``length`` intervals is too short for a cut of ``cut``: it shows the way and gives no number."""
    return length < SCOUT * cut


def scouts(lengths: Sequence[int], cut: int) -> frozenset[int]:
    """Return the indices of the runs that give no number because they are mostly warm-up.

    Where fewer than half would be left, or fewer than two, none of them is one: then it is the cut that came late by
    chance, or all runs that are too short, and a wide number is worth more than none. Only those without a say in the
    cut (``cut_of``), of which it would leave less than half, are scouts all the same.
    """
    short = frozenset(index for index, length in enumerate(lengths) if is_scout(length, cut))
    left = len(lengths) - len(short)
    if left >= 2 and 2 * left >= len(lengths):
        return short
    return frozenset(index for index in short if lengths[index] * MOST < cut)


def to_remember(cuts: Sequence[Cut]) -> int | None:
    """Return what to keep of a workload's sessions on a node: the middle of their own cuts; None without any.

    Not the largest: chance would make that grow from session to session.
    """
    return median_high([cut.own for cut in cuts]) if cuts else None


def _too_late(raw: int, common: int) -> str | None:
    if raw < LATE * common:
        return None
    return f"the warm-up takes {raw} of {common} intervals or more: runs are too short for it"


def _still_moving(runs: Floats, first: int) -> str | None:
    """A paired t over runs of the first third after the cut against the last half; needs two runs."""
    rest = runs[:, first:]
    n = rest.shape[1]
    if len(runs) < 2 or n < 6:
        return None
    late = rest[:, n - n // 2 :].mean(axis=1)
    change = rest[:, : n // 3].mean(axis=1) / late - 1.0
    error = float(change.std(ddof=1)) / math.sqrt(len(runs))
    mean = float(change.mean())
    quantile = float(special.stdtrit(len(runs) - 1, 1 - SIGNIFICANCE / 2))
    if abs(mean) <= max(quantile * error, 1e-12):
        return None
    return (
        f"the first third after the cut takes {abs(mean):.1%} {'more' if mean > 0 else 'less'} time than the last half"
        f" (± {quantile * error:.1%} over {len(runs)} runs)"
    )
