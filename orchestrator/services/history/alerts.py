"""What the gate says of a series: changes of level by its rules, each with the alert that speaks of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.analysis.gate.suspects import Suspect
from orchestrator.domain.around.alerts import Alert, Candidate
from orchestrator.domain.around.history import Point
from orchestrator.domain.asked.fingerprint import Changed
from orchestrator.services.context import Context
from orchestrator.services.history.observed import Place
from orchestrator.services.history.words import of_move

MOST_ALERTS = 200  # the newest, of all series: a judgement


@dataclass(frozen=True)
class Finding:
    """A change of the level of a place, from point ``point`` on.

    Attributes:
        state: of the alert, where there is one; else ``candidate``, ``drift`` or ``faster``.
        place: its key.
        difference: after / before - 1, as the nights had it: what was confirmed is the alert's.
    """

    kind: Literal["step", "drift"]
    state: str
    point: int
    place: str
    difference: float
    changes: Sequence[Changed]
    alert: Alert | None
    text: str


@dataclass(frozen=True)
class Known:
    """An alert with that of its candidates whose first slow night is point ``point`` of a series."""

    alert: Alert
    candidate: Candidate
    point: int

    def is_of(self, move: Suspect, places: Mapping[str, Place]) -> bool:
        """Whether it speaks of ``move``, as the nights of a schedule had it: a history may have others between."""
        in_time = move.before.point <= self.point <= move.called.point
        return move.difference < 0.0 and in_time and places[move.place].name == self.candidate.place


def known_of(context: Context, made: Sequence[Point]) -> list[Known]:
    """The alerts that speak of these points, in their order."""
    numbers = {(one.experiment_id, one.cell_key): number for number, one in enumerate(made)}
    found = [
        Known(alert, one, numbers[str(one.experiment_id), str(one.cell_key)])
        for alert in context.store.alerts(limit=MOST_ALERTS).items
        for one in alert.told.candidates
        if (one.experiment_id, one.cell_key) in numbers
    ]
    return sorted(found, key=lambda known: known.point)


def findings_of(moves: Sequence[Suspect], known: Sequence[Known], places: Mapping[str, Place]) -> list[Finding]:
    """All that is said, in the order of the points; also of alerts whose nights alone do not look slower any more."""
    found = []
    for move in moves:
        alert = next((one.alert for one in known if one.is_of(move, places)), None)
        state = "drift" if move.kind == "drift" else "candidate" if move.difference < 0.0 else "faster"
        text = of_move(move.kind, move.difference, places[move.place].name, move.begins.at, move.changes, alert)
        told = alert.state.value if alert else state
        found.append(
            Finding(move.kind, told, move.begins.point, move.place, move.difference, move.changes, alert, text)
        )
    keys = {place.name: key for key, place in places.items()}
    for one in known:
        key, told_of = keys.get(one.candidate.place), one.candidate
        if key is None or any(one.is_of(move, places) for move in moves):
            continue
        changes = one.alert.told.changes if told_of is one.alert.told.candidates[0] else ()
        text = of_move("step", told_of.difference, told_of.place, told_of.at, changes, one.alert)
        state = one.alert.state.value
        found.append(Finding("step", state, one.point, key, told_of.difference, changes, one.alert, text))
    return sorted(found, key=lambda finding: finding.point)
