"""Intervals within processes within nodes: how much each level varies, and what a mean over them is worth.

The values are numbers on a scale of the caller's choice: of rates and times it is the logarithm (``between_runs``).

A node is a factor, not noise: devices of one model differ by more than runs on one of them do. So the mean over *these
devices* weighs every node alike, and its error comes from the runs within nodes; only a mean for the *fleet* has the
nodes' own differences in its error, and takes five of them.

Components by the method of moments for unbalanced nested data (Searle, Casella & McCulloch 1992, Variance Components,
chapter 3). One that comes out negative is taken for 0.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from scipy import special

from orchestrator.domain.value.variation import Components

CONFIDENCE = 0.95
LEAST_FLEET = 5  # nodes: a judgement. Of fewer nobody knows how nodes differ


@dataclass(frozen=True)
class Mean:
    """A mean with the half-width of its 95 % interval and the degrees of freedom behind that."""

    value: float
    half_width: float
    degrees: int


Groups = Sequence[Sequence[float]]


def grouped(values: Sequence[float], places: Sequence[str]) -> list[list[float]]:
    """Return the values of each place, in the order of the places' names."""
    found: dict[str, list[float]] = {}
    for value, place in zip(values, places, strict=True):
        found.setdefault(place, []).append(value)
    return [found[place] for place in sorted(found)]


def components(groups: Groups, errors: Sequence[float] = ()) -> Components:
    """Return how much each level varies.

    Args:
        groups: the logarithms of the runs' values, node by node.
        errors: standard error of each run's own logarithm (of those that know theirs).
    """
    values = [value for group in groups for value in group]
    mean, n, k = fmean(values), len(values), len(groups)
    own = fmean([error**2 for error in errors]) if errors else None
    within = _within(groups)
    process = None if within is None else max(0.0, within - (own or 0.0))
    node = None
    if within is not None and k > 1:
        between = sum(len(group) * (fmean(group) - mean) ** 2 for group in groups) / (k - 1)
        size = (n - sum(len(group) ** 2 for group in groups) / n) / (k - 1)
        node = max(0.0, (between - within) / size)
    own, process, node = (None if part is None else math.sqrt(part) for part in (own, process, node))
    return Components(own, process, node, k, n)


def _within(groups: Groups) -> float | None:
    """Mean square of runs around their node's mean; None where no node has two."""
    degrees = sum(len(group) - 1 for group in groups)
    if degrees == 0:
        return None
    return sum((value - fmean(group)) ** 2 for group in groups for value in group) / degrees


def of_these_devices(groups: Groups) -> Mean | None:
    """Return the mean over the nodes, each counting the same; None where no node has two runs to tell their noise."""
    within = _within(groups)
    if within is None:
        return None
    degrees = sum(len(group) - 1 for group in groups)
    error = math.sqrt(within * sum(1 / len(group) for group in groups)) / len(groups)
    return Mean(fmean([fmean(group) for group in groups]), quantile(degrees) * error, degrees)


def of_the_fleet(groups: Groups) -> Mean | None:
    """Return the mean for nodes like these; None for fewer than five nodes."""
    means = [fmean(group) for group in groups]
    if len(means) < LEAST_FLEET:
        return None
    mean = fmean(means)
    error = math.sqrt(sum((value - mean) ** 2 for value in means) / (len(means) - 1) / len(means))
    return Mean(mean, quantile(len(means) - 1) * error, len(means) - 1)


def quantile(degrees: float) -> float:
    """Student's t for two-sided 95 %."""
    return float(special.stdtrit(degrees, 0.5 + CONFIDENCE / 2))
