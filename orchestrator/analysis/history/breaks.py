"""Borders of a series: where the subject or the rig of a place changed, and how far its level moved there.

Whether that is a slowdown is not asked here: ``analysis.gate.suspects`` is the one judge of that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from orchestrator.analysis.history.baselines import Baseline, Mean, Observation, changes_between, difference, mean_of
from orchestrator.domain.asked.fingerprint import Changed


@dataclass(frozen=True)
class Border:
    """Where a baseline of a place ends and another begins, or a place is seen for the first time.

    Attributes:
        point: the first point behind it.
        place: whose border.
        changes: of subject and rig: against the baseline before, on another place for a place that is new.
        is_new_place: nothing before it was measured there, so that nothing can be compared.
        effect: after less before, of logarithms; None for a place that is new.
    """

    point: int
    place: str
    changes: tuple[Changed, ...]
    is_new_place: bool
    effect: Mean | None

    @property
    def parts(self) -> frozenset[str]:
        return frozenset(change.part for change in self.changes)


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
    return Border(begun.point, first.place, changes, True, None)
