"""What webhooks are told: the alerts of a night of a schedule in one message, once all of them are there."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from orchestrator.domain.around.alerts import Alert, OperatorChange
from orchestrator.domain.around.schedule import told as rfc3339
from orchestrator.domain.around.webhooks import GIVEN_UP_S, MESSAGE_PREFIX, Message
from orchestrator.domain.words.errors import DamagedRow, NotFound
from orchestrator.services.clock import new_id
from orchestrator.services.context import Context

MOST_OPERATORS = 5  # of an alert: a line in a chat is short
HELD_S = 12 * 3600.0  # an alert waits for others of its night at most: a judgement


def tell(context: Context, busy: Collection[str]) -> None:
    """Put the alerts that became open or closed into the outbox, a message a schedule. Those of ``busy`` schedules, of
    which more is being tried, wait for ``HELD_S`` at most."""
    now = context.clock.now()
    by_schedule: dict[str, list[Alert]] = {}
    for one in context.store.untold_alerts():
        by_schedule.setdefault(one.schedule_id, []).append(one)
    for schedule_id, alerts in by_schedule.items():
        if schedule_id in busy and 0.0 <= now - alerts[0].updated_at < HELD_S:
            continue
        body = body_of("alerts.changed", now, _told(_name(context, schedule_id), schedule_id, alerts))
        context.store.add_message(Message(new_id(MESSAGE_PREFIX), now, now + GIVEN_UP_S, body), alerts)
        context.wake()


def body_of(kind: str, at: float, data: Mapping[str, Any]) -> str:
    """A payload as the Standard Webhooks specification 1.0.0 recommends it, as JSON in ASCII."""
    said = {"type": kind, "timestamp": rfc3339(at), "data": data}
    return json.dumps(said, separators=(",", ":"))


def _name(context: Context, schedule_id: str) -> str | None:
    try:
        return context.store.schedule(schedule_id).name
    except (NotFound, DamagedRow):
        return None


def _told(name: str | None, schedule_id: str, alerts: Sequence[Alert]) -> Mapping[str, Any]:
    """Enough for a line in a chat; the rest is in ``GET /alerts/{id}``."""
    return {"schedule": {"id": schedule_id, "name": name}, "alerts": [_alert(one) for one in alerts]}


def _alert(alert: Alert) -> Mapping[str, Any]:
    told, first = alert.told, alert.told.candidates[0]
    effect = told.effect
    return {
        "id": alert.id,
        "state": alert.state.value,
        "cells": [one.label for one in told.candidates],
        "place": first.place,
        "since": rfc3339(first.at),
        "effect": effect and {name: getattr(effect, name) for name in ("value", "ci_low", "ci_high", "confidence")},
        "changed": [one.field for one in told.changes],
        "operators": [_operator(one) for one in told.operators.told[:MOST_OPERATORS]] if told.operators else [],
        "tried": told.text,
    }


def _operator(one: OperatorChange) -> Mapping[str, Any]:
    return {"name": one.name, "difference_s": one.difference_s, "low_s": one.low_s, "high_s": one.high_s}
