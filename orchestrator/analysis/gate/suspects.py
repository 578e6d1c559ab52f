"""Which nights of a workload are suspect: candidates with the observations that they rest on. The one judge of "slower"
where nothing was tried side by side: the nightly board, the gate and history ask it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.analysis.gate.candidates import LEAST_NIGHTS, Call, Kind, calls_of
from orchestrator.analysis.history.baselines import Observation, changes_between
from orchestrator.domain.asked.fingerprint import Changed

KEPT = 14  # sessions behind its call that a candidate is shown at: then it is the usual speed. A judgement


@dataclass(frozen=True)
class Suspect:
    """A place that looks slower, or faster, from ``begins`` on, as could first be told at ``called``.

    Attributes:
        before: the last observation of the level before.
        ends: the first observation that it says nothing of any more; None while it lasts.
        recovered: the first observation of the newest change by which more than half of it is gone; None: it is not.
        difference: after / before - 1, as a ratio.
    """

    kind: Kind
    before: Observation
    begins: Observation
    called: Observation
    ends: Observation | None
    recovered: Observation | None
    difference: float

    @property
    def place(self) -> str:
        return self.begins.place

    @property
    def changes(self) -> tuple[Changed, ...]:
        """What of subject and rig is not what it was: it coincides."""
        return changes_between(self.before, self.begins)

    def covers(self, point: int) -> bool:
        """Whether it is told of that point of the series."""
        return self.begins.point <= point and (self.ends is None or point < self.ends.point)


def moves_of(observations: Sequence[Observation]) -> list[Suspect]:
    """Return what looks slower of a workload, or faster, places one by one.

    Args:
        observations: in the order of time.
    """
    found = []
    for nights in _by_place(observations):
        calls = calls_of(np.array([night.value for night in nights]))
        for number, call in enumerate(calls):
            back = _recovered(calls[number:])
            ends = min([call.called + KEPT, *(later.begins for later in calls[number + 1 : number + 2])])
            found.append(
                Suspect(
                    kind=call.kind,
                    before=nights[max(call.begins - 1, 0)],
                    begins=nights[call.begins],
                    called=nights[call.called],
                    ends=nights[ends] if ends < len(nights) else None,
                    recovered=None if back is None else nights[back.begins],
                    difference=math.expm1(call.size),
                )
            )
    return sorted(found, key=lambda one: one.called.point)


def _recovered(calls: Sequence[Call]) -> Call | None:
    """Of a call and those behind it, the newest step back that leaves less than half of it; None where more is left."""
    first, back = calls[0].size, None
    left = first
    for later in [one for one in calls[1:] if one.kind == "step"]:
        left += later.size
        if left / first >= 0.5:
            back = None
        elif later.size / first < 0.0:
            back = later
    return back


def judged_points(observations: Sequence[Observation]) -> set[int]:
    """Return the points that could be called: those with enough nights of their place up to them."""
    return {night.point for nights in _by_place(observations) for night in nights[LEAST_NIGHTS - 1 :]}


def _by_place(observations: Sequence[Observation]) -> list[list[Observation]]:
    places: dict[str, list[Observation]] = {}
    for one in observations:
        places.setdefault(one.place, []).append(one)
    return list(places.values())
