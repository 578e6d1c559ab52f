"""Schedules over REST: what is accepted, whose they are, what is on record. Their times: ``contract``."""

from typing import Any

import pytest

from orchestrator.services.reconcile.reconciler import Bell
from orchestrator.services.schedule.scheduler import Scheduler
from tests.unit.api.api_rig import SPEC, Rig
from tests.unit.api.test_owners_rest import People

NIGHTLY: dict[str, Any] = {"name": "nightly", "cron": "0 2 * * *", "timezone": "Europe/Berlin", "spec": SPEC}


def made(rig: Rig, **changes: Any) -> dict[str, Any]:
    answer = rig.http.post("/api/v1/schedules", json=NIGHTLY | changes)
    assert answer.status_code == 201, answer.text
    assert answer.headers["Location"] == f"/api/v1/schedules/{answer.json()['id']}"
    return dict(answer.json())


def test_a_schedule_is_answered_with_its_rules_and_its_next_times(rig: Rig) -> None:
    new = made(rig)
    assert rig.get(f"/schedules/{new['id']}") == new
    rules = {"misfire": "one", "max_age_s": 86400.0, "overlap": "skip", "jitter_s": 0.0, "paused": False}
    assert {name: new[name] for name in rules} == rules
    assert (new["owner"], new["last_fire"], new["spec"]["max_repeats"]) == ("local", None, 10)
    assert len(new["upcoming"]) == 5
    assert all(text[10:] in ("T00:00:00.000000Z", "T01:00:00.000000Z") for text in new["upcoming"])
    assert rig.get("/schedules", name="nightly")["items"] == [new]
    assert rig.get("/schedules", paused=True)["items"] == []
    assert rig.get(f"/schedules/{new['id']}/fires")["items"] == []


