"""Pausing, resuming and extending an experiment over REST."""

from orchestrator.domain.runs.run import ExperimentState, RunState
from tests.unit.api.api_rig import SPEC, Rig


def test_pause_and_resume_are_accepted_however_often_they_come(rig: Rig) -> None:
    made = rig.submit()
    path = f"/api/v1/experiments/{made['id']}"
    assert made["paused"] is False
    for order, paused in (("pause", True), ("pause", True), ("resume", False), ("resume", False)):
        answer = rig.http.post(f"{path}/{order}")
        assert answer.status_code == 202
        assert answer.json()["paused"] is paused
        waiting = {run["reason"] for run in rig.get(f"/experiments/{made['id']}/runs")["items"]}
        assert waiting == ({"its experiment is paused (tbd resume)"} if paused else {None})


def test_only_what_is_missing_is_added_and_the_same_again_adds_nothing(rig: Rig) -> None:
    made = rig.submit(repeats=1)
    rig.complete_all(made["id"], [100.0])
    path = f"/api/v1/experiments/{made['id']}/extend"
    wider = SPEC | {"repeats": 2, "per_device_batch_size": [4, 8]}
    for _ in range(2):
        answer = rig.http.post(path, json=wider)
        assert answer.status_code == 200, answer.text
        counts = {name: count for name, count in answer.json()["run_counts"].items() if count}
        assert counts == {"completed": 1, "queued": 3}
    plans = [run["plan"] for run in rig.get(f"/experiments/{made['id']}/runs")["items"]]
    assert sorted((plan["per_device_batch_size"], plan["repetition"]) for plan in plans) == [
        (4, 1),
        (4, 2),
        (8, 1),
        (8, 2),
    ]


def test_a_spec_that_takes_something_away_is_refused_by_the_name_of_the_field(rig: Rig) -> None:
    made = rig.submit(per_device_batch_size=[4, 8])
    answer = rig.http.post(
        f"/api/v1/experiments/{made['id']}/extend", json=SPEC | {"per_device_batch_size": 8, "repeats": 2}
    )
    assert answer.status_code == 422
    assert [problem["pointer"] for problem in answer.json()["errors"]] == ["/per_device_batch_size", "/repeats"]
    assert rig.get(f"/experiments/{made['id']}")["spec"] == made["spec"]


def test_what_is_being_cancelled_cannot_be_extended_until_that_is_done(rig: Rig) -> None:
    made = rig.submit()
    rig.http.post(f"/api/v1/experiments/{made['id']}/cancel")
    path = f"/api/v1/experiments/{made['id']}/extend"
    assert rig.http.post(path, json=SPEC | {"repeats": 4}).status_code == 409
    for run in rig.store.runs_of(made["id"]):
        rig.store.move_run(run.id, RunState.QUEUED, RunState.CANCELLED, at=2.0)
    rig.store.end_experiment(made["id"], ExperimentState.CANCELLED, 3.0)
    answer = rig.http.post(path, json=SPEC | {"repeats": 4})
    assert answer.json()["run_counts"]["queued"] == 4
    assert answer.json()["run_counts"]["cancelled"] == 0
    assert answer.json()["state"] == "active"


def test_an_extension_sent_again_under_its_key_is_carried_out_once(rig: Rig) -> None:
    made = rig.submit()
    path, key = f"/api/v1/experiments/{made['id']}/extend", {"Idempotency-Key": "k"}
    first = rig.http.post(path, json=SPEC | {"repeats": 4}, headers=key)
    again = rig.http.post(path, json=SPEC | {"repeats": 4}, headers=key)
    assert first.json() == again.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert rig.http.post(path, json=SPEC | {"repeats": 5}, headers=key).status_code == 422
