"""The contract of the store: schedules, what became of their times, and where experiments came from."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from orchestrator.db.connection import engine as engines
from orchestrator.db.store import SqlStore
from orchestrator.db.upgrade import admin
from orchestrator.domain.around.access import Deed
from orchestrator.domain.around.schedule import Fire, FireState, Misfire, NewFire, Overlap, Schedule, Trigger
from orchestrator.domain.runs.filters import ExperimentFilter, FireFilter, ScheduleFilter
from orchestrator.domain.runs.run import Origin
from orchestrator.domain.runs.stored import Idempotency
from orchestrator.domain.words.errors import Conflict, DamagedRow, IdempotencyMismatch, InvalidRequest, NotFound
from orchestrator.services.clock import new_id
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]


def a_schedule(name: str = "nightly", **fields: Any) -> Schedule:
    values: dict[str, Any] = {"id": new_id("sch"), "name": name, "owner": "ada", "cron": "0 2 * * *", "timezone": "UTC"}
    values |= {"spec": {"name": "ü\u0000"}, "misfire": Misfire.ONE, "max_age_s": 60.5, "overlap": Overlap.QUEUE}
    values |= {"jitter_s": 1.5, "paused": False, "created_at": 10.0, "considered_until": 10.0, "due_at": 100.0}
    return Schedule(**values | fields)


def a_deed(action: str = "schedule add", target: str = "sch_1") -> Deed:
    return Deed(new_id("deed"), 1.0, "ada", None, None, action, target)


def a_fire(of: Schedule, at: float, state: FireState = FireState.SUBMITTED, **fields: Any) -> NewFire:
    """A fire; one that is submitted has an experiment with a run."""
    fire = Fire(new_id("fire"), of.id, at, at + 1, at + 2, fields.pop("trigger", Trigger.CRON), state, **fields)
    if state is not FireState.SUBMITTED:
        return NewFire(fire)
    experiment = replace(scene.experiment(at), origin=Origin(of.id, fire.id, at))
    made = replace(fire, experiment_id=experiment.id)
    return NewFire(made, experiment, scene.runs_for(experiment), a_deed("submit", experiment.id))


def stored(store: SqlStore, **fields: Any) -> Schedule:
    return store.add_schedule(a_schedule(**fields), None, a_deed())[0]


def times(store: SqlStore, of: Schedule, **wanted: Any) -> list[tuple[float, str]]:
    return [(one.at, one.state.value) for one in store.fires(FireFilter(of.id, **wanted)).items]


def test_a_schedule_comes_back_as_it_was_stored(store: SqlStore) -> None:
    new = stored(store)
    assert store.schedule(new.id) == new
    assert store.owner_of_schedule(new.id) == "ada"
    assert store.schedules().items == [new]
    with pytest.raises(NotFound, match="schedule 'sch_nobody'"):
        store.schedule("sch_nobody")
    assert [one.action for one in store.deeds().items] == ["schedule add"]


def test_lists_are_paged_newest_first_and_filtered(store: SqlStore) -> None:
    made = [
        stored(
            store, name=f"s{number}", created_at=float(number), owner="ada" if number % 2 else "bob", paused=number > 2
        )
        for number in range(5)
    ]
    first = store.schedules(limit=3)
    rest = store.schedules(limit=3, cursor=first.next_cursor)
    assert [*first.items, *rest.items] == made[::-1]
    assert store.schedules(ScheduleFilter(owner="ada")).items == [made[3], made[1]]
    assert store.schedules(ScheduleFilter(name="s2")).items == [made[2]]
    assert store.schedules(ScheduleFilter(paused=True)).items == [made[4], made[3]]
    with pytest.raises(InvalidRequest):
        store.schedules(cursor="nonsense")


def test_a_name_is_taken_once(store: SqlStore) -> None:
    one, other = stored(store), stored(store, name="other")
    with pytest.raises(Conflict, match=f"{one.id} of ada"):
        stored(store)
    with pytest.raises(Conflict, match=one.id):
        store.change_schedule(replace(other, name="nightly"), a_deed())
    assert len(store.deeds().items) == 2


def test_a_request_that_comes_again_makes_no_second_schedule(store: SqlStore) -> None:
    new, key = a_schedule(), Idempotency("ada", "k", "digest")
    assert store.add_schedule(new, key, a_deed()) == (new, True)
    assert store.add_schedule(new, key, a_deed()) == (new, False)
    with pytest.raises(IdempotencyMismatch):
        store.add_schedule(new, Idempotency("ada", "k", "other"), a_deed())
    assert len(store.deeds().items) == 1


def test_a_change_comes_through_only_where_nobody_else_s_came_before(store: SqlStore) -> None:
    new = stored(store)
    assert store.change_schedule(replace(new, paused=True), a_deed("schedule pause"))
    assert store.schedule(new.id) == replace(new, paused=True, version=2)
    assert not store.change_schedule(replace(new, cron="@daily"), a_deed("schedule change"))
    assert [one.action for one in store.deeds().items].count("schedule change") == 0


def test_what_is_due_is_found_by_its_time(store: SqlStore) -> None:
    late, soon = stored(store, name="late", due_at=50.0), stored(store, name="soon", due_at=20.0)
    never = stored(store, name="never", due_at=None, considered_until=500.0)
    assert store.schedules_due(19.0) == []
    assert store.schedules_due(50.0) == [soon, late]
    assert store.schedules_ahead(499.0) == [never]


def test_times_are_settled_together_with_what_they_submit(store: SqlStore) -> None:
    schedule = stored(store)
    new = [a_fire(schedule, 100.0, FireState.MISSED, reason="nobody"), a_fire(schedule, 200.0)]
    assert store.settle(schedule, 200.0, 300.0, new)
    moved = store.schedule(schedule.id)
    assert (moved.considered_until, moved.due_at, moved.version) == (200.0, 300.0, 2)
    assert times(store, schedule) == [(200.0, "submitted"), (100.0, "missed")]
    experiment = new[1].experiment
    assert experiment is not None
    assert store.experiment(experiment.id).origin == experiment.origin
    assert store.experiments(ExperimentFilter(schedule=schedule.id)).items[0].id == experiment.id
    assert store.active_of_schedule(schedule.id) == [experiment.id]
    assert store.fire(new[1].fire.id) == replace(new[1].fire, experiment_state="active")
    assert store.last_fires([schedule.id, "sch_2"]) == {schedule.id: store.fire(new[1].fire.id)}
    assert [one.target for one in store.deeds(target=experiment.id).items] == [experiment.id]


def test_a_time_has_one_record_and_submits_once_whoever_comes_second(store: SqlStore) -> None:
    schedule = stored(store)
    assert store.settle(schedule, 100.0, 200.0, [a_fire(schedule, 100.0)])
    assert not store.settle(schedule, 100.0, 200.0, [a_fire(schedule, 100.0)])  # it was looked at before
    again = replace(schedule, version=2)
    assert store.settle(again, 200.0, 300.0, [a_fire(again, 100.0), a_fire(again, 200.0)])
    assert times(store, schedule) == [(200.0, "submitted"), (100.0, "submitted")]
    assert len(store.experiments().items) == 2
    assert store.experiments(ExperimentFilter(schedule="sch_2")).items == []


def test_a_settlement_that_fails_leaves_nothing(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    schedule = stored(store)

    def fails(*_: object) -> None:
        raise RuntimeError("the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr("orchestrator.db.access.deeds.record", fails)
        with pytest.raises(RuntimeError):
            store.settle(schedule, 100.0, 200.0, [a_fire(schedule, 100.0)])
    assert store.schedule(schedule.id) == schedule
    assert (times(store, schedule), store.experiments().items) == ([], [])


def test_fires_are_paged_by_their_times(store: SqlStore) -> None:
    schedule = stored(store)
    states = [FireState.MISSED if number % 2 else FireState.SKIPPED for number in range(6)]
    store.settle(schedule, 6.0, None, [a_fire(schedule, float(at), state) for at, state in enumerate(states)])
    first = store.fires(FireFilter(schedule.id), limit=4)
    rest = store.fires(FireFilter(schedule.id), limit=4, cursor=first.next_cursor)
    assert [one.at for one in (*first.items, *rest.items)] == [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    assert [at for at, _ in times(store, schedule, state=FireState.MISSED)] == [5.0, 3.0, 1.0]
    assert [at for at, _ in times(store, schedule, since=2.0, until=4.0)] == [3.0, 2.0]


def test_a_waiting_fire_moves_on_once(store: SqlStore) -> None:
    schedule = stored(store)
    store.settle(schedule, 100.0, None, [a_fire(schedule, 100.0, FireState.WAITING, reason="until it is over")])
    (waits,) = store.waiting_fires()
    new = a_fire(schedule, 100.0)
    assert new.experiment is not None
    ended = replace(new, fire=replace(waits, state=FireState.SUBMITTED, reason=None, experiment_id=new.experiment.id))
    assert store.end_waiting(ended)
    assert not store.end_waiting(ended)
    assert store.waiting_fires() == []
    assert store.fire(waits.id).experiment_id == new.experiment.id
    assert len(store.experiments().items) == 1


def test_a_clock_that_is_set_back_takes_back_what_submitted_nothing(store: SqlStore) -> None:
    schedule = stored(store)
    new = [
        a_fire(schedule, 100.0, FireState.MISSED),
        a_fire(schedule, 200.0, FireState.MISSED),
        a_fire(schedule, 300.0),
    ]
    store.settle(schedule, 300.0, 400.0, new)
    moved = store.schedule(schedule.id)
    assert not store.set_back(schedule, 150.0)  # seen before it moved on
    assert store.set_back(moved, 150.0)
    assert times(store, schedule) == [(300.0, "submitted"), (100.0, "missed")]
    now = store.schedule(schedule.id)
    assert (now.considered_until, now.due_at) == (150.0, 150.0)
    assert store.set_back(now, 101.0)
    assert times(store, schedule) == [(300.0, "submitted")]
    assert store.schedule(schedule.id).considered_until == pytest.approx(100.0, abs=0.01)


def test_a_manual_fire_is_stored_once_for_its_key(store: SqlStore) -> None:
    schedule, key = stored(store), Idempotency("ada", "k", "digest")
    first, new = store.add_manual_fire(a_fire(schedule, 100.0, trigger=Trigger.MANUAL), key)
    assert new
    assert (first.trigger, first.experiment_state) == (Trigger.MANUAL, "active")
    assert store.add_manual_fire(a_fire(schedule, 101.0, trigger=Trigger.MANUAL), key) == (first, False)
    assert len(store.experiments().items) == 1
    assert store.schedule(schedule.id) == schedule
    with pytest.raises(NotFound):
        store.add_manual_fire(a_fire(a_schedule(), 1.0, trigger=Trigger.MANUAL), None)
    assert len(store.experiments().items) == 1


def test_a_schedule_goes_with_its_fires_and_its_experiments_stay(store: SqlStore) -> None:
    schedule, other = stored(store), stored(store, name="other")
    new = a_fire(schedule, 100.0)
    store.settle(schedule, 100.0, None, [new])
    store.settle(other, 100.0, None, [a_fire(other, 100.0)])
    store.remove_schedule(schedule.id, a_deed("schedule remove", schedule.id))
    with pytest.raises(NotFound):
        store.schedule(schedule.id)
    with pytest.raises(NotFound):
        store.remove_schedule(schedule.id, a_deed("schedule remove"))
    assert times(store, schedule) == []
    assert len(times(store, other)) == 1
    assert new.experiment is not None
    assert store.experiment(new.experiment.id).origin == new.experiment.origin
    assert [one.action for one in store.deeds(target=schedule.id).items] == ["schedule remove"]


def test_an_experiment_goes_and_its_night_stays_on_record(store: SqlStore) -> None:
    schedule = stored(store)
    new = a_fire(schedule, 100.0)
    store.settle(schedule, 100.0, None, [new])
    assert new.experiment is not None
    store.remove_experiment(new.experiment.id)
    fire = store.fire(new.fire.id)
    assert (fire.experiment_id, fire.experiment_state) == (new.experiment.id, None)
    assert store.active_of_schedule(schedule.id) == []
    assert store.experiments(ExperimentFilter(schedule=schedule.id)).items == []


@pytest.mark.parametrize(("column", "value"), [("misfire", "perhaps"), ("spec", "[]"), ("spec", "{")])
def test_a_damaged_schedule_is_named_and_can_be_removed(store: SqlStore, url: str, column: str, value: str) -> None:
    bad, good = stored(store, name="bad"), stored(store)
    store.settle(good, 1.0, 5.0, [a_fire(good, 1.0, FireState.MISSED)])
    engine = create_engine(engines.parse_url(url))
    with engine.begin() as connection:
        connection.execute(
            text(f"UPDATE schedule SET {column} = :value WHERE id = :id"), {"value": value, "id": bad.id}
        )
        connection.execute(text("UPDATE fire SET state = 'lost'"))
    engine.dispose()
    page = store.schedules()
    assert [one.id for one in page.items] == [good.id]
    assert [(one.id, one.way_out) for one in page.damaged] == [(bad.id, f"tbd schedule rm {bad.id}")]
    assert [one.id for one in store.schedules_due(1000.0)] == [good.id]
    with pytest.raises(DamagedRow, match="tbd schedule rm"):
        store.schedule(bad.id)
    assert sorted(one.table for one in admin.damaged(url)) == ["fire", "schedule"]
    store.remove_schedule(bad.id, a_deed())
    assert store.schedules().damaged == []
