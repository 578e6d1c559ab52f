"""Forms: what they do is what REST does, once, and only with the secret of whoever was shown them."""

import re
from html import unescape
from typing import Any

import pytest

from tests.unit.api.api_rig import Rig
from tests.unit.web.test_web_pages import AS_BROWSER

YAML = "name: from-a-page\nmodel: net\nframework: pytorch\nper_device_batch_size: [4, 8]\nrepeats: 2\n"


def fields_of(html: str) -> dict[str, str]:
    """The hidden fields of the last form of a page."""
    last = html[html.rindex("<form") :]
    return {name: unescape(text) for name, text in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', last)}


def send(rig: Rig, path: str, page: str | None = None, **fields: str) -> Any:
    """The answer to the form of ``page`` (by default the page itself), with these fields."""
    hidden = fields_of(rig.http.get(page or path, headers=AS_BROWSER).text)
    return rig.http.post(path, data=hidden | fields, headers=AS_BROWSER, follow_redirects=False)


def test_a_spec_is_refused_line_by_line_then_expanded_then_submitted_once(rig: Rig) -> None:
    wrong = send(rig, "/new", spec=YAML.replace("net", "nett"), order="check")
    assert wrong.status_code == 422
    assert "line 2: model" in wrong.text
    assert "nett" in wrong.text.partition("<textarea")[2]  # what was typed stays
    misspelt = YAML.replace("repeats", "repeets")
    odd = (("a: [\n", "line 2:1"), ("", "empty"), ("a: 1\na: 2\n", "line 2: a stands on line 1"))
    for text, says in ((misspelt, "line 5: repeets"), *odd):
        assert says in send(rig, "/new", spec=text, order="check").text
    checked = send(rig, "/new", spec=YAML, order="check")
    assert checked.status_code == 200
    assert "4 runs; at most" in checked.text
    assert "curl -sS http://localhost/api/v1/experiments" in checked.text
    assert rig.get("/experiments")["items"] == []
    sent = fields_of(checked.text) | {"spec": YAML, "order": "submit"}
    answers = [rig.http.post("/new", data=sent, headers=AS_BROWSER, follow_redirects=False) for _ in range(2)]
    (made,) = rig.get("/experiments")["items"]
    assert {(one.status_code, one.headers["location"]) for one in answers} == {(303, f"/experiments/{made['id']}")}


def test_an_experiment_is_paused_resumed_extended_and_cancelled(rig: Rig) -> None:
    made = rig.submit()["id"]
    path = f"/experiments/{made}"
    for order, field in (("pause", "paused"), ("resume", "paused"), ("cancel", "cancel_requested")):
        if order == "cancel":
            form = rig.http.get(f"/new?extend={made}", headers=AS_BROWSER).text
            spec = unescape(form.partition("<textarea")[2].partition(">\n")[2].partition("</textarea>")[0])
            more = {**fields_of(form), "spec": spec.replace("repeats: 3", "repeats: 4"), "order": "submit"}
            assert rig.http.post("/new", data=more, follow_redirects=False).headers["location"] == path
            assert rig.get(path)["run_counts"]["queued"] == 4
        assert send(rig, path, order=order).headers["location"] == path
        assert rig.get(path)[field] is (order != "resume")


def test_nodes_and_schedules_and_runs_take_orders(rig: Rig) -> None:
    assert send(rig, "/nodes", node="n0", order="drain").status_code == 303
    assert rig.get("/nodes")["items"][0]["state"] == "draining"
    spec = {"name": "nightly", "model": "net", "framework": "pytorch", "per_device_batch_size": 4}
    made = rig.http.post("/api/v1/schedules", json={"name": "nightly", "cron": "0 2 * * *", "spec": spec}).json()
    path = f"/schedules/{made['id']}"
    assert send(rig, path, order="pause").status_code == 303
    assert rig.get(path)["paused"] is True
    assert send(rig, path, order="run").headers["location"].startswith("/experiments/exp_")
    run = rig.get("/runs")["items"][0]
    assert send(rig, f"/runs/{run['id']}").status_code == 303
    assert rig.get(f"/runs/{run['id']}")["cancel_requested"]


@pytest.mark.parametrize("secret", [None, "", "0" * 64])
def test_a_form_without_its_secret_does_nothing(rig: Rig, secret: str | None) -> None:
    made = rig.submit()["id"]
    sent = {"order": "cancel"} | ({} if secret is None else {"secret": secret})
    answer = rig.http.post(f"/experiments/{made}", data=sent, headers=AS_BROWSER)
    assert answer.status_code == 403
    assert "not of this session" in answer.text
    assert not rig.get(f"/experiments/{made}")["cancel_requested"]


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_a_form_of_another_site_does_nothing_even_with_the_secret(rig: Rig, headers: dict[str, str]) -> None:
    made = rig.submit()["id"]
    sent = fields_of(rig.http.get(f"/experiments/{made}", headers=AS_BROWSER).text) | {"order": "cancel"}
    answer = rig.http.post(f"/experiments/{made}", data=sent, headers=AS_BROWSER | headers)
    assert answer.status_code == 403
    assert not rig.get(f"/experiments/{made}")["cancel_requested"]


def test_only_forms_are_taken(rig: Rig) -> None:
    made = rig.submit()["id"]
    assert rig.http.post(f"/experiments/{made}", json={"order": "cancel"}).status_code == 403
    assert rig.http.post(f"/experiments/{made}").status_code == 403
    many = {f"field{number}": "" for number in range(300)}
    assert rig.http.post(f"/experiments/{made}", data=many).status_code == 403


def test_where_nobody_signs_in_no_cookie_chooses_the_secret_of_a_form(rig: Rig) -> None:
    usual = fields_of(rig.http.get("/new", headers=AS_BROWSER).text)["secret"]
    cookie = {"Cookie": f"tbd-session=ses_{'0' * 20}_{'0' * 64}"}
    assert fields_of(rig.http.get("/new", headers=AS_BROWSER | cookie).text)["secret"] == usual
