"""Finds the rows that cannot be read: what lists show as damaged, and the entries of logs."""

from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection, Select, literal, select

from orchestrator.db.access import device_events
from orchestrator.db.history import imported_points, predictions
from orchestrator.db.reading import rows
from orchestrator.db.run import changes, logs, probes, runs
from orchestrator.db.schedule import alerts, fires, schedules, webhooks
from orchestrator.db.tables.alerts import alert
from orchestrator.db.tables.imported import imported_point
from orchestrator.db.tables.predictions import prediction
from orchestrator.db.tables.schema import attempt, change, entry, experiment, fire, run, schedule
from orchestrator.db.tables.service import device_event
from orchestrator.db.tables.webhooks import webhook
from orchestrator.domain.words.errors import Damaged

BATCH = 500  # rows had at once: a log may be long
Reader = Callable[[rows.AnyRow], Any]


def damaged(connection: Connection) -> Iterator[Damaged]:
    """Every damaged row, table by table."""
    yield from _unread(
        connection, select(experiment).order_by(experiment.c.id), lambda row: rows.experiment_of(row, {})
    )
    for part in connection.execute(select(run).order_by(run.c.id)).partitions(BATCH):
        yield from runs.complete(connection, part)[1]
    for kind in probes.KINDS:
        yield from _unread(connection, probes.every(kind), kind.stored)
    yield from _unread(connection, select(schedule).order_by(schedule.c.id), schedules.read)
    points = select(imported_point).order_by(imported_point.c.id)
    yield from _unread(connection, points, imported_points.read)
    yield from _unread(connection, select(prediction).order_by(prediction.c.id), predictions.read)
    yield from _unread(connection, select(alert).order_by(alert.c.id), alerts.read)
    yield from _unread(connection, select(webhook).order_by(webhook.c.id), webhooks.read)
    yield from _unread(connection, select(device_event).order_by(device_event.c.id), device_events.read)
    states = select(fire, literal(None).label("experiment_state"))
    yield from _unread(connection, states.order_by(fire.c.id), fires.read)
    yield from _unread(connection, select(change).order_by(change.c.number), changes.change_of)
    lines = select(entry, run.c.experiment_id).join(attempt, attempt.c.id == entry.c.attempt_id)
    yield from _unread(connection, lines.join(run, run.c.id == attempt.c.run_id), logs.checked)


def _unread(connection: Connection, query: Select[Any], read: Reader) -> Iterator[Damaged]:
    for part in connection.execute(query).partitions(BATCH):
        yield from rows.sorted_out(part, read)[1]
