"""The contract of the store: predictions. On SQLite and on PostgreSQL."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from orchestrator.db.store import SqlStore
from orchestrator.db.upgrade import admin
from orchestrator.domain.around.predictions import PredictedPart, Prediction, PredictionFilter, RestsOn, Told
from orchestrator.domain.value.measurement import Measurement
from tests.contract import store_scenes as scene

pytest_plugins = ["tests.contract.store_servers"]

RESTS_ON = RestsOn(("run_1", "run_2"), 4, (8,), "run_3", 2, None, "busy-cores", True, 1, 12)
TOLD = Told(
    Measurement("throughput", 8.0, "images/s", "model", ci_low=4.0, ci_high=16.0, confidence=0.9, n=2.0),
    0.5,
    0.2,
    (PredictedPart("one device", 0.1), PredictedPart("exposed exchange", 0.1)),
    RESTS_ON,
)


def a_prediction(number: int, **changes: object) -> Prediction:
    plan = scene.runs_for(scene.experiment())[0].plan
    made = Prediction(f"pre_{number}", "ada", 1000.0 + number, plan, TOLD)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_predictions_come_back_as_they_were_told_newest_first_and_by_what_they_are_of(store: SqlStore) -> None:
    first = a_prediction(1)
    others = [a_prediction(2, owner="bob"), a_prediction(3, plan=replace(first.plan, strategy="ddp"))]
    store.add_predictions([first, *others])
    store.add_predictions([])
    assert store.predictions().items == [*reversed(others), first]
    assert store.predictions(PredictionFilter(owner="bob")).items == others[:1]
    of_strategy = PredictionFilter(model="net", framework="pytorch", strategy="ddp")
    assert store.predictions(of_strategy).items == others[1:]
    page = store.predictions(limit=2)
    assert store.predictions(limit=2, cursor=page.next_cursor).items == [first]


@pytest.mark.parametrize("told", ["{}", "no JSON", '{"throughput": {"value": "fast"}}'])
def test_a_damaged_prediction_spoils_no_other_and_the_check_finds_it(store: SqlStore, url: str, told: str) -> None:
    good, bad = a_prediction(1), a_prediction(2)
    store.add_predictions([good, bad])
    damage = text("UPDATE prediction SET told = :told WHERE id = :id")
    store.database.write(lambda connection: connection.execute(damage, {"id": bad.id, "told": told}))
    page = store.predictions()
    assert page.items == [good]
    assert [(one.table, one.id) for one in page.damaged] == [("prediction", bad.id)]
    assert [one.table for one in admin.damaged(url)] == ["prediction"]
