"""Alerts, as they are answered."""

from typing import Any

from orchestrator.api.views.common import Quantity, View, fields_of
from orchestrator.domain.around.alerts import Alert, AlertState, Candidate, Undone


@fields_of(Candidate)
class CandidateView(View):
    """A cell on a place that looks slower: since which night, by which night that could be told, and by how much,
    after / before - 1, as these nights had it."""


class ChangedView(View):
    """A field of the subject or the rig, as it was and as it is."""

    part: str
    field: str
    before: Any
    after: Any


@fields_of(Undone, "at", "text", "trying", "is_over")
class UndoneView(View):
    """That the nights of an open alert look as before since ``at``: what was tried of it, and in which experiment."""


@fields_of(Alert, without=("told",))
class AlertView(View):
    """What the regression gate has taken note of. ``candidates`` may have one cause; the first was tried for all.
    ``effect`` is new / old - 1 as the confirmation in ``experiment_id`` found it, null until it is confirmed.
    ``changes`` coincide with it, ``tried`` says what was tried and what that told, or why nothing can be tried."""

    state: AlertState
    candidates: list[CandidateView]
    changes: list[ChangedView]
    tried: str
    effect: Quantity | None
    acknowledged_by: str | None
    undone: UndoneView | None


def alert_view(alert: Alert) -> AlertView:
    told = alert.told
    return AlertView.of(
        alert,
        candidates=[CandidateView.of(one) for one in told.candidates],
        changes=[ChangedView.of(one) for one in told.changes],
        tried=told.tried,
        effect=Quantity.maybe(told.effect),
        acknowledged_by=told.by,
        undone=UndoneView.maybe(told.undone),
    )
