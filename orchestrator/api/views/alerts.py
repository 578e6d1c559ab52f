"""Alerts, as they are answered."""

from typing import Any

from orchestrator.api.views.common import Quantity, View, fields_of
from orchestrator.domain.around.alerts import Alert, AlertState, Candidate, Elsewhere, OperatorChange, Operators, Undone
from orchestrator.services.gate.equal_arms import FalseAlarms


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


@fields_of(Elsewhere, "place", "trying", "text")
class ElsewhereView(View):
    """The same on devices that are equal to the first ones: in which experiment, and what that told. ``effect`` is null
    until it is told, and where the new side is not slower there."""

    effect: Quantity | None


@fields_of(OperatorChange)
class OperatorChangeView(View):
    """Seconds a step of a kernel, or of an operator, of the old and the new side; ``low_s`` to ``high_s`` is the 95 %
    interval of what is between them."""

    difference_s: float


@fields_of(Operators, "rest_s")
class OperatorsView(View):
    """What takes longer a step, by profiled ``processes`` of the old and the new side. ``told`` holds for all of them
    together (Holm, 5 %); ``rest_s`` of the ``whole`` is not told."""

    whole: OperatorChangeView
    told: list[OperatorChangeView]
    processes: list[int]


def operators_view(found: Operators | None) -> OperatorsView | None:
    if found is None:
        return None
    return OperatorsView.of(
        found,
        whole=_change_view(found.whole),
        told=[_change_view(one) for one in found.told],
        processes=list(found.processes),
    )


def _change_view(one: OperatorChange) -> OperatorChangeView:
    return OperatorChangeView.of(one, difference_s=one.difference_s)


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
    operators: OperatorsView | None
    elsewhere: ElsewhereView | None


@fields_of(FalseAlarms)
class EqualArmsView(View):
    """What pairs of equal arms told: of ``told`` those that called one arm ``slower`` are false alarms; ``low`` to
    ``high`` is the 95 % interval (Clopper and Pearson) of their share. ``level`` is what the gate holds."""

    level: float


def alert_view(alert: Alert) -> AlertView:
    told, there = alert.told, alert.told.elsewhere
    return AlertView.of(
        alert,
        candidates=[CandidateView.of(one) for one in told.candidates],
        changes=[ChangedView.of(one) for one in told.changes],
        tried=told.tried,
        effect=Quantity.maybe(told.effect),
        acknowledged_by=told.by,
        undone=UndoneView.maybe(told.undone),
        operators=operators_view(told.operators),
        elsewhere=ElsewhereView.of(there, effect=Quantity.maybe(there.effect)) if there else None,
    )
