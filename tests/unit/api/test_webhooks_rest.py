"""REST: webhooks. What is sent, and what the store promises of it: tests/integration/test_webhooks.py."""

import json
from typing import Any

import pytest

from orchestrator.services.gate.webhooks import MOST_WEBHOOKS
from tests.unit.api.api_rig import Rig
from tests.unit.api.test_access_rest import add as add_token
from tests.unit.api.test_access_rest import bearing

URL = "https://chat.example/hooks/1?room=a"
PATH = "/api/v1/webhooks"


def added(rig: Rig, url: str = URL, status: int = 201) -> Any:
    answer = rig.http.post(PATH, json={"url": url})
    assert answer.status_code == status, answer.text
    return answer.json()


def test_the_secret_is_told_once(rig: Rig) -> None:
    made = added(rig)
    assert made["secret"].startswith("whsec_")
    assert added(rig)["secret"] != made["secret"]
    page = rig.get("/webhooks")
    assert {"id": made["id"], "url": URL, "n_waiting": 0, "last_at": None}.items() <= page["items"][1].items()
    assert "whsec" not in json.dumps(page)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("chat.example", "a URL of http or https"),
        ("file:///etc/passwd", "apprise knows no file:// of that form"),
        ("slack://", "apprise knows no slack:// of that form"),
        ("syslog://", "on this server alone"),
        ("http:///hook", "a URL of http or https"),
        ("http://h:0/", "a URL of http or https"),
        ("http://h:99999/", "no URL"),
        ("http://[::1/", "no URL"),
        ("http://h/\r\nHost: x", "control character"),
        ("http://ada:secret@h/", "leave them out"),
        ("http://h/#here", "leave them out"),
        (f"http://h/{'x' * 2000}", "2000"),
    ],
)
def test_an_address_to_which_nothing_can_be_sent_is_refused_with_why(rig: Rig, url: str, why: str) -> None:
    (error,) = added(rig, url, 422)["errors"]
    assert error["pointer"] == "/url"
    assert why in error["detail"]


@pytest.mark.parametrize("url", ["mailto://ada:pass@mail.example", "tgram://123456789:abcdefg_hijklmnop/12315544/"])
def test_of_e_mail_and_chats_the_address_is_the_secret(rig: Rig, url: str) -> None:
    made, shown = added(rig, url), f"{url.partition(':')[0]}://…"
    assert (made["url"], made["secret"]) == (shown, "")
    assert [one["url"] for one in rig.get("/webhooks")["items"]] == [shown]


def test_what_is_of_https_is_signed_however_it_is_written(rig: Rig) -> None:
    assert added(rig, "HTTPS://chat.example/1")["secret"].startswith("whsec_")


def test_there_is_a_limit_and_what_was_removed_makes_room(rig: Rig) -> None:
    made = [added(rig)["id"] for _ in range(MOST_WEBHOOKS)]
    assert "tbd webhooks rm" in added(rig, status=409)["detail"]
    assert rig.http.delete(f"{PATH}/{made[0]}").status_code == 204
    assert rig.http.delete(f"{PATH}/{made[0]}").status_code == 404
    added(rig)


def test_a_test_waits_for_that_webhook_alone(rig: Rig) -> None:
    first, second = added(rig)["id"], added(rig)["id"]
    wakes = rig.wakes
    answer = rig.http.post(f"{PATH}/{first}/test")
    assert answer.status_code == 202
    assert answer.json()["message_id"].startswith("msg_")
    assert rig.wakes == wakes + 1
    assert {one["id"]: one["n_waiting"] for one in rig.get("/webhooks")["items"]} == {first: 1, second: 0}
    assert rig.http.post(f"{PATH}/nobody/test").status_code == 404


def test_only_an_admin_adds_sees_tests_or_removes_a_webhook(rig: Rig) -> None:
    made = added(rig)["id"]
    headers = bearing(add_token(rig, "submit"))
    asked = (("POST", PATH), ("GET", PATH), ("DELETE", f"{PATH}/{made}"), ("POST", f"{PATH}/{made}/test"))
    for method, path in asked:
        body = {"url": URL} if (method, path) == ("POST", PATH) else None
        assert rig.http.request(method, path, json=body, headers=headers).status_code == 403
    admin = bearing(add_token(rig, "admin"))
    (kept,) = rig.http.get(PATH, headers=admin).json()["items"]
    assert (kept["id"], kept["n_waiting"]) == (made, 0)
