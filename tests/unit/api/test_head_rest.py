"""HEAD answers what GET would, without the body; and a 405 names all methods of the path."""

import pytest

from tests.unit.api.api_rig import Rig


@pytest.mark.parametrize("path", ["/api/v1/experiments", "/api/v1/runs?limit=0", "/nowhere", "/healthz", "/docs"])
def test_head_answers_the_head_of_get(rig: Rig, path: str) -> None:
    get, head = rig.http.get(path), rig.http.head(path)
    assert (head.status_code, head.headers) == (get.status_code, get.headers)
    assert head.content == b""


def test_the_head_of_a_stream_does_not_wait_for_its_end(rig: Rig) -> None:
    experiment = rig.submit()["id"]
    answer = rig.http.head(f"/api/v1/experiments/{experiment}/events")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_head_of_what_can_only_be_posted_is_refused(rig: Rig) -> None:
    assert rig.http.head("/api/v1/nodes/n0/drain").status_code == 405


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/api/v1/experiments", {"GET", "HEAD", "POST"}),
        ("/api/v1/netbench", {"GET", "HEAD", "POST"}),
        ("/api/v1/runs", {"GET", "HEAD"}),
        ("/api/v1/nodes/n0/drain", {"POST"}),
        ("/healthz", {"GET", "HEAD"}),
        ("/openapi.json", {"GET", "HEAD"}),
    ],
)
def test_a_method_that_a_path_does_not_have_is_refused_with_those_it_has(
    rig: Rig, path: str, methods: set[str]
) -> None:
    answer = rig.http.request("PUT", path)
    assert answer.status_code == 405
    assert set(answer.headers["allow"].split(", ")) >= methods
    assert "PUT" not in answer.headers["allow"]
