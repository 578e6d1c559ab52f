"""Signing in: a token becomes a session, which opens pages and no more, and which ends with its token."""

from typing import Any

import pytest

from orchestrator.api.door.access import PAGES, WRONG_BURST
from orchestrator.domain.around.access import Scope
from orchestrator.services import tokens
from orchestrator.services.tokens import MOST_SESSIONS, SESSION_S
from orchestrator.web.site import paths
from tests.unit.api.api_rig import SPEC, Rig
from tests.unit.api.test_access_rest import ROOT, add, bearing
from tests.unit.web.test_web_forms import fields_of
from tests.unit.web.test_web_pages import AS_BROWSER

COOKIE = "tbd-session"


def sign_in(rig: Rig, text: str, **more: str) -> Any:
    return rig.http.post("/login", data={"token": text, **more}, headers=AS_BROWSER, follow_redirects=False)


def status(rig: Rig, path: str = "/runs") -> int:
    return int(rig.http.get(path, headers=AS_BROWSER, follow_redirects=False).status_code)


def later(rig: Rig, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = rig.context.clock.now() + seconds
    monkeypatch.setattr(rig.context.clock, "now", lambda: now)
    rig.app.state.gate.forget()


@pytest.fixture
def closed(rig: Rig) -> Rig:
    """A server of which somebody has a token of scope submit, in ``rig.token``."""
    rig.token = add(rig, "submit")  # type: ignore[attr-defined]
    return rig


def test_who_has_not_signed_in_is_led_there_and_back(closed: Rig) -> None:
    answer = closed.http.get("/runs?state=failed", headers=AS_BROWSER, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2Fruns%3Fstate%3Dfailed")
    assert 'value="/runs?state=failed"' in closed.http.get(answer.headers["location"], headers=AS_BROWSER).text
    signed = sign_in(closed, closed.token, next="/runs?state=failed")  # type: ignore[attr-defined]
    assert (signed.status_code, signed.headers["location"]) == (303, "/runs?state=failed")
    assert status(closed, "/runs?state=failed") == 200
    assert "ada" in closed.http.get("/", headers=AS_BROWSER).text


@pytest.mark.parametrize("to", ["//evil.example", "/\\evil.example", "https://evil.example", "runs", "/a\nb"])
def test_signing_in_leads_to_no_other_site(closed: Rig, to: str) -> None:
    assert sign_in(closed, closed.token, next=to).headers["location"] == "/"  # type: ignore[attr-defined]


def test_the_cookie_is_for_this_site_alone_and_the_database_has_no_secret(closed: Rig) -> None:
    cookie = sign_in(closed, closed.token).headers["set-cookie"]  # type: ignore[attr-defined]
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert "Secure" not in cookie
    (session,) = closed.store.sessions(0.0)
    assert session.secret_sha256 not in cookie
    assert cookie.partition("=")[2].partition(";")[0].rpartition("_")[2] not in repr(session)
    assert ("ada", "sign in") in [(one.who, one.action) for one in closed.store.deeds().items]
    closed.http.base_url = "https://localhost:8585"  # type: ignore[assignment]
    secure = sign_in(closed, closed.token).headers["set-cookie"]  # type: ignore[attr-defined]
    assert secure.startswith("__Host-tbd-8585=")
    assert "Secure" in secure.split("; ")


def test_a_session_opens_pages_and_of_rest_what_only_looks(closed: Rig) -> None:
    sign_in(closed, closed.token)  # type: ignore[attr-defined]
    assert status(closed, "/experiments") == 200
    assert closed.http.get("/api/v1/runs").status_code == 200
    assert closed.http.post("/api/v1/experiments", json=SPEC).status_code == 401
    assert closed.http.get("/api/v1/runs", headers=bearing("wrong")).status_code == 401  # a token comes first
    form = fields_of(closed.http.get("/new", headers=AS_BROWSER).text)
    sent = form | {"spec": "\n".join(f"{name}: {value}" for name, value in SPEC.items()), "order": "submit"}
    made = closed.http.post("/new", data=sent, headers=AS_BROWSER, follow_redirects=False)
    assert made.status_code == 303
    assert closed.http.get("/api/v1/experiments").json()["items"][0]["owner"] == "ada"


def test_a_form_of_one_session_is_refused_in_another(closed: Rig) -> None:
    sign_in(closed, closed.token)  # type: ignore[attr-defined]
    form = fields_of(closed.http.get("/new", headers=AS_BROWSER).text)
    sign_in(closed, closed.token)  # type: ignore[attr-defined]
    assert closed.http.post("/new", data=form | {"spec": "a: 1"}, headers=AS_BROWSER).status_code == 403


@pytest.mark.parametrize("scope", list(Scope))
def test_each_scope_reaches_what_the_line_of_a_page_says(rig: Rig, scope: Scope) -> None:
    sign_in(rig, add(rig, scope.value))
    secret = fields_of(rig.http.get("/", headers=AS_BROWSER).text)["secret"]
    for (method, path), needed in sorted(PAGES.items()):
        if path == "/logout":
            continue
        whole = path.format(experiment_id="e", run_id="r", series="s", schedule_id="s")
        data = {"secret": secret, "order": "run", "node": "nowhere"} if method == "POST" else None
        answer = rig.http.request(method, whole, data=data, headers=AS_BROWSER, follow_redirects=False)
        assert (answer.status_code == 403) is not scope.covers(needed), (method, path, answer.text)
        assert answer.status_code < 500


def test_a_page_without_a_line_keeps_the_server_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(PAGES, ("GET", "/runs"))  # type: ignore[arg-type]
    paths.cache_clear()
    with pytest.raises(AssertionError, match="PAGES"):
        paths()


def test_a_session_ends_with_its_token_at_its_time_and_when_somebody_signs_out(
    closed: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    sign_in(closed, closed.token)  # type: ignore[attr-defined]
    secret = fields_of(closed.http.get("/", headers=AS_BROWSER).text)["secret"]
    stolen = {"Cookie": f"{COOKIE}={closed.http.cookies[COOKIE]}"}
    out = closed.http.post("/logout", data={"secret": secret}, headers=AS_BROWSER, follow_redirects=False)
    assert out.headers["location"] == "/login"
    assert status(closed) == 303
    assert closed.http.get("/api/v1/runs", headers=stolen).status_code == 401  # who kept it has nothing of it
    sign_in(closed, closed.token)  # type: ignore[attr-defined]
    assert status(closed) == 200
    tokens.revoke(closed.store, closed.context.clock, "ada-submit", ROOT)
    closed.app.state.gate.forget()
    assert status(closed) == 303
    sign_in(closed, add(closed, "read", "bob", expires_days=None))
    assert status(closed) == 200
    later(closed, monkeypatch, SESSION_S + 1)
    assert status(closed) == 303
    assert closed.http.get("/api/v1/runs").status_code == 401


@pytest.mark.parametrize("text", ["", "nonsense", "ses_" + "0" * 20 + "_" + "0" * 64, "\x00"])
def test_what_is_no_cookie_of_ours_opens_nothing(closed: Rig, text: str) -> None:
    headers = AS_BROWSER | {"Cookie": f"{COOKIE}={text}"}
    assert closed.http.get("/runs", headers=headers, follow_redirects=False).status_code == 303


def test_a_secret_of_another_session_opens_nothing(closed: Rig) -> None:
    sign_in(closed, closed.token)  # type: ignore[attr-defined]
    text = closed.http.cookies[COOKIE]
    closed.http.cookies.clear()
    closed.http.cookies.set(COOKIE, text[:-1] + ("0" if text[-1] != "0" else "1"))
    assert status(closed) == 303


def test_wrong_tokens_are_refused_alike_and_slowed_down(closed: Rig) -> None:
    answers = [sign_in(closed, "wrong") for _ in range(int(WRONG_BURST) + 1)]
    assert [one.status_code for one in answers] == [401] * int(WRONG_BURST) + [429]
    assert "not known here" in answers[0].text
    assert "set-cookie" not in answers[0].headers
    assert sign_in(closed, closed.token).status_code == 303  # type: ignore[attr-defined]


def test_a_token_has_so_many_sessions_and_no_more(closed: Rig) -> None:
    for _ in range(MOST_SESSIONS + 3):
        sign_in(closed, closed.token)  # type: ignore[attr-defined]
    assert len(closed.store.sessions(0.0)) == MOST_SESSIONS
    assert status(closed) == 200  # the newest is there


def test_where_nobody_needs_a_token_nobody_signs_in(rig: Rig) -> None:
    assert status(rig) == 200
    assert "No token is needed" in rig.http.get("/login", headers=AS_BROWSER).text
    assert sign_in(rig, "anything").headers["location"] == "/"
    assert rig.store.sessions(0.0) == []


def test_who_follows_a_link_from_another_site_is_still_signed_in(closed: Rig) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    answer = closed.http.get("/runs?a=1&b=2", headers=AS_BROWSER | link)
    assert answer.status_code == 200
    assert 'http-equiv="refresh" content="0; url=http://localhost/runs?a=1&amp;b=2"' in answer.text
