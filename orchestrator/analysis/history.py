"""What earlier sessions on a node lend: the deviation of a cell of few runs, and how far a series moves between them.

All functions are pure; the caller passes a stored snapshot, so that later history never changes a number.

A session's noise is not another's: deviations of sessions on one machine scatter by a factor of 1.6 to 2.5. So what
counts is not how many runs were behind them, but how well they agree: the degrees of freedom come from the scatter of
the sessions' variances (Satterthwaite 1946, Biometrics Bulletin 2:110, applied to variances as they were found), never
from the number of runs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance

from orchestrator.analysis import nested

LEAST_SESSIONS = 3
FEW = 4  # runs: a cell of so many knows its own deviation better
LEAST_DEGREES = 1.0


@dataclass(frozen=True)
class Session:
    """What is kept of a cell in an earlier experiment on the same node, by this version of the analysis.

    Attributes:
        rates: of its runs, in their unit; all that counted, never those selected for being calm.
        within: relative variance of one independent interval (``length.within_variance``), mean over its runs.
        intervals: after the cut, of one run (mean over runs).
    """

    rates: tuple[float, ...]
    within: float
    intervals: float


@dataclass(frozen=True)
class Lent:
    """A deviation between runs that comes from history.

    Attributes:
        deviation_ratio: relative standard deviation of a run of this cell's length.
        degrees: of freedom of that.
        sessions: it comes from so many.
        text: said in words.
    """

    deviation_ratio: float
    degrees: float
    sessions: int
    text: str

    def half_width(self, value: float, runs: int) -> float:
        """Of the 95 % interval of a mean of ``runs`` runs, in the unit of ``value``."""
        return nested.quantile(self.degrees) * self.deviation_ratio * abs(value) / math.sqrt(runs)


@dataclass(frozen=True)
class Movement:
    """How far the mean of a series moves from session to session, beyond what its runs explain.

    Attributes:
        deviation_ratio: standard deviation of the logarithm of a session's mean.
        degrees: sessions less one.
        sessions: it comes from so many.
    """

    deviation_ratio: float
    degrees: int
    sessions: int


def lend(snapshot: Sequence[Session], within: float | None = None, intervals: float | None = None) -> Lent | None:
    """Return the deviation that history lends; None below ``LEAST_SESSIONS`` sessions of two runs or more.

    Args:
        snapshot: sessions of this workload on this node.
        within: of the cell's own runs (``length.within_variance``), and ``intervals`` their number after the cut: the
            part of a session's variance that more intervals take away is rescaled to this length. With ``within``
            None the session's own says how much that is; with ``intervals`` None nothing is rescaled.
    """
    usable = [session for session in snapshot if len(session.rates) > 1]
    if len(usable) < LEAST_SESSIONS:
        return None
    found = [_variance(session, within, intervals) for session in usable]
    mean = fmean(found)
    if mean <= 0.0:
        return None
    scatter = variance(found)
    # The next session is one more draw, and the mean of those before is not exact: 1 + 1 / K.
    degrees = 2.0 * mean**2 / (scatter * (1.0 + 1.0 / len(found))) if scatter > 0.0 else math.inf
    known = float(sum(len(session.rates) - 1 for session in usable))
    degrees = max(LEAST_DEGREES, min(degrees, known))
    deviation = math.sqrt(mean)
    text = f"deviation between runs of {deviation:.1%} lent by {len(usable)} earlier sessions"
    return Lent(deviation, degrees, len(usable), text)


def movement_of(snapshot: Sequence[Session]) -> Movement | None:
    """Return how far the series moves between sessions; None below ``LEAST_SESSIONS`` of two runs or more.

    Method of moments on logarithms: the variance of the sessions' means, less what their runs explain.
    """
    usable = [[math.log(rate) for rate in session.rates] for session in snapshot if len(session.rates) > 1]
    if len(usable) < LEAST_SESSIONS:
        return None
    between = stdev([fmean(rates) for rates in usable]) ** 2
    explained = fmean([variance(rates) / len(rates) for rates in usable])
    return Movement(math.sqrt(max(0.0, between - explained)), len(usable) - 1, len(usable))


def _variance(session: Session, within: float | None, intervals: float | None) -> float:
    """Relative variance of a run of ``intervals`` in a session like this one."""
    found = variance(session.rates) / fmean(session.rates) ** 2
    if intervals is None:
        return found
    process = max(0.0, found - session.within / session.intervals)
    return process + (session.within if within is None else within) / intervals
