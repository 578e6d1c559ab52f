"""The part of ``store.SqlStore`` that holds schedules: ``orchestrator.domain.around.schedule.ScheduleStore``."""

from collections.abc import Collection, Mapping, Sequence

from orchestrator.db.connection.databases import Database
from orchestrator.db.schedule import fires, schedules
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.schedule import Fire, NewFire, Schedule
from orchestrator.domain.runs.filters import FireFilter, ScheduleFilter
from orchestrator.domain.runs.stored import Idempotency, Page


class SchedulePart:
    """Its methods over ``database``."""

    database: Database

    def add_schedule(self, schedule: Schedule, key: Idempotency | None, deed: Deed) -> tuple[Schedule, bool]:
        return self.database.write(lambda connection: schedules.add(connection, schedule, key, deed))

    def schedule(self, schedule_id: str) -> Schedule:
        return self.database.read(lambda connection: schedules.one(connection, schedule_id))

    def owner_of_schedule(self, schedule_id: str) -> str:
        return self.database.read(lambda connection: schedules.owner_of(connection, schedule_id))

    def schedules(
        self, wanted: ScheduleFilter | None = None, *, limit: int = 50, cursor: str | None = None
    ) -> Page[Schedule]:
        return self.database.read(
            lambda connection: schedules.page(connection, wanted or ScheduleFilter(), limit, cursor)
        )

    def change_schedule(self, changed: Schedule, deed: Deed) -> bool:
        return self.database.write(lambda connection: schedules.change(connection, changed, deed))

    def remove_schedule(self, schedule_id: str, deed: Deed) -> None:
        self.database.write(lambda connection: schedules.remove(connection, schedule_id, deed))

    def schedules_due(self, until: float) -> Sequence[Schedule]:
        return self.database.read(lambda connection: schedules.due(connection, until))

    def schedules_ahead(self, of: float) -> Sequence[Schedule]:
        return self.database.read(lambda connection: schedules.ahead(connection, of))

    def settle(self, schedule: Schedule, considered_until: float, due_at: float | None, new: Sequence[NewFire]) -> bool:
        made = [fires.prepare(one) for one in new]
        return self.database.write(
            lambda connection: fires.settle(connection, schedule, considered_until, due_at, made)
        )

    def set_back(self, schedule: Schedule, now: float) -> bool:
        return self.database.write(lambda connection: schedules.set_back(connection, schedule, now))

    def add_manual_fire(self, new: NewFire, key: Idempotency | None) -> tuple[Fire, bool]:
        made = fires.prepare(new, key)
        return self.database.write(lambda connection: fires.add_manual(connection, made))

    def end_waiting(self, ended: NewFire) -> bool:
        made = fires.prepare(ended)
        return self.database.write(lambda connection: fires.end_waiting(connection, made))

    def waiting_fires(self) -> Sequence[Fire]:
        return self.database.read(fires.waiting)

    def fire(self, fire_id: str) -> Fire:
        return self.database.read(lambda connection: fires.one_of(connection, fire_id))

    def fires(self, wanted: FireFilter, *, limit: int = 50, cursor: str | None = None) -> Page[Fire]:
        return self.database.read(lambda connection: fires.page(connection, wanted, limit, cursor))

    def last_fires(self, schedule_ids: Collection[str]) -> Mapping[str, Fire]:
        return self.database.read(lambda connection: fires.last(connection, schedule_ids))

    def active_of_schedule(self, schedule_id: str) -> Sequence[str]:
        return self.database.read(lambda connection: fires.active_of(connection, schedule_id))
