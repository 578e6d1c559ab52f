"""Submitting, looking, paging, cancelling."""

import math
from typing import Any

import pytest

from orchestrator.domain.runs.run import RunState
from tests.unit.api.api_rig import SPEC, Rig


def test_an_experiment_is_answered_with_its_place_and_its_runs_counted(rig: Rig) -> None:
    answer = rig.http.post("/api/v1/experiments", json=SPEC | {"repeats": 2})
    assert answer.status_code == 201
    experiment = answer.json()
    assert answer.headers["location"] == f"/api/v1/experiments/{experiment['id']}"
    stored = rig.http.get(answer.headers["location"]).json()
    assert stored["run_counts"] == {name: (2 if name == "queued" else 0) for name in RunState}
    assert stored == experiment
    assert rig.wakes == 1


def test_the_stored_spec_can_be_sent_again(rig: Rig) -> None:
    spec = rig.submit(framework=["pytorch", "tensorflow"], labels={"team": "a"})["spec"]
    assert rig.submit(**spec)["spec"] == spec


def test_times_are_rfc_3339_in_utc(rig: Rig) -> None:
    created = rig.submit()["created_at"]
    assert created.endswith("Z")
    assert created[10] == "T"


def test_a_dry_run_answers_the_plans_and_their_nodes_and_stores_nothing(rig: Rig) -> None:
    body = SPEC | {"framework": ["pytorch", "tensorflow"], "repeats": 2, "timeout_s": 100}
    answer = rig.http.post("/api/v1/experiments?dry_run=true", json=body)
    assert answer.status_code == 200
    preview = answer.json()
    assert preview["n_runs"] == len(preview["plans"]) == 4
    assert {tuple(one["nodes"]) for one in preview["plans"]} == {("n0",), ("n1",)}  # equal: a block on each
    assert preview["left_out"] == []
    assert preview["device_time_limit_s"] == 400
    assert preview["expected_duration_s"] is None
    assert preview["expected_duration_reason"]
    assert rig.get("/experiments")["items"] == []
    assert rig.wakes == 0


def test_a_dry_run_counts_the_most_tries_of_a_search_and_not_its_first_one_alone(rig: Rig) -> None:
    body = SPEC | {"per_device_batch_size": "max", "memory_limit_bytes": 2**30, "repeats": 2, "timeout_s": 100}
    preview = rig.http.post("/api/v1/experiments?dry_run=true", json=body).json()
    assert [one["plan"]["search"] for one in preview["plans"]] == [True]
    assert preview["device_time_limit_s"] == (26 + 2) * 100
    assert preview["expected_duration_s"] is None


def test_a_dry_run_says_why_a_plan_would_wait(rig: Rig) -> None:
    body = SPEC | {"topology": "4x1", "strategy": "ddp"}
    plans = rig.http.post("/api/v1/experiments?dry_run=true", json=body).json()["plans"]
    assert plans[0]["nodes"] is None
    assert "the cluster has" in plans[0]["waiting"]


def test_a_dry_run_learns_from_earlier_runs_of_the_cell(rig: Rig) -> None:
    experiment = rig.submit(repeats=3)
    rig.complete_all(experiment["id"], [100.0, 101.0, 102.0])
    preview = rig.http.post("/api/v1/experiments?dry_run=true", json=SPEC | {"repeats": 3}).json()
    assert preview["expected_duration_s"] == 3 * 8.0
    assert preview["expected_half_width_ratio"] is not None
    # Student's t with two degrees of freedom: 4.303 x 1 / sqrt(3) / 101, of the logarithm
    assert abs(preview["expected_half_width_ratio"] - math.expm1(0.0246)) < 1e-4


def test_two_posts_with_one_key_are_one_experiment(rig: Rig) -> None:
    key = {"Idempotency-Key": "k1"}
    first = rig.http.post("/api/v1/experiments", json=SPEC, headers=key)
    second = rig.http.post("/api/v1/experiments", json=SPEC, headers=key)
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] == second.json()["id"]
    assert second.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert len(rig.get("/experiments")["items"]) == 1


def test_one_key_with_another_body_is_refused(rig: Rig) -> None:
    key = {"Idempotency-Key": "k1"}
    rig.http.post("/api/v1/experiments", json=SPEC, headers=key)
    answer = rig.http.post("/api/v1/experiments", json=SPEC | {"seed": 2}, headers=key)
    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:tbd:problem:idempotency-key-reused"
    assert len(rig.get("/experiments")["items"]) == 1


def walk(rig: Rig, path: str, **parameters: Any) -> list[str]:
    found: list[str] = []
    cursor = None
    while True:
        page = rig.get(path, limit=2, **parameters, **({"cursor": cursor} if cursor else {}))
        assert len(page["items"]) <= 2
        found += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


def test_a_walk_over_pages_meets_everything_once_newest_first(rig: Rig) -> None:
    made = [rig.submit(name=f"e{number}")["id"] for number in range(5)]
    assert walk(rig, "/experiments") == made[::-1]
    assert len(walk(rig, "/runs")) == len(set(walk(rig, "/runs"))) == 15
    assert len(walk(rig, f"/experiments/{made[0]}/runs")) == 3


def test_filters_select(rig: Rig) -> None:
    labelled = rig.submit(name="a", labels={"team": "x=y"})["id"]
    rig.submit(name="b")
    assert [one["id"] for one in rig.get("/experiments", label="team=x=y")["items"]] == [labelled]
    assert [one["id"] for one in rig.get("/experiments", name="a")["items"]] == [labelled]
    assert {one["experiment_id"] for one in rig.get("/runs", label="team=x=y")["items"]} == {labelled}
    assert rig.get("/runs", framework="tensorflow")["items"] == []
    assert rig.get("/experiments", state="completed")["items"] == []


def test_cancelling_is_accepted_and_may_be_repeated(rig: Rig) -> None:
    experiment = rig.submit()
    for _ in range(2):
        answer = rig.http.post(f"/api/v1/experiments/{experiment['id']}/cancel", headers={"Idempotency-Key": "c"})
        assert answer.status_code == 202
        assert answer.json()["cancel_requested"] is True
    assert all(run["cancel_requested"] for run in rig.get("/runs")["items"])


def test_cancelling_a_run_leaves_the_others(rig: Rig) -> None:
    rig.submit(repeats=2)
    first, second = rig.get("/runs")["items"]
    assert rig.http.post(f"/api/v1/runs/{first['id']}/cancel").status_code == 202
    assert rig.get(f"/runs/{first['id']}")["cancel_requested"] is True
    assert rig.get(f"/runs/{second['id']}")["cancel_requested"] is False


@pytest.mark.parametrize("path", ["/experiments", "/runs", "/results"])
def test_lists_can_begin_with_the_oldest_and_go_on_from_there(rig: Rig, path: str) -> None:
    for number in range(3):
        rig.submit(name=f"number-{number}")
    name = "experiment_id" if path == "/results" else "id"
    newest = [one[name] for one in rig.get(path)["items"]]
    oldest = rig.get(path, order="oldest", limit=2)
    rest = rig.get(path, order="oldest", cursor=oldest["next_cursor"])
    assert [one[name] for one in (*oldest["items"], *rest["items"])] == newest[::-1]
    assert rig.http.get(f"/api/v1{path}", params={"order": "name"}).status_code == 422
