"""What is put into the outbox of which alerts. On SQLite and on PostgreSQL."""

import json
from dataclasses import replace

import pytest

from orchestrator.db.store import SqlStore
from orchestrator.domain.around.alerts import AlertState, OperatorChange, Operators
from orchestrator.services.context import Context
from orchestrator.services.gate import outbox
from tests.contract.test_store_alerts import EFFECT, TOLD, an_alert
from tests.contract.test_store_webhooks import a_webhook, deed
from tests.support.schedule_rig import HandClock

pytest_plugins = ["tests.contract.store_servers"]
LATER = 10_000.0


@pytest.fixture
def context(store: SqlStore) -> Context:
    """Two alerts of a schedule and one of another have become open since the webhook was added."""
    store.add_webhook(a_webhook(1), 1, deed())
    for number, schedule in enumerate(("sch_1", "sch_1", "sch_2")):
        store.add_alert(an_alert(number, schedule_id=schedule, state=AlertState.TRYING))
        norm = OperatorChange("norm", "other", 1e-3, 3e-3, 1e-3, 3e-3)
        told = replace(TOLD, tried="slower", effect=EFFECT, operators=Operators(norm, (norm,), 0.0, (3, 3)))
        store.move_alert(f"alt_{number}", AlertState.TRYING, AlertState.OPEN, told, LATER + number)
    return Context(store, None, None, HandClock(LATER + 60.0), lambda: None)  # type: ignore[arg-type]


def told(context: Context) -> list[list[str]]:
    """The alerts of each message."""
    found = context.store.due_deliveries("whk_1", 1e9, 10)
    return sorted([one["id"] for one in json.loads(each.message.body)["data"]["alerts"]] for each in found)


def test_alerts_of_a_night_of_a_schedule_are_one_message_and_are_told_once(context: Context) -> None:
    for _ in range(2):
        outbox.tell(context, ())
    assert told(context) == [["alt_0", "alt_1"], ["alt_2"]]
    (first, _) = context.store.due_deliveries("whk_1", LATER + 60.0, 10)
    said = json.loads(first.message.body)
    assert (said["type"], said["timestamp"]) == ("alerts.changed", "1970-01-01T02:47:40Z")
    assert said["data"]["alerts"][0] == {
        "id": said["data"]["alerts"][0]["id"],
        "state": "open",
        "cells": ["net pytorch 4"],
        "place": "n0 cpu:0",
        "since": "1970-01-01T00:16:40Z",
        "effect": {"value": -0.02, "ci_low": -0.03, "ci_high": -0.01, "confidence": 0.95},
        "changed": ["libraries.torch", "code_commits"],
        "operators": [{"name": "norm", "difference_s": 2e-3, "low_s": 1e-3, "high_s": 3e-3}],
        "tried": "slower",
    }


def test_it_waits_while_more_is_tried_of_that_night_and_no_longer_than_half_a_day(context: Context) -> None:
    outbox.tell(context, {"sch_1"})
    assert told(context) == [["alt_2"]]
    context.clock.time += outbox.HELD_S  # type: ignore[attr-defined]
    outbox.tell(context, {"sch_1"})
    assert told(context) == [["alt_0", "alt_1"], ["alt_2"]]
