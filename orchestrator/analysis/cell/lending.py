"""What earlier sessions on a node lend: the deviation of a cell of few runs, and how far a series moves between them.

All functions are pure; the caller passes a stored snapshot, so that later history never changes a number.

Sessions differ in their noise: on one machine their deviations scatter by a factor of 1.6 to 2.5. An interval from all
of them pooled would hold the truth in 80 to 92 % of cases only. What is lent says instead "the next session is like one
of those before, and nobody knows which": the mean of a run is taken for an equal mixture of Student's t's, one for each
session with its own deviation and degrees of freedom (the predictive distribution of a scale mixture of normals:
Andrews & Mallows 1974, Journal of the Royal Statistical Society B 36:99). From few sessions one does not know how they
scatter. So the whole is widened by one standard error of the mean of the logarithms of their deviations (judgement).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance

import numpy as np
from scipy import special

from orchestrator.domain.value.variation import Movement

LEAST_SESSIONS = 3
FEW = 3  # runs: a cell of so many knows its own deviation as well
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Session:
    """What is kept of a cell in an earlier experiment on the same node, by this version of the analysis.

    Attributes:
        rates: of its runs, in their unit; all that counted, never those selected for being calm.
        within: relative variance of one independent interval (``length.within_variance``), mean over its runs; to first
            order it is the variance of the logarithm.
        intervals: after the cut, of one run (mean over runs).
    """

    rates: tuple[float, ...]
    within: float
    intervals: float


@dataclass(frozen=True)
class Lent:
    """A deviation between runs that comes from history.

    Attributes:
        deviation_ratio: standard deviation of the logarithm of a run of this cell's length, root mean square over
            sessions.
        half_width_ratio: of the 95 % interval of a single run's logarithm.
        sessions: it comes from so many.
        text: said in words.
    """

    deviation_ratio: float
    half_width_ratio: float
    sessions: int
    text: str

    def half_width(self, runs: int) -> float:
        """Of the 95 % interval of the mean logarithm of ``runs`` runs."""
        return self.half_width_ratio / math.sqrt(runs)


def lend(snapshot: Sequence[Session], within: float | None = None, intervals: float | None = None) -> Lent | None:
    """Return the deviation that history lends; None below ``LEAST_SESSIONS`` sessions of two runs or more.

    Args:
        snapshot: sessions of this workload on this node.
        within: of the cell's own runs (``length.within_variance``), and ``intervals`` their number after the cut: the
            part of a session's variance that more intervals take away is rescaled to this length. With ``within``
            None the session's own says how much that is; with ``intervals`` None nothing is rescaled.
    """
    # A session of very short runs does not know its variance within (it is infinite), nor what a longer run's is.
    usable = [session for session in _telling(snapshot) if math.isfinite(session.within)]
    if len(usable) < LEAST_SESSIONS:
        return None
    deviations = [math.sqrt(_variance(session, within, intervals)) for session in usable]
    if min(deviations) <= 0.0:
        return None
    logs = [math.log(deviation) for deviation in deviations]
    unknown = math.exp(stdev(logs) / math.sqrt(len(logs)))
    half = unknown * _of_the_mixture(deviations, [len(session.rates) - 1 for session in usable])
    typical = math.sqrt(fmean([deviation**2 for deviation in deviations]))
    text = f"deviation between runs of {typical:.1%} lent by {len(usable)} earlier sessions"
    return Lent(typical, half, len(usable), text)


def _of_the_mixture(deviations: Sequence[float], degrees: Sequence[int]) -> float:
    """Return the half-width that holds 95 % of an equal mixture of Student's t's with these scales."""
    from scipy import optimize  # 23 MB, which a server that lends nothing need not hold

    scales, freedom = np.array(deviations), np.array(degrees)

    def outside(half: float) -> float:
        return float(2.0 * special.stdtr(freedom, -half / scales).mean()) - (1.0 - CONFIDENCE)

    widest = max(float(q) for q in scales * special.stdtrit(freedom, 0.5 + CONFIDENCE / 2))
    return float(optimize.brentq(outside, 0.0, widest * (1.0 + 1e-9)))


def movement_of(snapshot: Sequence[Session]) -> Movement | None:
    """Return how far the series moves between sessions; None below ``LEAST_SESSIONS`` of two runs or more.

    Method of moments on logarithms: the variance of the sessions' means, less what their runs explain.
    """
    usable = [[math.log(rate) for rate in session.rates] for session in _telling(snapshot)]
    if len(usable) < LEAST_SESSIONS:
        return None
    between = stdev([fmean(rates) for rates in usable]) ** 2
    explained = fmean([variance(rates) / len(rates) for rates in usable])
    return Movement(math.sqrt(max(0.0, between - explained)), len(usable) - 1, len(usable))


def _telling(snapshot: Sequence[Session]) -> list[Session]:
    """Those of two runs or more, all with a rate."""
    return [session for session in snapshot if len(session.rates) > 1 and min(session.rates) > 0]


def _variance(session: Session, within: float | None, intervals: float | None) -> float:
    """Variance of the logarithm of a run of ``intervals`` in a session like this one."""
    found = variance([math.log(rate) for rate in session.rates])
    if intervals is None:
        return found
    process = max(0.0, found - session.within / session.intervals)
    return process + (session.within if within is None else within) / intervals
