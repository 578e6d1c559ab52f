"""The part of ``store.SqlStore`` that holds schedules, their alerts and who is told: ``ScheduleStore``, ``AlertStore``
and ``WebhookStore`` of ``orchestrator.domain.around``."""

from collections.abc import Sequence

from sqlalchemy import Connection

from orchestrator.db.access import deeds as deed_rows
from orchestrator.db.connection.databases import Database
from orchestrator.db.connection.verbs import reads, writes
from orchestrator.db.experiment import experiments as experiment_rows
from orchestrator.db.schedule import alerts as alert_rows
from orchestrator.db.schedule import fires as fire_rows
from orchestrator.db.schedule import schedules as schedule_rows
from orchestrator.db.schedule import webhooks as webhook_rows
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.alerts import Alert, AlertState, Told, Trial
from orchestrator.domain.around.schedule import Fire, NewFire, Schedule
from orchestrator.domain.runs.run import Experiment, Run
from orchestrator.domain.runs.stored import Idempotency


class SchedulePart:
    """Its methods over ``database``."""

    database: Database

    add_schedule = writes(schedule_rows.add)
    schedule = reads(schedule_rows.one)
    owner_of_schedule = reads(schedule_rows.owner_of)
    schedules = reads(schedule_rows.page)
    change_schedule = writes(schedule_rows.change)
    remove_schedule = writes(schedule_rows.remove)
    schedules_due = reads(schedule_rows.due)
    schedules_ahead = reads(schedule_rows.ahead)
    set_back = writes(schedule_rows.set_back)

    waiting_fires = reads(fire_rows.waiting)
    fire = reads(fire_rows.one_of)
    fires = reads(fire_rows.page)
    last_fires = reads(fire_rows.last)
    active_of_schedule = reads(fire_rows.active_of)

    def settle(self, schedule: Schedule, considered_until: float, due_at: float | None, new: Sequence[NewFire]) -> bool:
        made = [fire_rows.prepare(one) for one in new]
        return self.database.write(
            lambda connection: fire_rows.settle(connection, schedule, considered_until, due_at, made)
        )

    def add_manual_fire(self, new: NewFire, key: Idempotency | None) -> tuple[Fire, bool]:
        made = fire_rows.prepare(new, key)
        return self.database.write(lambda connection: fire_rows.add_manual(connection, made))

    def end_waiting(self, ended: NewFire) -> bool:
        made = fire_rows.prepare(ended)
        return self.database.write(lambda connection: fire_rows.end_waiting(connection, made))

    alert = reads(alert_rows.one)
    alerts = reads(alert_rows.page)

    add_webhook = writes(webhook_rows.add)
    remove_webhook = writes(webhook_rows.remove)
    webhooks = reads(webhook_rows.page)
    untold_alerts = reads(webhook_rows.untold)
    add_message = writes(webhook_rows.add_message)
    due_webhooks = reads(webhook_rows.due)
    due_deliveries = reads(webhook_rows.due_of)
    note_answer = writes(webhook_rows.note)

    def add_alert(self, alert: Alert, experiment: Experiment | None = None, runs: Sequence[Run] = ()) -> bool:
        new = None if experiment is None else experiment_rows.prepare(experiment, runs, None)

        def add(connection: Connection) -> bool:
            if not alert_rows.add(connection, alert):
                return False
            if new is not None:
                experiment_rows.add(connection, new)
            return True

        return self.database.write(add)

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
        new = None if trial is None else experiment_rows.prepare(*trial, None)

        def move(connection: Connection) -> bool:
            if not alert_rows.move(connection, alert_id, expected, to, told, at, seen_at):
                return False
            if new is not None:
                experiment_rows.add(connection, new)
            deed_rows.record(connection, deed)
            return True

        return self.database.write(move)
