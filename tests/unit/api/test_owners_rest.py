"""Whose things are: everybody looks at everything, only owners and admins end or remove; and what is kept of it."""

from typing import Any

import pytest

from tests.replays.replay import raw
from tests.unit.api.api_rig import AS_LOG, SPEC, Rig
from tests.unit.api.test_access_rest import add, bearing


class People:
    """A server with ada and bob, who may submit, eve, who may read, and root."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.headers = {name: bearing(add(rig, "submit", name)) for name in ("ada", "bob")}
        self.headers["eve"] = bearing(add(rig, "read", "eve"))
        self.headers["root"] = bearing(add(rig, "admin", "root"))

    def call(self, who: str, method: str, path: str, **more: Any) -> Any:
        more["headers"] = self.headers[who] | more.get("headers", {})
        return self.rig.http.request(method, f"/api/v1{path}", **more)

    def submit(self, who: str, **more: Any) -> str:
        answer = self.call(who, "POST", "/experiments", json=SPEC, **more)
        assert answer.status_code == 201, answer.text
        assert answer.json()["owner"] == who
        return str(answer.json()["id"])

    def did(self, **wanted: str) -> list[tuple[str, str, str]]:
        """(who, what, to what) of the audit trail, oldest first; without tokens."""
        items = self.call("root", "GET", "/audit", params=wanted | {"limit": 1000}).json()["items"]
        told = [(one["who"], one["action"], one["target"]) for one in items[::-1]]
        return [one for one in told if not one[1].startswith("token")]


@pytest.fixture
def people(rig: Rig) -> People:
    return People(rig)


def test_everybody_looks_at_everything_and_lists_can_be_of_an_owner(people: People) -> None:
    mine, theirs = people.submit("ada"), people.submit("bob")
    assert people.call("eve", "GET", f"/experiments/{mine}").json()["owner"] == "ada"
    for who in ("ada", "eve"):
        listed = people.call(who, "GET", "/experiments").json()["items"]
        assert {one["id"] for one in listed} == {mine, theirs}
        assert len(people.call(who, "GET", "/runs").json()["items"]) == 6
    of_bob = {"owner": "bob"}
    assert [one["id"] for one in people.call("eve", "GET", "/experiments", params=of_bob).json()["items"]] == [theirs]
    assert {one["experiment_id"] for one in people.call("eve", "GET", "/runs", params=of_bob).json()["items"]} == {
        theirs
    }
    (row,) = people.call("eve", "GET", "/results", params=of_bob).json()["items"]
    assert row["experiment_id"] == theirs
    assert people.call("eve", "GET", f"/experiments/{theirs}/runs").status_code == 200
    assert len(people.call("eve", "GET", "/lookup", params={"text": "first"}).json()["items"]) == 2


def test_only_its_owner_or_an_admin_ends_or_removes_an_experiment(people: People) -> None:
    mine = people.submit("ada")
    (run, *_) = people.call("ada", "GET", f"/experiments/{mine}/runs").json()["items"]
    acts = [
        ("POST", f"/experiments/{mine}/cancel"),
        ("POST", f"/experiments/{mine}/pause"),
        ("POST", f"/experiments/{mine}/resume"),
        ("POST", f"/experiments/{mine}/extend"),
        ("POST", f"/runs/{run['id']}/cancel"),
        ("DELETE", f"/experiments/{mine}"),
    ]
    for method, path in acts:
        body = {"json": SPEC} if path.endswith("extend") else {}
        answer = people.call("bob", method, path, **body)
        assert answer.status_code == 403
        assert answer.json()["detail"].startswith(f"{mine} is ada's: only ada, or a token of scope admin")
        assert people.call("eve", method, path, **body).status_code == 403
    assert people.call("eve", "GET", f"/experiments/{mine}").json()["cancel_requested"] is False
    cancel, pause, resume, extend, cancel_run, remove = acts
    for order in (pause, pause, resume):  # the second time nothing changes
        assert people.call("ada", *order).status_code == 202
    for _ in range(2):
        assert people.call("ada", *extend, json=SPEC | {"repeats": 4}).status_code == 200
    assert people.call("ada", *cancel_run).status_code == 202
    assert people.call("root", *cancel).status_code == 202
    assert people.call("ada", *remove).status_code == 204
    assert people.did() == [
        ("ada", "submit", mine),
        ("ada", "pause", mine),
        ("ada", "resume", mine),
        ("ada", "extend", mine),
        ("ada", "cancel", run["id"]),
        ("root", "cancel", mine),
        ("ada", "remove", mine),
    ]


def test_what_is_not_there_is_not_found_whoever_asks(people: People) -> None:
    for who in ("ada", "root"):
        assert people.call(who, "POST", "/experiments/exp_nobody/cancel").status_code == 404
        assert people.call(who, "DELETE", "/experiments/exp_nobody").status_code == 404
        assert people.call(who, "POST", "/runs/run_nobody/cancel").status_code == 404


def test_another_token_of_the_same_owner_may_go_on_with_it(people: People) -> None:
    mine = people.submit("ada")
    second = bearing(add(people.rig, "submit", "ada", name="ada-2"))
    answer = people.rig.http.post(f"/api/v1/experiments/{mine}/cancel", headers=second)
    assert answer.status_code == 202


def test_what_was_made_before_there_were_tokens_is_an_admin_s_to_remove(rig: Rig) -> None:
    early = rig.submit()["id"]
    people = People(rig)
    assert people.call("ada", "POST", f"/experiments/{early}/cancel").status_code == 403
    assert people.call("root", "POST", f"/experiments/{early}/cancel").status_code == 202


def test_owners_do_not_share_idempotency_keys(people: People) -> None:
    key = {"headers": {"Idempotency-Key": "k"}}
    mine, theirs = people.submit("ada", **key), people.submit("bob", **key)
    assert mine != theirs
    assert people.submit("ada", **key) == mine
    assert people.did() == [("ada", "submit", mine), ("bob", "submit", theirs)]  # what is sent again is not done again


def test_every_act_is_in_the_audit_trail(people: People) -> None:
    one = people.submit("ada")
    net = people.call("ada", "POST", "/netbench", json={"topology": "1x2"})
    peaks = people.call("bob", "POST", "/calibrations", json={})
    assert people.call("bob", "POST", "/ingest", content=b"{}", headers=AS_LOG).status_code == 422  # it leaves no trace
    log = people.call("bob", "POST", "/ingest", content=raw("crashed"), headers=AS_LOG)
    (run, *_) = people.call("ada", "GET", f"/experiments/{one}/runs").json()["items"]
    people.call("ada", "POST", f"/runs/{run['id']}/cancel")
    for _ in range(2):
        people.call("ada", "POST", f"/experiments/{one}/cancel")  # the second time nothing changes
        people.call("root", "POST", "/nodes/n0/drain")
    people.call("root", "POST", "/nodes/n0/quarantine")
    people.call("root", "POST", "/nodes/n0/resume")
    expected = [("ada", "submit", one)]
    expected += [("ada", "netbench", net.json()["id"])] if net.status_code == 201 else []
    expected += [("bob", "calibration", peaks.json()["id"])] if peaks.status_code == 201 else []
    expected += [("bob", "ingest", log.json()["id"])]
    expected += [("ada", "cancel", run["id"]), ("ada", "cancel", one)]
    expected += [("root", f"node {order}", "n0") for order in ("draining", "quarantined", "available")]
    assert people.did() == expected
    assert people.did(target=one) == [("ada", "submit", one), ("ada", "cancel", one)]
    assert people.did(who="ada", target=one) == people.did(target=one)


def test_without_tokens_the_trail_says_local(rig: Rig) -> None:
    made = rig.submit()["id"]
    (deed,) = rig.get("/audit")["items"]
    assert (deed["who"], deed["token_id"], deed["action"], deed["target"]) == ("local", None, "submit", made)
