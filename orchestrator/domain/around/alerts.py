"""Alerts: slowdowns that the service has tried side by side, or cannot try, and what became of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from orchestrator.domain.around.access import Deed
from orchestrator.domain.runs.run import Experiment, Run
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.plain import Plain

ALERT_PREFIX = "alt"


class AlertState(StrEnum):
    """Where a candidate stands of which the gate has taken note."""

    TRYING = "trying"  # old and new subject alternate
    OPEN = "open"  # confirmed, and nobody has looked after it
    ACKNOWLEDGED = "acknowledged"  # somebody has: it is a new baseline
    REFUTED = "refuted"  # tried, and there is no loss of that size
    UNCONFIRMED = "unconfirmed"  # cannot be tried, or told nothing: it coincides with what changed


# state -> states it may move to.
MOVES: dict[AlertState, frozenset[AlertState]] = {
    AlertState.TRYING: frozenset({AlertState.OPEN, AlertState.REFUTED, AlertState.UNCONFIRMED}),
    AlertState.OPEN: frozenset({AlertState.ACKNOWLEDGED}),
    AlertState.ACKNOWLEDGED: frozenset(),
    AlertState.REFUTED: frozenset(),
    AlertState.UNCONFIRMED: frozenset({AlertState.ACKNOWLEDGED}),
}
TOLD_OF = frozenset({AlertState.OPEN})  # webhooks are told when an alert becomes one of these


@dataclass(frozen=True)
class Changed(Plain):
    """A field of subject or rig that is not what it was in the night before."""

    part: str
    field: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Candidate(Plain):
    """A cell on a place that looks slower.

    Attributes:
        cell: identity of the cell, the same every night; ``label`` in words.
        place: the devices, in words.
        at: the time of the schedule from which on it looks slower; ``called_at``: that by which it could be told.
        difference: after / before - 1, as the nights had it: what is published is the effect that was confirmed.
    """

    cell: str
    label: str
    place: str
    at: float
    called_at: float
    difference: float

    def meets(self, other: "Candidate") -> bool:
        """Whether it is the same one, as another night's judgement may have it."""
        alike = (self.cell, self.place) == (other.cell, other.place)
        return alike and self.at <= other.called_at and other.at <= self.called_at


@dataclass(frozen=True)
class Told(Plain):
    """What an alert tells.

    Attributes:
        candidates: that may have one cause. The first was tried, for all of them.
        changes: what coincides with the first.
        tried: what was tried and what it told, in words; or why nothing can be tried.
        effect: new / old - 1 as a ratio, with its interval; None until it is confirmed.
        by: who acknowledged it.
    """

    candidates: tuple[Candidate, ...]
    changes: tuple[Changed, ...]
    tried: str
    effect: Measurement | None = None
    by: str | None = None


@dataclass(frozen=True)
class Alert:
    """``experiment_id``: of its confirmation; None where nothing was tried. Times are seconds since the epoch."""

    id: str
    schedule_id: str
    state: AlertState
    created_at: float
    updated_at: float
    experiment_id: str | None
    told: Told


@dataclass(frozen=True)
class AlertFilter:
    """Which alerts are wanted."""

    schedule_id: str | None = None
    state: str | None = None


class AlertStore(Protocol):
    """What the store knows of alerts."""

    def add_alert(self, alert: Alert, experiment: Experiment | None = None, runs: Sequence[Run] = ()) -> bool:
        """Store it with the experiment that tries it, all in one transaction; False, and nothing is stored, where
        there is one of that id."""

    def move_alert(
        self, alert_id: str, expected: AlertState, to: AlertState, told: Told, at: float, deed: Deed | None = None
    ) -> bool:
        """Move it, if it is still as expected; whether it was."""

    def alert(self, alert_id: str) -> Alert:
        """Raises NotFound, DamagedRow."""

    def alerts(self, wanted: AlertFilter | None = None, *, limit: int = 50, cursor: str | None = None) -> Page[Alert]:
        """Those that are wanted, the newest first.

        Raises:
            InvalidRequest: the cursor is not one of ours.
        """


GATE = "gate"  # key of an experiment's facts: the confirmation that it carries out


@dataclass(frozen=True)
class Confirmation(Plain):
    """What an experiment of the gate carries out, fixed before its first run.

    Attributes:
        alert_id: what it is for.
        size: the loss that is asked for, as a logarithm above 0; ``most_blocks`` of one run a side, at most.
        old, new: the plans of the two sides, as JSON, of repetition 1.
    """

    alert_id: str
    size: float
    most_blocks: int
    old: Mapping[str, Any]
    new: Mapping[str, Any]
