"""Baselines of a series: how fast a workload was on one machine while nothing that is known to matter changed.

An *observation* is one session on one place (the devices of a run): the mean of the logarithms of its runs' rates. The
observations of a place follow each other; where its subject or its rig changes a new *baseline* begins. Conditions
split nothing. Other places have baselines of their own, so that devices that take turns do not interrupt each other.

Sessions, not runs, are the unit here: sessions scatter between themselves beyond what their runs explain. So the level
of a baseline is the mean over its sessions, unweighted. Its interval is Student's t with the scatter of sessions around
their levels, pooled over the baselines of the place: a baseline of one night is lent it by the nights before. One that
is noisier than the others (F test), or drifts, has its own and spoils nothing beside it. Nights that resemble their
neighbours tell less: the variance of a mean is raised by the autocorrelation that an autoregression finds (``series``),
where a baseline has ``series.LEAST_VALUES`` sessions.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from orchestrator.analysis.statistics import autocorrelation
from orchestrator.analysis.statistics.nested import CONFIDENCE
from orchestrator.domain.asked.fingerprint import Changed, differences
from orchestrator.domain.runs.basis import LEAST_SOUND

NOISIER = 0.01  # level of the F test that gives a baseline its own variance: a judgement

Floats = autocorrelation.Floats


@dataclass(frozen=True)
class Observation:
    """One session on one place.

    Attributes:
        point: number of its point in the series.
        at: seconds since the epoch.
        place: identity of the devices.
        subject, rig: those parts of the fingerprint.
        value: mean of the logarithms of its runs' rates.
        sound: whether its point is.
    """

    point: int
    at: float
    place: str
    subject: Mapping[str, Any]
    rig: Mapping[str, Any]
    value: float
    sound: bool


@dataclass(frozen=True)
class Mean:
    """A mean of logarithms, or a difference of two: ``error`` is its standard error with ``degrees`` of freedom; both
    are None where nobody knows how sessions scatter."""

    value: float
    error: float | None
    degrees: float | None
    n: int

    def bounds(self, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
        """The ends of its interval."""
        if self.error is None or self.degrees is None:
            return None
        half = float(special.stdtrit(self.degrees, 0.5 + confidence / 2)) * self.error
        return self.value - half, self.value + half


@dataclass(frozen=True)
class Baseline:
    """What was measured on a place without a change. ``changes`` began it: none for the first of its place.

    Attributes:
        counted: the observations that its level rests on: the sound ones, where there are enough of them
            (``basis.LEAST_SOUND``), or where all are; else all.
        is_sound: whether these are sound.
        level: of the logarithms.
        noise: how its sessions scatter; baselines that share one were pooled.
    """

    place: str
    changes: tuple[Changed, ...]
    observations: tuple[Observation, ...]
    counted: tuple[Observation, ...]
    is_sound: bool
    level: Mean
    noise: "Noise | None" = None

    @property
    def values(self) -> list[float]:
        return [one.value for one in self.counted]


@dataclass(frozen=True)
class Noise:
    """How sessions scatter on a place around their level. ``time``: sessions per independent one, 1 or more."""

    variance: float
    degrees: float
    time: float


def baselines_of(observations: Sequence[Observation]) -> list[list[Baseline]]:
    """Return the baselines of each place, places in the order in which they were first seen.

    Args:
        observations: of one series, in the order of time.
    """
    by_place: dict[str, list[Observation]] = {}
    for one in observations:
        by_place.setdefault(one.place, []).append(one)
    return [_with_levels(_divided(theirs)) for theirs in by_place.values()]


def changes_between(before: Observation, after: Observation) -> tuple[Changed, ...]:
    """Return what of subject and rig differs, field by field; a setting that only one recorded tells nothing."""
    subject = [Changed("subject", *found) for found in differences(before.subject, after.subject)]
    return (*subject, *(Changed("rig", *found) for found in differences(before.rig, after.rig)))


def _divided(observations: Sequence[Observation]) -> list[Baseline]:
    groups: list[tuple[tuple[Changed, ...], list[Observation]]] = []
    for one in observations:
        changes = changes_between(groups[-1][1][-1], one) if groups else ()
        if changes or not groups:
            groups.append((changes, []))
        groups[-1][1].append(one)
    return [_baseline(changes, group) for changes, group in groups]


def _baseline(changes: tuple[Changed, ...], group: Sequence[Observation]) -> Baseline:
    sound = [one for one in group if one.sound]
    is_sound = len(sound) >= LEAST_SOUND or len(sound) == len(group)
    counted = tuple(sound if is_sound else group)
    level = Mean(float(np.mean([one.value for one in counted])), None, None, len(counted))
    return Baseline(group[0].place, changes, tuple(group), counted, is_sound, level)


def _with_levels(baselines: Sequence[Baseline]) -> list[Baseline]:
    noises = noises_of([np.asarray(one.values) for one in baselines])
    return [
        replace(one, level=mean_of(one.values, noise), noise=noise)
        for one, noise in zip(baselines, noises, strict=True)
    ]


def noises_of(groups: Sequence[Floats]) -> list[Noise | None]:
    """Return how sessions scatter around the mean of their group: pooled over the groups, but for those that scatter
    more than the rest, which have their own. None where no group has two."""
    alone: set[int] = set()
    while True:
        rest = [number for number in range(len(groups)) if number not in alone]
        noisiest = max(rest, key=lambda number: _mean_square([groups[number]])[0])
        others = [groups[number] for number in rest if number != noisiest]
        if not _is_noisier(groups[noisiest], others):
            break
        alone.add(noisiest)
    pooled = _noise([groups[number] for number in rest])
    return [_noise([group]) if number in alone else pooled for number, group in enumerate(groups)]


def _is_noisier(group: Floats, others: Sequence[Floats]) -> bool:
    own, degrees = _mean_square([group])
    rest, freedom = _mean_square(others)
    if degrees == 0 or freedom == 0 or rest == 0.0:
        return False
    return float(special.fdtrc(degrees, freedom, own / rest)) < NOISIER


def _mean_square(groups: Sequence[Floats]) -> tuple[float, int]:
    """(mean square around the groups' means, its degrees of freedom)."""
    degrees = sum(len(group) - 1 for group in groups)
    total = sum(float(np.sum((group - group.mean()) ** 2)) for group in groups)
    return (total / degrees if degrees else 0.0), degrees


def _noise(groups: Sequence[Floats]) -> Noise | None:
    variance, degrees = _mean_square(groups)
    if degrees == 0:
        return None
    long = [group - group.mean() for group in groups if len(group) >= autocorrelation.LEAST_VALUES]
    if not long or variance <= 0.0:
        return Noise(variance, degrees, 1.0)
    values = np.concatenate(long)
    gamma = autocorrelation.autocovariances(values, max(1, min(autocorrelation.MAX_ORDER, len(values) // 20)))
    if gamma[0] <= 0.0:
        return Noise(variance, degrees, 1.0)
    memory = autocorrelation.autoregression(gamma, len(values), means=len(long))
    if memory.time <= 1.0:
        return Noise(variance, degrees, 1.0)
    return Noise(variance, min(degrees, max(memory.degrees, 1.0)), memory.time)


def mean_of(values: Sequence[float], noise: Noise | None) -> Mean:
    """Return the mean of a group with the error that ``noise`` gives it."""
    n, mean = len(values), float(np.mean(values))
    if noise is None:
        return Mean(mean, None, None, n)
    return Mean(mean, math.sqrt(noise.variance * min(1.0, noise.time / n)), noise.degrees, n)


def difference(before: Mean, after: Mean, pooled: bool) -> Mean:
    """Return ``after`` less ``before``. Two with one ``pooled`` variance share its degrees of freedom; others have
    those of Welch and Satterthwaite."""
    value, n = after.value - before.value, before.n + after.n
    if before.error is None or after.error is None:
        return Mean(value, None, None, n)
    degrees = [one.degrees or 1.0 for one in (before, after)]
    shares = [before.error**2, after.error**2]
    total = sum(shares)
    if pooled or total == 0.0:
        return Mean(value, math.sqrt(total), min(degrees), n)
    return Mean(
        value, math.sqrt(total), total**2 / sum(share**2 / of for share, of in zip(shares, degrees, strict=True)), n
    )
