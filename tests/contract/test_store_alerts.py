"""The contract of the store: alerts. On SQLite and on PostgreSQL."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from orchestrator.db.store import SqlStore
from orchestrator.db.upgrade import admin
from orchestrator.domain.around.alerts import Alert, AlertFilter, AlertState, Candidate, Told
from orchestrator.domain.asked.fingerprint import Changed
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.errors import NotFound
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]

EFFECT = Measurement("difference_ratio", -0.02, "1", "median unbiased", ci_low=-0.03, ci_high=-0.01, confidence=0.95)
TOLD = Told(
    (Candidate("c0", "net pytorch 4", "n0 cpu:0", 1000.0, 2000.0, -0.02),),
    (Changed("subject", "libraries.torch", "2.12", None), Changed("subject", "code_commits", ["a"], ["a", "b"])),
    "being tried",
)


def an_alert(number: int, **changes: object) -> Alert:
    made = Alert(f"alt_{number}", "sch_1", AlertState.UNCONFIRMED, 1000.0 + number, 1000.0 + number, None, TOLD)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_alerts_come_back_as_they_were_told_newest_first_and_by_state_and_schedule(store: SqlStore) -> None:
    first, second = an_alert(1), an_alert(2, schedule_id="sch_2", told=replace(TOLD, effect=EFFECT, by="ada"))
    assert store.add_alert(first)
    assert store.add_alert(second)
    assert store.alerts().items == [second, first]
    assert store.alerts(AlertFilter(schedule_id="sch_1")).items == [first]
    assert store.alerts(AlertFilter(state="open")).items == []
    page = store.alerts(limit=1)
    assert store.alerts(limit=1, cursor=page.next_cursor).items == [first]
    assert store.alert("alt_2") == second
    with pytest.raises(NotFound):
        store.alert("alt_3")


def test_an_alert_and_its_experiment_are_stored_once_and_together(store: SqlStore) -> None:
    experiments = [replace(scene.experiment(), id=f"exp_{number}") for number in (1, 2)]
    trying = an_alert(1, state=AlertState.TRYING, experiment_id="exp_1")
    assert store.add_alert(trying, experiments[0], scene.runs_for(experiments[0]))
    again = replace(trying, experiment_id="exp_2")
    assert not store.add_alert(again, experiments[1], scene.runs_for(experiments[1]))
    assert store.alert("alt_1").experiment_id == "exp_1"
    assert [one.id for one in store.experiments().items] == ["exp_1"]


def test_an_alert_moves_once_from_where_it_was_expected(store: SqlStore) -> None:
    store.add_alert(an_alert(1, state=AlertState.TRYING))
    told = replace(TOLD, tried="slower", effect=EFFECT)
    assert store.move_alert("alt_1", AlertState.TRYING, AlertState.OPEN, told, 2000.0)
    assert not store.move_alert("alt_1", AlertState.TRYING, AlertState.REFUTED, TOLD, 2001.0)
    assert store.alert("alt_1") == an_alert(1, state=AlertState.OPEN, told=told, updated_at=2000.0)
    with pytest.raises(ValueError, match="cannot move"):
        store.move_alert("alt_1", AlertState.OPEN, AlertState.TRYING, TOLD, 2002.0)


def test_a_damaged_alert_spoils_no_other_and_the_check_finds_it(store: SqlStore, url: str) -> None:
    store.add_alert(an_alert(1))
    store.add_alert(an_alert(2))
    damage = text("UPDATE alert SET told = '{}' WHERE id = 'alt_2'")
    store.database.write(lambda connection: connection.execute(damage))
    page = store.alerts()
    assert page.items == [an_alert(1)]
    assert [(one.table, one.id) for one in page.damaged] == [("alert", "alt_2")]
    assert [one.table for one in admin.damaged(url)] == ["alert"]
