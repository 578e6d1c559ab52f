"""What all routes refuse alike, each as a problem document: one walk over what the description names."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from tests.support.openapi_changes import description
from tests.unit.api.api_rig import MAX_BODY_BYTES, SPEC, Rig

PROBLEM = "application/problem+json"
NIGHTLY = {"name": "nightly", "cron": "0 2 * * *", "timezone": "Europe/Berlin", "spec": SPEC}
WITH_MORE = {"/api/v1/netbench", "/api/v1/calibrations", "/api/v1/imports"}


class Route(NamedTuple):
    """An operation; ``body`` is one that it takes, ``media`` the first type that it takes it in."""

    method: str
    path: str
    parameters: Mapping[tuple[str, str], Mapping[str, Any]]
    media: str | None
    body: Any


def routes() -> Iterator[Route]:
    for path, operations in description()["paths"].items():
        for method, operation in operations.items():
            parameters = {(one["in"], one["name"]): one["schema"] for one in operation.get("parameters", ())}
            content = operation.get("requestBody", {}).get("content", {})
            media = next(iter(content), None)
            body = content.get(media, {}).get("example")
            if body and "spec" in body:  # its model is not in the catalog of the rig
                body = NIGHTLY
            elif body and "model" in body:
                body = SPEC
            yield Route(method.upper(), path, parameters, media, body)


ROUTES = list(routes())
OURS = [one for one in ROUTES if one.path.startswith("/api/v1")]
PAGES = [Route("GET", path, {}, None, None) for path in ("/docs", "/openapi.json", "/nowhere", "/")]
READ = [one for one in ROUTES if one.method == "GET"]
PAGED = [one for one in READ if ("query", "cursor") in one.parameters]
IN_JSON = [one for one in ROUTES if one.media == "application/json"]
# Before it looks at its key, the others need a model or a tool that is not there.
ORDERS = [one for one in ROUTES if ("header", "Idempotency-Key") in one.parameters and one.path not in WITH_MORE]
OF_A_THING = [one for one in OURS if "{" in one.path]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    made = Rig(tmp_path_factory.mktemp("refusals"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def things(rig: Rig) -> dict[str, str]:
    """What the names in paths stand for: a run that has begun, its experiment, a schedule, a node."""
    experiment = rig.submit()["id"]
    run = rig.get(f"/experiments/{experiment}/runs")["items"][0]["id"]
    rig.start(run)
    schedule = rig.http.post("/api/v1/schedules", json=NIGHTLY).json()["id"]
    return {"experiment_id": experiment, "run_id": run, "schedule_id": schedule, "name": "n0"}


def ask(rig: Rig, route: Route, things: Mapping[str, str] | None = None, **more: Any) -> Any:
    """The answer of a route; what ``things`` does not name does not exist."""
    path = re.sub(r"\{(\w+)\}", lambda found: (things or {}).get(found[1], "nobody"), route.path)
    if not {"content", "json"} & more.keys() and route.media:
        more |= {"json": route.body} if route.body else {"content": b"-"}
    headers = {"Content-Type": route.media} | more.pop("headers", {})
    headers = {name: value for name, value in headers.items() if value is not None}
    return rig.http.request(route.method, path, headers=headers, **more)


def is_refused(answer: Any, status: int, kind: str = "") -> str:
    """What is wrong with a refusal; nothing where it is as it has to be."""
    told = f"{answer.request.method} {answer.request.url}: {answer.status_code} {answer.text[:200]}"
    if answer.status_code != status or answer.headers["content-type"] != PROBLEM:
        return told
    document = answer.json()
    whole = {"type", "title", "status", "detail", "instance", "errors"} <= set(document) and document["detail"]
    return "" if whole and document["status"] == status and document["type"].endswith(kind) else told


def refused(routes: list[Route], asked: Callable[[Route], Any], status: int, kind: str = "") -> None:
    assert routes
    assert [told for one in routes if (told := is_refused(asked(one), status, kind))] == []


def test_a_thing_that_is_not_there(rig: Rig) -> None:
    refused(OF_A_THING, lambda route: ask(rig, route), 404)


@pytest.mark.parametrize("content", [b"[]", b"3", b'"x"', b"null"])
def test_a_body_that_is_no_object(rig: Rig, things: dict[str, str], content: bytes) -> None:
    refused(IN_JSON, lambda route: ask(rig, route, things, content=content), 422)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b'{"name": NaN}', b"\xff\xfe", b"[" * 9_000, b'{"name": "a", "name": "b"}', b'{"a":' * 3_000],
    ids=["empty", "cut short", "NaN", "no UTF-8", "deep lists", "a key twice", "deep objects"],
)
def test_a_body_that_is_no_json(rig: Rig, things: dict[str, str], content: bytes) -> None:
    refused(IN_JSON, lambda route: ask(rig, route, things, content=content), 400)


def test_a_body_over_the_limit(rig: Rig, things: dict[str, str]) -> None:
    refused(IN_JSON, lambda route: ask(rig, route, things, content=b"x" * (MAX_BODY_BYTES + 1)), 413)


def test_a_key_that_a_body_does_not_have_is_pointed_at(rig: Rig, things: dict[str, str]) -> None:
    refused(IN_JSON, lambda route: ask(rig, route, things, json=route.body | {"colour": "blue"}), 422)
    for route in IN_JSON:
        answer = ask(rig, route, things, json=route.body | {"colour": "blue"})
        assert "/colour" in [one["pointer"] for one in answer.json()["errors"]], route.path


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "a/jsonx", "", None]
)
def test_a_body_of_another_type(rig: Rig, things: dict[str, str], media: str | None) -> None:
    for route in OURS:
        if route.method in ("POST", "PATCH"):
            answer = ask(rig, route, things, content=b"{}", headers={"Content-Type": media})
            assert is_refused(answer, 415) == ""
            named = route.media or "application/json"
            assert f"'Content-Type: {named}'" in answer.json()["detail"]
            assert named in answer.headers["accept"]
    assert rig.get("/nodes")["items"][0]["state"] == "available"


@pytest.mark.parametrize("cursor", ["x", "bm9uZQ==", "\xfc", "\0\xff", "att_other:n0:3", "::", "a:b:-1"])
def test_a_cursor_of_another_list(rig: Rig, things: dict[str, str], cursor: str) -> None:
    refused(PAGED, lambda route: ask(rig, route, things, params={"cursor": cursor}), 422)


def test_a_parameter_that_there_is_not_is_named(rig: Rig, things: dict[str, str]) -> None:
    refused(OURS, lambda route: ask(rig, route, things, params={"colour": "blue"}), 422)
    for route in OURS:
        (error,) = ask(rig, route, things, params={"colour": "blue"}).json()["errors"]
        assert (error["pointer"], error["in"]) == ("/colour", "query"), route.path


def test_a_parameter_out_of_its_bounds(rig: Rig, things: dict[str, str]) -> None:
    for route in READ:
        for (place, name), schema in route.parameters.items():
            bounds = [schema[word] + by for word, by in (("minimum", -1), ("maximum", 1)) if word in schema]
            for value in bounds if place == "query" else ():
                assert is_refused(ask(rig, route, things, params={name: value}), 422) == ""


def test_a_key_of_a_request_that_was_another_is_refused_and_does_nothing(rig: Rig, things: dict[str, str]) -> None:
    key = {"Idempotency-Key": "k"}
    assert rig.http.post("/api/v1/nodes/n1/drain", headers=key).status_code == 200
    refused(ORDERS, lambda route: ask(rig, route, things, headers=key), 422, "idempotency-key-reused")
    assert rig.get("/nodes")["items"][0]["state"] == "available"


def test_a_key_that_is_too_long(rig: Rig, things: dict[str, str]) -> None:
    refused(ORDERS, lambda route: ask(rig, route, things, headers={"Idempotency-Key": "k" * 256}), 422)


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
def test_a_page_of_another_site(rig: Rig, things: dict[str, str], headers: dict[str, str]) -> None:
    refused(ROUTES, lambda route: ask(rig, route, things, headers=headers), 403)


def test_the_name_of_another_host(rig: Rig, things: dict[str, str]) -> None:
    refused([*ROUTES, *PAGES], lambda route: ask(rig, route, things, headers={"Host": "evil.example"}), 421)


def test_a_method_that_a_path_does_not_have_is_refused_with_those_it_has(rig: Rig, things: dict[str, str]) -> None:
    methods: dict[str, set[str]] = {}
    for route in ROUTES:
        methods.setdefault(route.path, set()).add(route.method)
    for route in ROUTES:
        has = methods[route.path] | ({"HEAD"} if "GET" in methods[route.path] else set())
        for method in {"PUT", "DELETE", "PATCH", "HEAD"} - has:
            answer = ask(rig, route._replace(method=method, media=None), things)
            assert answer.status_code == 405, (method, route.path)
            assert set(answer.headers["allow"].split(", ")) == has
            assert method == "HEAD" or is_refused(answer, 405) == ""


def test_head_answers_the_head_of_get(rig: Rig) -> None:
    for route in (*READ, *PAGES):
        get, head = ask(rig, route), ask(rig, route._replace(method="HEAD"))
        assert (head.status_code, head.headers, head.content) == (get.status_code, get.headers, b""), route.path
