"""What a border of a series tells: did all devices change there, or one; with what does it coincide.

A change of software reaches every device, a device drifts alone. So the same question is put to every device that was
measured on both sides, and the answers are compared (``judged``): one that stands out from the others is a matter of
that device; what is left in common is not. Where one device alone was measured nobody can tell the two apart.

Nothing here was tried side by side: a change that is found *coincides* with what changed, and is not confirmed.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from orchestrator.analysis.history.baselines import (
    Baseline,
    Change,
    Mean,
    Observation,
    changes_between,
    combined,
    difference,
    mean_of,
)
from orchestrator.analysis.statistics import autocorrelation
from orchestrator.analysis.statistics.blocks import FAMILY_ERROR, detectable, holm

# Chosen by simulation, so that a series without drift is called drifting in 5 % of cases
# (docs/read_results/history.md).
SESSIONS_PER_DEGREE = 2.0  # of the variance beside a step
STEP_COSTS = 4.0  # degrees of freedom
SHORTEST = 3  # sessions before and behind that step
FAR_NOISIER = 3.0  # times the middle error: a judgement


@dataclass(frozen=True)
class Judged:
    """The same question, put to several places.

    Attributes:
        common: the mean over the places that do not stand out; ``is_common`` whether it is told from 0.
        places: those.
        apart: the places that stand out, each with how far it moved itself.
        unclear: places that are so much noisier than the others (``FAR_NOISIER``) that they would hide what those have
            in common; they are not in it.
    """

    common: Mean
    is_common: bool
    places: tuple[str, ...]
    apart: tuple[tuple[str, Mean], ...]
    unclear: tuple[tuple[str, Mean], ...] = ()

    @property
    def detectable_ratio(self) -> float | None:
        """Smallest common change that would be found with 80 % probability."""
        if self.common.error is None or self.common.degrees is None:
            return None
        return math.expm1(detectable(self.common.error, self.common.degrees, FAMILY_ERROR))


@dataclass(frozen=True)
class Border:
    """Where a baseline of a place ends and another begins, or a place is seen for the first time.

    Attributes:
        point: the first point behind it.
        place: whose border.
        changes: of subject and rig: against the baseline before, on another place for a place that is new.
        is_new_place: nothing before it was measured there, so that nothing can be compared.
        effect: after less before, of logarithms; None for a place that is new.
        is_sound: whether ``effect`` rests on sound sessions of both sides.
    """

    point: int
    place: str
    changes: tuple[Change, ...]
    is_new_place: bool
    effect: Mean | None
    is_sound: bool

    @property
    def parts(self) -> frozenset[str]:
        return frozenset(change.part for change in self.changes)


@dataclass(frozen=True)
class SoftwareChange:
    """One change of the subject, on all places where it was seen with nothing of their rig changing.

    ``confounded`` are places whose rig changed at the same time.
    """

    changes: tuple[Change, ...]
    borders: tuple[Border, ...]
    confounded: tuple[Border, ...]
    judged: Judged | None


def borders_of(observations: Sequence[Observation], places: Sequence[Sequence[Baseline]]) -> list[Border]:
    """Return all borders of a series in the order of its points; the very beginning is none."""
    found = [border for baselines in places for border in _between(baselines)]
    found += [_new_place(observations, baselines[0]) for baselines in places if baselines[0].observations[0].point]
    return sorted(found, key=lambda border: (border.point, border.place))


def _between(baselines: Sequence[Baseline]) -> list[Border]:
    return [
        Border(
            point=after.observations[0].point,
            place=after.place,
            changes=after.changes,
            is_new_place=False,
            effect=_effect(before, after),
            is_sound=before.is_sound and after.is_sound,
        )
        for before, after in pairwise(baselines)
    ]


def _effect(before: Baseline, after: Baseline) -> Mean:
    """Grades are never mixed: where one side is not sound, all sessions of both count."""
    pooled = before.noise is after.noise
    if before.is_sound == after.is_sound:
        return difference(before.level, after.level, pooled)
    sides = [mean_of([one.value for one in side.observations], side.noise) for side in (before, after)]
    return difference(sides[0], sides[1], pooled)


def _new_place(observations: Sequence[Observation], first: Baseline) -> Border:
    """Against the session before it, wherever that was."""
    begun = first.observations[0]
    before = [one for one in observations if one.point < begun.point]
    changes = changes_between(before[-1], begun) if before else ()
    return Border(begun.point, first.place, changes, True, None, first.is_sound)


def software_changes(borders: Sequence[Border]) -> list[SoftwareChange]:
    """Return the changes of the subject, each once: places see the same one at different times."""
    grouped: dict[str, list[Border]] = {}
    for border in borders:
        subject = [change for change in border.changes if change.part == "subject"]
        if subject and not border.is_new_place:
            grouped.setdefault(repr([(one.field, one.before, one.after) for one in subject]), []).append(border)
    return [_software_change(group) for group in grouped.values()]


def _software_change(group: Sequence[Border]) -> SoftwareChange:
    alone = tuple(border for border in group if "rig" not in border.parts)
    confounded = tuple(border for border in group if "rig" in border.parts)
    changes = tuple(change for change in group[0].changes if change.part == "subject")
    effects: dict[str, list[Mean]] = {}
    for border in alone:
        if border.effect is not None and border.effect.error is not None:
            effects.setdefault(border.place, []).append(border.effect)
    latest = {place: theirs[-1] for place, theirs in effects.items()}
    return SoftwareChange(changes, alone, confounded, judged(latest) if latest else None)


def drift_of(places: Sequence[Sequence[Baseline]]) -> Judged | None:
    """Return whether places moved while neither subject nor rig changed: the later half of the sessions of their
    baselines against the earlier half. None where no place was long enough to be asked."""
    effects = {baselines[0].place: effect for baselines in places if (effect := _halves(baselines)) is not None}
    return judged(effects) if effects else None


def _halves(baselines: Sequence[Baseline]) -> Mean | None:
    """Later less earlier sessions, over those baselines of a place that have ``series.LEAST_VALUES`` sessions."""
    long = [np.asarray(one.values) for one in baselines if len(one.values) >= autocorrelation.LEAST_VALUES]
    if not long:
        return None
    halves = [(values[: len(values) // 2], values[-(len(values) // 2) :]) for values in long]
    weights = [len(earlier) for earlier, _ in halves]
    value = float(np.average([later.mean() - earlier.mean() for earlier, later in halves], weights=weights))
    n = sum(map(len, long))
    variance = float(np.average([_noise_beside_a_step(values) for values in long], weights=[len(one) for one in long]))
    return Mean(value, math.sqrt(2.0 * variance / sum(weights)), n / SESSIONS_PER_DEGREE - 1.0, n)


def _noise_beside_a_step(values: autocorrelation.Floats) -> float:
    """Variance of one independent session, the step that fits best taken out: what is looked for must not hide itself.
    ``STEP_COSTS`` degrees of freedom are spent on two levels and the place of the step."""
    n, k = len(values), np.arange(SHORTEST, len(values) - SHORTEST + 1)
    left, total = np.cumsum(values)[k - 1], float(values.sum())
    step = int(k[np.argmax(left**2 / k + (total - left) ** 2 / (n - k))])
    return autocorrelation.long_run_variance(values, [0, step, n]) * (n - 2.0) / (n - STEP_COSTS)


def judged(effects: Mapping[str, Mean]) -> Judged:
    """Put one question to all places: which stand out, and what is left in common.

    One family (Holm, 5 %): the mean over all places, and each place against the mean of the others. The place that
    stands out most is set apart, and the others are asked again.
    """
    apart: list[tuple[str, Mean]] = []
    left, unclear = _clear(effects)
    while True:
        names = list(left)
        common = combined([(1.0 / len(names), left[name]) for name in names])
        against = _against_others(left)
        ps = [common.p, *(one.p for _, one in against)]
        adjusted = [1.0 if p is None else p for p in holm(ps)[0]]
        out = [pair for p, pair in zip(adjusted[1:], against, strict=True) if p <= FAMILY_ERROR]
        if not out:
            return Judged(common, adjusted[0] <= FAMILY_ERROR, tuple(names), tuple(apart), unclear)
        name = _farthest(left, out)
        apart.append((name, left.pop(name)))


def _clear(effects: Mapping[str, Mean]) -> tuple[dict[str, Mean], tuple[tuple[str, Mean], ...]]:
    """(the places that can be asked together, those that are far noisier)."""
    errors = [one.error or 0.0 for one in effects.values()]
    most = FAR_NOISIER * float(np.median(errors))
    if most == 0.0 or len(errors) < 3:
        return dict(effects), ()
    noisy = tuple((name, one) for name, one in effects.items() if (one.error or 0.0) > most)
    return {name: one for name, one in effects.items() if (name, one) not in noisy}, noisy


def _against_others(effects: Mapping[str, Mean]) -> list[tuple[str, Mean]]:
    """Each place against the mean of the others. Of two places it is one question, asked once."""
    names = list(effects)
    if len(names) < 2:
        return []
    asked = names[:1] if len(names) == 2 else names
    share = -1.0 / (len(names) - 1)
    return [
        (name, combined([(1.0, effects[name]), *((share, effects[other]) for other in names if other != name)]))
        for name in asked
    ]


def _farthest(effects: Mapping[str, Mean], out: Sequence[tuple[str, Mean]]) -> str:
    """Who is set apart: the one that is farthest from the others, for one that moves moves their mean as well. Of two
    places it is the one that itself moved more."""
    if len(effects) == 2:
        return max(effects, key=lambda name: abs(effects[name].value))
    return max(out, key=lambda pair: abs(pair[1].value))[0]