@pytest.mark.parametrize(
    ("change", "pointer", "told"),
    [
        ({"cron": "0 26 * * *"}, "/cron", "hour: '26' is none of 0 to 23"),
        ({"cron": "0 0 31 2 *"}, "/cron", "never fires"),
        ({"timezone": "Europe/Berln"}, "/timezone", "did you mean Europe/Berlin?"),
        ({"timezone": "../../etc/passwd"}, "/timezone", "no time zone"),
        ({"name": "Nightly!"}, "/name", "pattern"),
        ({"misfire": "maybe"}, "/misfire", "'skip', 'one' or 'all'"),
        ({"max_age_s": -1}, "/max_age_s", "greater than or equal to 0"),
        ({"jitter_s": 1e9}, "/jitter_s", "less than or equal to 86400"),
        ({"every": 5}, "/every", "unknown key 'every'"),
        ({"spec": SPEC | {"modl": "net"}}, "/spec/modl", "did you mean model?"),
        ({"spec": SPEC | {"model": "nett"}}, "/spec/model", "nett"),
        ({"spec": []}, "/spec", "dictionary"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(rig: Rig, change: dict[str, Any], pointer: str, told: str) -> None:
    was = made(rig)
    for answer in (
        rig.http.post("/api/v1/schedules", json=NIGHTLY | {"name": "other"} | change),
        rig.http.patch(f"/api/v1/schedules/{was['id']}", json=change),
    ):
        assert answer.status_code == 422, answer.text
        (problem,) = [one for one in answer.json()["errors"] if one["pointer"].startswith(pointer)]
        assert told in problem["detail"]
    assert rig.get("/schedules")["items"] == [was]


def test_times_without_a_zone_are_refused(rig: Rig) -> None:
    new = made(rig)
    path = f"/api/v1/schedules/{new['id']}/fires"
    for since in ("2026-11-22T02:00:00", "yesterday", "0001-01-01T00:00:00Z"):
        assert rig.http.get(path, params={"since": since}).status_code == 422
    assert rig.http.get(path, params={"since": "2026-11-22T02:00:00Z", "until": "2026-11-23T02:00:00%2B01:00"})


def test_a_change_leaves_what_it_does_not_name(rig: Rig) -> None:
    new = made(rig)
    path = f"/api/v1/schedules/{new['id']}"
    changed = rig.http.patch(path, json={"overlap": "queue", "cron": "@hourly", "name": "hourly"}).json()
    assert changed["upcoming"] != new["upcoming"]
    same = {"overlap": "queue", "cron": "@hourly", "name": "hourly", "upcoming": changed["upcoming"]}
    assert changed == new | same
    paused = rig.http.patch(path, json={"paused": True}).json()
    assert (paused["paused"], paused["upcoming"]) == (True, [])
    assert rig.http.patch(path, json={"paused": True}).json() == paused  # which is no deed
    other = rig.http.patch(path, json={"paused": False, "spec": SPEC | {"repeats": 5}}).json()
    assert other["spec"]["repeats"] == 5
    told = [one["action"] for one in rig.get("/audit", target=new["id"])["items"]]
    assert told == ["schedule resume", "schedule pause", "schedule change", "schedule add"]


def test_a_request_with_a_key_that_comes_again_does_nothing_again(rig: Rig) -> None:
    key = {"Idempotency-Key": "k"}
    first = rig.http.post("/api/v1/schedules", json=NIGHTLY, headers=key)
    again = rig.http.post("/api/v1/schedules", json=NIGHTLY, headers=key)
    assert again.json()["id"] == first.json()["id"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert rig.http.post("/api/v1/schedules", json=NIGHTLY | {"name": "b"}, headers=key).status_code == 422
    assert rig.http.post("/api/v1/schedules", json=NIGHTLY).status_code == 409
    path = f"/api/v1/schedules/{first.json()['id']}/run"
    ran, repeated = (rig.http.post(path, headers={"Idempotency-Key": "run"}) for _ in range(2))
    assert (ran.status_code, repeated.status_code) == (201, 201)
    assert repeated.json() == ran.json()
    assert repeated.headers["Idempotent-Replayed"] == "true"
    assert len(rig.get("/experiments")["items"]) == 1


def test_run_now_answers_the_fire_and_its_experiment_says_where_it_came_from(rig: Rig) -> None:
    new = made(rig, paused=True)
    answer = rig.http.post(f"/api/v1/schedules/{new['id']}/run")
    fire = answer.json()
    assert answer.headers["Location"] == f"/api/v1/experiments/{fire['experiment_id']}"
    assert (fire["trigger"], fire["state"], fire["experiment_state"]) == ("manual", "submitted", "active")
    experiment = rig.get(f"/experiments/{fire['experiment_id']}")
    assert experiment["origin"] == {"schedule_id": new["id"], "fire_id": fire["id"], "fire_at": fire["fire_at"]}
    assert rig.submit()["origin"] is None
    assert [one["id"] for one in rig.get("/experiments", schedule=new["id"])["items"]] == [experiment["id"]]
    assert rig.get(f"/schedules/{new['id']}/fires", state="submitted")["items"] == [fire]
    assert rig.get(f"/schedules/{new['id']}")["last_fire"] == fire


def test_a_schedule_goes_and_its_experiments_stay(rig: Rig) -> None:
    new = made(rig)
    fire = rig.http.post(f"/api/v1/schedules/{new['id']}/run").json()
    assert rig.http.delete(f"/api/v1/schedules/{new['id']}").status_code == 204
    assert rig.http.delete(f"/api/v1/schedules/{new['id']}").status_code == 404
    assert rig.get(f"/experiments/{fire['experiment_id']}")["origin"]["schedule_id"] == new["id"]


def test_only_its_owner_or_an_admin_changes_runs_or_removes_a_schedule(rig: Rig) -> None:
    people = People(rig)
    new = people.call("ada", "POST", "/schedules", json=NIGHTLY).json()
    path = f"/schedules/{new['id']}"
    acts: list[tuple[str, str, dict[str, Any]]] = [
        ("PATCH", path, {"json": {"spec": SPEC | {"repeats": 5}}}),
        ("POST", f"{path}/run", {}),
        ("DELETE", path, {}),
    ]
    for method, where, more in acts:
        answer = people.call("bob", method, where, **more)
        assert answer.status_code == 403
        assert answer.json()["detail"].startswith(f"{new['id']} is ada's: only ada, or a token of scope admin")
        assert people.call("eve", method, where, **more).status_code == 403
    assert people.call("eve", "POST", "/schedules", json=NIGHTLY).status_code == 403
    assert people.call("eve", "GET", path).json() == new
    assert people.call("root", *acts[0][:2], **acts[0][2]).json()["owner"] == "ada"
    fire = people.call("root", "POST", f"{path}/run").json()
    assert people.call("eve", "GET", f"/experiments/{fire['experiment_id']}").json()["owner"] == "ada"
    assert people.call("ada", *acts[2][:2]).status_code == 204
    assert people.did() == [
        ("ada", "schedule add", new["id"]),
        ("root", "schedule change", new["id"]),
        ("root", "schedule run", fire["experiment_id"]),
        ("ada", "schedule remove", new["id"]),
    ]


def test_an_owner_who_was_shut_out_trains_nothing_by_a_schedule_that_stays(rig: Rig) -> None:
    people = People(rig)
    new = people.call("ada", "POST", "/schedules", json=NIGHTLY | {"cron": "* * * * *"}).json()
    tokens = people.call("root", "GET", "/tokens").json()["items"]
    (hers,) = [one["id"] for one in tokens if one["owner"] == "ada"]
    assert people.call("root", "POST", f"/tokens/{hers}/revoke").status_code == 200
    schedule = rig.store.schedule(new["id"])
    assert schedule.due_at is not None
    assert rig.store.settle(schedule, schedule.considered_until - 120, schedule.due_at - 120, [])  # two minutes ago
    Scheduler(rig.context, Bell()).look()
    fires = people.call("root", "GET", f"/schedules/{new['id']}/fires").json()["items"]
    assert fires[0]["state"] == "refused"
    assert "every token by which ada may submit has been revoked" in fires[0]["reason"]
    assert people.call("root", "GET", "/experiments").json()["items"] == []
