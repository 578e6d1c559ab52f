"""The door of REST: who comes in, and what each scope reaches."""

import logging
import re
from typing import Any

import pytest

from orchestrator.api.door.access import NEEDED, OPEN, WRONG_BURST, check_scopes, routes_of
from orchestrator.api.door.careful_headers import HEADERS
from orchestrator.api.routers import runs
from orchestrator.api.routers.operate import health
from orchestrator.domain.around.access import Actor, Scope
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.words.errors import StoreUnavailable
from orchestrator.services import tokens
from tests.unit.api.api_rig import AS_LOG, SPEC, Rig

ROOT = Actor("root", Scope.ADMIN, None, "(database)")
BODIES = {"/experiments": SPEC, "/predictions": SPEC, "/tokens": {"name": "new"}, "/netbench": {}, "/calibrations": {}}
BODIES |= {"/compare": {"baseline": "exp_nobody", "candidate": "exp_nobody"}}
BODIES |= {"/experiments/{experiment_id}/extend": SPEC, "/schedules": {}, "/schedules/{schedule_id}": {}}
BODIES |= {"/webhooks": {"url": "https://chat.example/"}}


def add(rig: Rig, scope: str, owner: str = "ada", **more: Any) -> str:
    """The text of a new token, known to the server at once."""
    body = {"name": f"{owner}-{scope}", "scope": scope, "owner": owner} | more
    text = tokens.add(rig.store, rig.context.clock, body, ROOT)[1]
    rig.app.state.gate.forget()
    return text


def bearing(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}


def ask(rig: Rig, method: str, path: str, text: str | None = None) -> Any:
    """The answer to a request for a thing that is not there, by a token or without."""
    filled = re.sub(r"\{\w+\}", "nobody", path)
    body = BODIES.get(path) if method in ("POST", "PATCH") else None
    headers = bearing(text) if text else {}
    if path == "/ingest":
        return rig.http.post("/api/v1/ingest", content=b"{}\n", headers=headers | AS_LOG)
    if (method, path) == ("POST", "/imports"):
        tar = {"Content-Type": "application/x-tar"}
        return rig.http.post("/api/v1/imports", params={"tool": "milabench"}, content=b"-", headers=headers | tar)
    return rig.http.request(method, f"/api/v1{filled}", json=body, headers=headers)


@pytest.fixture
def closed(rig: Rig) -> Rig:
    """A server for which there was a token once."""
    add(rig, "admin", "somebody")
    return rig


def test_every_route_needs_a_scope_or_is_open(rig: Rig) -> None:
    described = rig.app.openapi()["paths"]
    there = {(method.upper(), path) for path, operations in described.items() for method in operations}
    assert {(m, p) for m, p in there if p.startswith("/api/v1")} == {(m, f"/api/v1{p}") for m, p in NEEDED}
    assert {p for _, p in there if not p.startswith("/api/v1")} <= OPEN
    for (method, path), scope in NEEDED.items():
        assert described[f"/api/v1{path}"][method.lower()]["security"] == [{"bearer": [scope.value]}]


def test_a_route_without_a_scope_keeps_the_server_from_starting() -> None:
    with pytest.raises(AssertionError, match="NEEDED"):
        check_scopes([runs.router, health.router])
    assert ("GET", "/healthz") in routes_of([health.router])


