"""POST and GET /netbench and /calibrations: what is started, what is refused and how, what was found."""

from dataclasses import replace
from typing import Any

import pytest

from orchestrator.services.facts.catalog import load_catalog
from tests.contract.test_store_probes import PEAK, calibrated, measured, rows
from tests.unit import builders
from tests.unit.api.api_rig import Rig

NETBENCH, CALIBRATIONS = "/api/v1/netbench", "/api/v1/calibrations"


@pytest.fixture(autouse=True)
def real_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree's own facts: the probes are among its models."""
    catalog = load_catalog()
    monkeypatch.setattr(builders, "catalog", lambda: catalog)


@pytest.fixture
def rig(real_models: None, tmp_path: Any) -> Any:
    made = Rig(tmp_path)
    yield made
    made.close()


def test_a_netbench_is_an_experiment_that_can_be_followed(rig: Rig) -> None:
    answer = rig.http.post(NETBENCH, json={"topology": "2x1", "max_bytes": 65536, "repeats": 2})
    assert answer.status_code == 201, answer.text
    experiment = answer.json()
    assert answer.headers["location"] == f"/api/v1/experiments/{experiment['id']}"
    assert experiment["name"] == "netbench-auto-2x1"
    assert experiment["run_counts"]["queued"] == 2
    plan = rig.get(f"/experiments/{experiment['id']}/runs")["items"][0]["plan"]
    assert (plan["model"], plan["framework"], plan["strategy"]) == ("netbench", "pytorch", "ddp")
    assert (plan["topology"], plan["fabric"], plan["device"]) == ("2x1", "ethernet", "cpu")
    assert plan["options"] == {"max_bytes": 65536, "budget_s": 300.0}
    assert rig.wakes == 1


def test_a_calibration_is_an_experiment_that_can_be_followed(rig: Rig) -> None:
    answer = rig.http.post(CALIBRATIONS, json={"load_s": 1, "measure_s": 0.5, "shapes": "256,512x128x64"})
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


def test_mpi_is_measured_as_cntk_trains_with_it(rig: Rig) -> None:
    experiment = rig.http.post(NETBENCH, json={"topology": "1x2", "library": "mpi"}).json()
    plan = rig.get(f"/experiments/{experiment['id']}/runs")["items"][0]["plan"]
    assert (plan["framework"], plan["strategy"], plan["interpreter"]) == ("cntk", "mpi", "cntk")


def test_the_same_request_under_a_key_is_carried_out_once(rig: Rig) -> None:
    key = {"Idempotency-Key": "k1"}
    first = rig.http.post(NETBENCH, json={"topology": "1x2"}, headers=key)
    again = rig.http.post(NETBENCH, json={"topology": "1x2"}, headers=key)
    assert again.status_code == 201
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["idempotent-replayed"] == "true"
    other = rig.http.post(NETBENCH, json={"topology": "2x1"}, headers=key)
    assert (other.status_code, other.json()["type"]) == (422, "urn:tbd:problem:idempotency-key-reused")


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        (NETBENCH, {"topology": "1x1"}, "/topology"),
        (NETBENCH, {"topology": "two"}, "/topology"),
        (NETBENCH, {"topology": "99x1"}, "/topology"),
        (NETBENCH, {"topology": "1x2", "library": "smoke"}, "/library"),
        (NETBENCH, {"topology": "1x2", "library": "gloo", "device": "cuda"}, "/library"),
        (NETBENCH, {"topology": "1x2", "library": "nccl", "device": "cpu"}, "/library"),
        (NETBENCH, {"topology": "2x1", "fabric": "infiniband"}, "/fabric"),
        (NETBENCH, {"topology": "1x2", "max_bytes": 3}, "/max_bytes"),
        (NETBENCH, {"topology": "1x2", "max_bytes": 2**40}, "/max_bytes"),
        (NETBENCH, {"topology": "1x2", "max_bytes": "16MiB"}, "/max_bytes"),
        (NETBENCH, {"topology": "1x2", "repeats": 0}, "/repeats"),
        (NETBENCH, {"topology": "1x2", "budget_s": 0}, "/budget_s"),
        (NETBENCH, {"topology": "1x2", "colour": "blue"}, "/colour"),
        (NETBENCH, [], ""),
        (CALIBRATIONS, {"load_s": -1}, "/load_s"),
        (CALIBRATIONS, {"topology": "two"}, "/topology"),
        (CALIBRATIONS, {"speed": 1}, "/speed"),
        (CALIBRATIONS, [], ""),
    ],
)
def test_what_cannot_be_measured_is_refused_with_a_pointer_to_it(rig: Rig, path: str, body: Any, pointer: str) -> None:
    answer = rig.http.post(path, json=body)
    assert answer.status_code == 422
    assert pointer in [error["pointer"] for error in answer.json()["errors"]]
    assert rig.get("/experiments")["items"] == []


def test_what_was_found_is_answered_page_by_page_and_filtered(rig: Rig) -> None:
    run = measured(rig.store, rows(3), owner="local")
    page = rig.get("/netbench?limit=2")
    rest = rig.get(f"/netbench?limit=2&cursor={page['next_cursor']}")
    assert [item["bytes"] for item in (*page["items"], *rest["items"])] == [4, 8, 16]
    assert rest["next_cursor"] is None
    first = page["items"][0]
    assert (first["run_id"], first["nodes"], first["ranks"]) == (run.id, ["n0", "n1"], [0, 1])
    assert first["algorithm_bytes_per_s"] == 2e4
    assert rig.get("/netbench?nodes=n1,n0&topology=2x1&fabric=ethernet&library=gloo&valid=true")["items"]
    assert not rig.get("/netbench?nodes=n1")["items"]
    assert not rig.get("/netbench?busy_cores=true")["items"]


def test_what_was_found_is_listed_with_its_change(rig: Rig) -> None:
    owner = "local"
    calibrated(rig.store, PEAK, at=1000.0, owner=owner)
    calibrated(rig.store, replace(PEAK, flops_per_s=0.8e11), at=2000.0, owner=owner)
    new, old = rig.get("/calibrations?device=cpu:0-1")["items"]
    assert (old["change_ratio"], old["changed"]) == (None, False)
    assert new["change_ratio"] == pytest.approx(-0.2)
    assert new["changed"]
    assert (new["shape"], new["rates"]["2048x2048x2048"]) == ([2048, 2048, 2048], 1e11)
    assert rig.get("/calibrations?arithmetic=bf16")["items"] == []


@pytest.mark.parametrize("query", ["cursor=x", "operation=gather", "speed=1", "limit=0"])
def test_a_question_that_makes_no_sense_is_refused(rig: Rig, query: str) -> None:
    assert rig.http.get(f"{NETBENCH}?{query}").status_code == 422


def test_what_others_measured_is_shown_and_can_be_chosen(rig: Rig) -> None:
    measured(rig.store, rows(3), owner="ada")
    assert len(rig.get("/netbench")["items"]) == len(rig.get("/netbench", owner="ada")["items"]) == 3
    assert rig.get("/netbench", owner="bob")["items"] == []
