"""Alerts: slowdowns that the service has tried side by side, or cannot try, and what became of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from orchestrator.domain.around.access import Deed
from orchestrator.domain.asked.fingerprint import Changed
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
    CLOSED = "closed"  # by itself: the loss is not there any more
    REFUTED = "refuted"  # tried, and there is no loss of that size
    UNCONFIRMED = "unconfirmed"  # cannot be tried, or told nothing: it coincides with what changed


# state -> states it may move to.
MOVES: dict[AlertState, frozenset[AlertState]] = {
    AlertState.TRYING: frozenset({AlertState.OPEN, AlertState.REFUTED, AlertState.UNCONFIRMED}),
    AlertState.OPEN: frozenset({AlertState.ACKNOWLEDGED, AlertState.CLOSED}),
    AlertState.ACKNOWLEDGED: frozenset(),
    AlertState.CLOSED: frozenset(),
    AlertState.REFUTED: frozenset(),
    AlertState.UNCONFIRMED: frozenset({AlertState.ACKNOWLEDGED}),
}
TOLD_OF = frozenset({AlertState.OPEN, AlertState.CLOSED})  # webhooks are told when an alert becomes one of these


@dataclass(frozen=True)
class Candidate(Plain):
    """A cell on a place that looks slower.

    Attributes:
        cell: identity of the cell, the same every night; ``label`` in words.
        place: the devices, in words.
        at: the time of the schedule from which on it looks slower; ``called_at``: that by which it could be told.
        difference: after / before - 1, as the nights had it: what is published is the effect that was confirmed.
        experiment_id, cell_key: of the night at ``at``: its point in a history.
    """

    cell: str
    label: str
    place: str
    at: float
    called_at: float
    difference: float
    experiment_id: str | None = None
    cell_key: str | None = None

    def meets(self, other: "Candidate") -> bool:
        """Whether it is the same one, as another night's judgement may have it."""
        alike = (self.cell, self.place) == (other.cell, other.place)
        return alike and self.at <= other.called_at and other.at <= self.called_at


@dataclass(frozen=True)
class Undone(Plain):
    """That the nights of an open alert look as before, and whether the loss is not there any more.

    Attributes:
        at: the time of the schedule from which on they look so.
        text: what is being tried, was tried and told, or why nothing can be tried.
        trying: the experiment, where there is one; begun at ``tried_at``. ``is_over``: it has told.
    """

    at: float
    text: str
    trying: str | None = None
    tried_at: float | None = None
    is_over: bool = False


@dataclass(frozen=True)
class Elsewhere(Plain):
    """That a loss which was confirmed is tried on other devices, equal to the first ones.

    Attributes:
        place: those devices, in words.
        trying: the experiment, begun at ``tried_at``.
        text: what is being tried, or was tried and told.
        effect: new / old - 1 as a ratio, with its interval; None until it is told, and where it is not slower there.
    """

    place: str
    trying: str
    tried_at: float
    text: str
    effect: Measurement | None = None


@dataclass(frozen=True)
class OperatorChange(Plain):
    """Seconds a step of one kernel, or operator, of both sides; ``low_s`` to ``high_s`` is the 95 % interval of what is
    between them."""

    name: str
    kind: str
    before_s: float
    after_s: float
    low_s: float
    high_s: float

    @property
    def difference_s(self) -> float:
        return self.after_s - self.before_s


@dataclass(frozen=True)
class Operators(Plain):
    """What takes longer, by profiled processes of both sides.

    Attributes:
        whole: all kernels together.
        told: the kernels of which it can be told, for all of them together, the largest change first.
        rest_s: what is not told, of ``whole``.
        processes: how many of the old and of the new side.
    """

    whole: OperatorChange
    told: tuple[OperatorChange, ...]
    rest_s: float
    processes: tuple[int, int]


@dataclass(frozen=True)
class Told(Plain):
    """What an alert tells.

    Attributes:
        candidates: that may have one cause. The first was tried, for all of them.
        changes: what coincides with the first.
        tried: what was tried and what it told, in words; or why nothing can be tried.
        effect: new / old - 1 as a ratio, with its interval; None until it is confirmed.
        by: who acknowledged it.
        undone: of one that is confirmed, and whose nights look as before; else None.
        operators: that take longer, of one that is confirmed and could be profiled; else None.
        elsewhere: of one that is confirmed, where there are equal devices: the same on those; else None.
    """

    candidates: tuple[Candidate, ...]
    changes: tuple[Changed, ...]
    tried: str
    effect: Measurement | None = None
    by: str | None = None
    undone: Undone | None = None
    operators: Operators | None = None
    elsewhere: Elsewhere | None = None

    @property
    def text(self) -> str:
        """What was tried, here and elsewhere, and what of it is undone."""
        return "; ".join([self.tried, *(one.text for one in (self.elsewhere, self.undone) if one)])


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

    @property
    def is_asked_anew(self) -> bool:
        """Whether it is open, and it is being tried whether it is undone."""
        undone = self.told.undone
        return self.state is AlertState.OPEN and undone is not None and undone.trying is not None and not undone.is_over

    @property
    def trials(self) -> list[tuple[str, float]]:
        """The experiments that try it, each with when it was made."""
        elsewhere, undone = self.told.elsewhere, self.told.undone
        found = [] if self.experiment_id is None else [(self.experiment_id, self.created_at)]
        found += [] if elsewhere is None else [(elsewhere.trying, elsewhere.tried_at)]
        found += [] if undone is None or undone.trying is None else [(undone.trying, undone.tried_at or 0.0)]
        return found


@dataclass(frozen=True)
class AlertFilter:
    """Which alerts are wanted."""

    schedule_id: str | None = None
    state: str | None = None


Trial = tuple[Experiment, Sequence[Run]]  # an experiment that tries an alert, with its first runs


class AlertStore(Protocol):
    """What the store knows of alerts."""

    def add_alert(self, alert: Alert, experiment: Experiment | None = None, runs: Sequence[Run] = ()) -> bool:
        """Store it with the experiment that tries it, all in one transaction; False, and nothing is stored, where
        there is one of that id."""

    def move_alert(
        self,
        alert_id: str,
        expected: AlertState,
        to: AlertState,
        told: Told,
        at: float,
        deed: Deed | None = None,
        *,
        seen_at: float | None = None,
        trial: Trial | None = None,
    ) -> bool:
        """Move it, or leave it where it is with something else to tell, together with the experiment that tries it
        anew; if it is still in the state that was expected, and was last changed at ``seen_at``. Whether it was."""

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
        profiled: processes of each side whose kernels are profiled once the new one was told to be slower.
        level: in how many cases an answer may be wrong; None: in as few as the gate's.
    """

    alert_id: str
    size: float
    most_blocks: int
    old: Mapping[str, Any]
    new: Mapping[str, Any]
    profiled: int = 0
    level: float | None = None