def test_nothing_is_shown_or_done_without_a_token(closed: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestrator.api.door.rate_limit.Buckets.take", lambda *_: 0.0)
    for method, path in sorted(NEEDED):
        answer = ask(closed, method, path)
        assert answer.status_code == 401, (method, path)
        assert answer.headers["WWW-Authenticate"] == 'Bearer realm="tbd"'
        assert "TBD_TOKEN" in answer.json()["detail"]


@pytest.mark.parametrize("scope", list(Scope))
def test_each_scope_reaches_what_its_line_says_and_no_more(rig: Rig, scope: Scope) -> None:
    text = add(rig, scope.value)
    for (method, path), needed in sorted(NEEDED.items()):
        answer = ask(rig, method, path, text)
        if scope.covers(needed):
            assert answer.status_code in (200, 201, 404, 422), (method, path, answer.text)
        else:
            assert answer.status_code == 403, (method, path, answer.text)
            assert f"scope {needed}" in answer.json()["detail"]


def test_what_is_no_route_is_not_told_without_a_token_either(closed: Rig) -> None:
    for method, path in (("GET", "/nothing"), ("PATCH", "/api/v1/runs"), ("OPTIONS", "/api/v1/runs"), ("GET", "/")):
        assert closed.http.request(method, path).status_code == 401
    assert closed.http.head("/api/v1/runs").status_code == 401


def test_health_and_the_description_stay_open(closed: Rig) -> None:
    assert {path: closed.http.get(path).status_code for path in OPEN} == dict.fromkeys(OPEN, 200)


def test_without_tokens_everybody_on_this_machine_may_do_everything(rig: Rig) -> None:
    assert rig.submit()["owner"] == "local"
    assert rig.http.post("/api/v1/nodes/n0/drain").status_code == 200
    assert rig.http.get("/api/v1/runs", headers=bearing("nonsense")).status_code == 200


def test_an_unknown_token_and_a_wrong_secret_are_told_alike(closed: Rig) -> None:
    text = add(closed, "read")
    unknown = text[:-65][:-1] + "z" + text[-65:]
    wrong = text[:-1] + ("0" if text[-1] != "0" else "1")
    answers = [closed.http.get("/api/v1/runs", headers=bearing(one)) for one in (unknown, wrong, "", "nonsense")]
    assert {one.status_code for one in answers} == {401}
    assert len({one.json()["detail"] for one in answers}) == 1


@pytest.mark.parametrize("header", ["", "Bearer", "Basic dXNlcjpwYXNz", "Token {text}", "{text}", "Bearer {text} x"])
def test_only_a_bearer_token_counts(closed: Rig, header: str) -> None:
    text = add(closed, "read")
    sent = {"Authorization": header.format(text=text)}
    assert closed.http.get("/api/v1/runs", headers=sent).status_code == 401
    assert closed.http.get("/api/v1/runs", headers={"Authorization": f"bEaReR {text}"}).status_code == 200


def test_two_tokens_in_one_request_are_none(closed: Rig) -> None:
    text = add(closed, "read")
    twice = [("Authorization", f"Bearer {text}"), ("Authorization", f"Bearer {text}")]
    assert closed.http.get("/api/v1/runs", headers=twice).status_code == 401


def test_a_token_in_the_url_is_refused(closed: Rig) -> None:
    text = add(closed, "read")
    assert closed.http.get("/api/v1/runs", params={"access_token": text}).status_code == 401
    answer = closed.http.get("/api/v1/runs", params={"token": text}, headers=bearing(text))
    assert answer.status_code == 422
    assert text not in answer.text


def test_an_expired_and_a_revoked_token_are_named(closed: Rig) -> None:
    short = add(closed, "read", "bob", expires_days=1e-9)
    gone = add(closed, "read", "eve")
    tokens.revoke(closed.store, closed.context.clock, "eve-read", ROOT)
    closed.app.state.gate.forget()
    for text, word in ((short, "bob-read"), (gone, "eve-read")):
        answer = closed.http.get("/api/v1/runs", headers=bearing(text))
        assert answer.status_code == 401
        assert word in answer.json()["detail"]
        assert re.search("is (expired|revoked): ask for a new one", answer.json()["detail"])


def test_revoking_the_last_token_opens_nothing(rig: Rig) -> None:
    text = add(rig, "admin")
    assert rig.http.get("/api/v1/runs", headers=bearing(text)).status_code == 200
    rig.http.post("/api/v1/tokens/ada-admin/revoke", headers=bearing(text))
    assert rig.http.get("/api/v1/runs", headers=bearing(text)).status_code == 401
    assert rig.http.get("/api/v1/runs").status_code == 401


def test_a_database_that_is_replaced_by_an_empty_one_opens_nothing(
    closed: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert closed.http.get("/api/v1/runs").status_code == 401
    monkeypatch.setattr(closed.store, "all_tokens", lambda: Page([]))
    closed.app.state.gate.forget()
    assert closed.http.get("/api/v1/runs").status_code == 401


def test_while_nobody_can_tell_who_asks_nobody_is_let_in(closed: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    text = add(closed, "admin")

    def away() -> None:
        raise StoreUnavailable("the database does not answer")

    monkeypatch.setattr(closed.store, "all_tokens", away)
    for headers in (bearing(text), {}):  # at the first request, too: nothing was looked at before
        answer = closed.http.get("/api/v1/models", headers=headers)
        assert answer.status_code == 503
        assert answer.headers["Retry-After"]


def test_tokens_are_made_listed_and_revoked_over_rest(closed: Rig) -> None:
    root = bearing(add(closed, "admin", "root"))
    made = closed.http.post("/api/v1/tokens", json={"name": "ci", "scope": "read", "expires_days": None}, headers=root)
    assert made.status_code == 201
    new = made.json()
    assert (new["name"], new["owner"], new["scope"], new["state"], new["expires_at"]) == (
        "ci", "ci", "read", "usable", None,
    )  # fmt: skip
    assert closed.http.get("/api/v1/runs", headers=bearing(new["token"])).status_code == 200
    listed = closed.http.get("/api/v1/tokens", headers=root)
    assert [one["name"] for one in listed.json()["items"]] == ["ci", "root-admin", "somebody-admin"]
    assert "token" not in listed.json()["items"][0]
    assert new["token"] not in listed.text
    gone = closed.http.post(f"/api/v1/tokens/{new['id']}/revoke", headers=root)
    assert gone.json()["state"] == "revoked"
    assert closed.http.get("/api/v1/runs", headers=bearing(new["token"])).status_code == 401
    audit = closed.http.get("/api/v1/audit", params={"target": new["id"]}, headers=root).json()["items"]
    assert [(one["who"], one["action"]) for one in audit] == [("root", "token revoke"), ("root", "token add read")]
    assert audit[0]["token_id"] == listed.json()["items"][1]["id"]
    assert audit[0]["address"] == "testclient"


def test_a_damaged_token_admits_nobody_and_opens_nothing(closed: Rig) -> None:
    text = add(closed, "admin")
    closed.store.database.write(lambda connection: connection.exec_driver_sql("UPDATE token SET scope = 'root'"))
    closed.app.state.gate.forget()
    for headers in (bearing(text), {}):  # although no token can be read any more
        assert closed.http.get("/api/v1/runs", headers=headers).status_code == 401


def test_wrong_tokens_are_slowed_down_and_right_ones_are_not(closed: Rig) -> None:
    text = add(closed, "read")
    statuses = [closed.http.get("/api/v1/models").status_code for _ in range(int(WRONG_BURST) + 3)]
    assert statuses[: int(WRONG_BURST)] == [401] * int(WRONG_BURST)
    assert statuses[-1] == 429
    assert closed.http.get("/api/v1/models", headers=bearing(text)).status_code == 200


def test_one_token_asks_so_often_and_another_one_goes_on(rig: Rig) -> None:
    text, other = add(rig, "read"), add(rig, "read", "bob")
    for _ in range(5000):
        answer = rig.http.get("/api/v1/nothing", headers=bearing(text))
        if answer.status_code == 429:
            break
    assert answer.status_code == 429
    assert int(answer.headers["Retry-After"]) >= 1
    assert rig.http.get("/api/v1/models", headers=bearing(other)).status_code == 200


def test_without_tokens_nobody_is_held_back(rig: Rig) -> None:
    assert {rig.http.get("/api/v1/nothing").status_code for _ in range(400)} == {404}


def test_refusals_are_in_the_log_and_no_token_is(closed: Rig, caplog: pytest.LogCaptureFixture) -> None:
    text = add(closed, "read")
    wrong = text[:-4] + "0000"
    with caplog.at_level(logging.DEBUG):
        closed.http.get("/api/v1/runs%0A2026", headers=bearing(wrong))
        closed.http.post("/api/v1/experiments", json=SPEC, headers=bearing(text))
        closed.http.get("/api/v1/runs", headers=bearing(text))
    told = [record.getMessage() for record in caplog.records if record.name == "orchestrator.api.door.access"]
    assert re.match(r"refused: GET /api/v1/runs\\x0a2026 from testclient: this token is not known", told[0])
    assert re.match(r"refused: POST /api/v1/experiments from testclient: ada \(read\) may not", told[1])
    assert len(told) == 2
    assert text[-64:] not in caplog.text
    assert wrong[-64:] not in caplog.text


def test_every_answer_has_careful_headers_and_none_lets_other_pages_in(closed: Rig) -> None:
    text = add(closed, "read")
    answers = [
        closed.http.get("/docs"),
        closed.http.get("/api/v1/runs"),
        closed.http.get("/api/v1/runs", headers=bearing(text)),
        closed.http.get("/api/v1/runs", headers=bearing(text) | {"Origin": "http://evil.example"}),
        closed.http.get("/api/v1/runs", headers={"Host": "evil.example"}),
        closed.http.options("/api/v1/runs", headers={"Origin": "http://localhost"}),
    ]
    assert [one.status_code for one in answers] == [200, 401, 200, 403, 421, 401]
    for one in answers:
        assert {name: one.headers[name] for name in HEADERS} == HEADERS
        assert one.headers["Cache-Control"] == "no-store"
        assert not [name for name in one.headers if name.startswith("access-control")]


def test_the_last_use_of_a_token_is_noted_to_the_minute(rig: Rig) -> None:
    text = add(rig, "admin")
    for _ in range(2):
        rig.http.get("/api/v1/runs", headers=bearing(text))
        rig.app.state.gate.forget()
    (listed,) = rig.http.get("/api/v1/tokens", headers=bearing(text)).json()["items"]
    assert listed["last_used_at"] is not None
