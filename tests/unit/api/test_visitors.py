"""Only clients that mean this server are served: no other host's name, and no page of another web site."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from orchestrator.api.server import create_app
from orchestrator.serve.settings import read_settings
from tests.unit.api.api_rig import AS_JSON, SPEC, Rig

PROBLEM = "application/problem+json"
DRAIN = "/api/v1/nodes/n0/drain"


def state_of_n0(rig: Rig) -> str:
    return str(rig.get("/nodes")["items"][0]["state"])


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8585", "localhost.", "127.0.0.1", "127.0.0.1:8585", "127.9.9.9", "[::1]", "[::1]:8585"],
)
def test_loopback_is_served_by_any_of_its_names(rig: Rig, host: str) -> None:
    assert rig.http.get("/api/v1/nodes", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8585",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "localhost@evil.example",
        "evil.example@localhost",
        "localhost,evil.example",
        "192.0.2.1",
        "0.0.0.0",
        "[2001:db8::1]",
        "[::1",
        "::1",
        ":8585",
        "",
    ],
)
def test_a_name_that_is_not_ours_is_not_served(rig: Rig, host: str) -> None:
    answer = rig.http.get("/healthz", headers={"Host": host})
    assert (answer.status_code, answer.headers["content-type"]) == (421, PROBLEM)
    assert "TBD_ALLOWED_HOSTS" in answer.json()["detail"]


def test_a_name_that_the_operator_lists_is_served_and_so_are_those_of_loopback(rig: Rig, tmp_path: Path) -> None:
    names = "TBD.example, 192.0.2.1,[2001:db8::1]"
    settings = read_settings({"TBD_DATA_DIR": str(tmp_path), "TBD_ALLOWED_HOSTS": names})
    with TestClient(create_app(rig.context, settings), "http://localhost") as http:
        for host in ("tbd.example", "tbd.example:443", "192.0.2.1:80", "[2001:db8::1]", "localhost:8585", "[::1]:1"):
            assert http.get("/healthz", headers={"Host": host}).status_code == 200, host
        assert http.get("/healthz", headers={"Host": "other.example"}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "http://evil.example", "Content-Type": "text/plain"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://localhost:3000"},
        {"Origin": "http://localhost.evil.example"},
        {"Origin": "http://localhost@evil.example"},
        {"Origin": "http://localhost/"},
        {"Origin": "https://localhost"},
        {"Origin": "file://localhost"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
    ],
)
def test_a_page_of_another_site_commands_nothing_also_without_a_body(rig: Rig, headers: dict[str, str]) -> None:
    answer = rig.http.post(DRAIN, headers={"Host": "localhost:80"} | headers)
    assert (answer.status_code, answer.headers["content-type"]) == (403, PROBLEM)
    assert "page" in answer.json()["detail"]
    assert state_of_n0(rig) == "available"


@pytest.mark.parametrize(
    ("host", "headers"),
    [
        ("localhost:8585", {"Origin": "http://localhost:8585", "Sec-Fetch-Site": "same-origin"}),
        ("[::1]:8585", {"Origin": "http://[::1]:8585"}),
        ("127.0.0.1", {"Origin": "http://127.0.0.1"}),
        ("localhost:443", {"Origin": "https://localhost"}),
        ("localhost", {"Sec-Fetch-Site": "none"}),
        ("localhost", {}),
    ],
)
def test_our_own_pages_and_programs_are_served(rig: Rig, host: str, headers: dict[str, str]) -> None:
    assert rig.http.post(DRAIN, headers={"Host": host} | headers).status_code == 200
    assert state_of_n0(rig) == "draining"


def test_a_foreign_page_reads_nothing_either_but_a_person_may_follow_its_link(rig: Rig) -> None:
    cross = {"Sec-Fetch-Site": "cross-site"}
    assert rig.http.get("/api/v1/runs", headers=cross).status_code == 403
    assert rig.http.get("/api/v1/runs", headers={"Origin": "http://evil.example"}).status_code == 403
    link = cross | {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert rig.http.get("/docs", headers=link).status_code == 200
    assert rig.http.post(DRAIN, headers=link).status_code == 403  # a form of that page
    assert state_of_n0(rig) == "available"


def test_a_chunked_body_has_a_content_type_as_well(rig: Rig) -> None:
    answer = rig.http.post("/api/v1/experiments", content=iter([b"{}"]), headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


@pytest.mark.parametrize("media_type", ["application/json", "Application/JSON", "application/json; charset=utf-8"])
def test_json_is_taken_however_its_type_is_written(rig: Rig, media_type: str) -> None:
    answer = rig.http.post("/api/v1/experiments", json=SPEC, headers={"Content-Type": media_type})
    assert answer.status_code == 201


def test_a_post_without_a_body_needs_no_content_type(rig: Rig) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}  # what curl -X POST -d '' says
    assert rig.http.post(DRAIN, headers=form).status_code == 200
    assert rig.http.post(DRAIN).status_code == 200
    assert rig.http.post("/api/v1/experiments", headers=AS_JSON).status_code == 400
