"""POST and GET /calibrations: what is started, what is refused and how, what was found."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.services.facts.catalog import load_catalog
from tests.contract.test_store_calibrations import ONE, calibrated
from tests.unit import builders
from tests.unit.api.api_rig import Rig

PATH = "/api/v1/calibrations"


@pytest.fixture(autouse=True)
def real_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree's own facts: calibration is one of its models."""
    catalog = load_catalog()
    monkeypatch.setattr(builders, "catalog", lambda: catalog)


@pytest.fixture
def rig(real_models: None, tmp_path: Any) -> Any:
    made = Rig(tmp_path)
    yield made
    made.close()


def test_a_calibration_is_an_experiment_that_can_be_followed(rig: Rig) -> None:
    answer = rig.http.post(PATH, json={"load_s": 1, "measure_s": 0.5, "shapes": "256,512x128x64"})
    assert answer.status_code == 201, answer.text
    experiment = answer.json()
    assert answer.headers["location"] == f"/api/v1/experiments/{experiment['id']}"
    plan = rig.get(f"/experiments/{experiment['id']}/runs")["items"][0]["plan"]
    assert (plan["model"], plan["framework"], plan["strategy"], plan["topology"]) == (
        "calibration",
        "pytorch",
        "single",
        "1x1",
    )
    assert plan["options"] == {"arithmetics": "auto", "shapes": "256,512x128x64", "load_s": 1.0, "measure_s": 0.5}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [({"load_s": -1}, "/load_s"), ({"topology": "two"}, "/topology"), ({"speed": 1}, "/speed"), ([], "")],
)
def test_what_is_wrong_is_told_where_it_stands(rig: Rig, body: Any, pointer: str) -> None:
    answer = rig.http.post(PATH, json=body)
    assert answer.status_code == 422
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]


def test_what_was_found_is_listed_with_its_change(rig: Rig) -> None:
    owner = "local"
    calibrated(rig.store, ONE, at=1000.0, owner=owner)
    calibrated(rig.store, replace(ONE, flops_per_s=0.8e11), at=2000.0, owner=owner)
    new, old = rig.get("/calibrations?device=cpu:0-1")["items"]
    assert (old["change_ratio"], old["changed"]) == (None, False)
    assert new["change_ratio"] == pytest.approx(-0.2)
    assert new["changed"]
    assert (new["shape"], new["rates"]["2048x2048x2048"]) == ([2048, 2048, 2048], 1e11)
    assert rig.get("/calibrations?arithmetic=bf16")["items"] == []
