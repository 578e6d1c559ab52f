"""Every error is a problem document, and the table from errors to statuses is total."""

from collections.abc import Iterator
from typing import Any

import pytest

from orchestrator.api.problems import TABLE, status_of
from orchestrator.domain.words import errors
from orchestrator.domain.words.errors import IdempotencyMismatch, StoreFull, StoreUnavailable, TbdError
from tests.unit.api.api_rig import AS_JSON, AS_LOG, MAX_BODY_BYTES, MAX_LOG_BYTES, SPEC, Rig

PROBLEM = "application/problem+json"


def all_errors(kind: type[TbdError] = TbdError) -> Iterator[type[TbdError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from all_errors(below)


def test_every_error_of_the_domain_has_a_line_of_its_own_in_the_table() -> None:
    declared = {kind for kind in all_errors() if kind.__module__ == errors.__name__}
    assert declared == set(TABLE)


def test_a_subclass_declared_elsewhere_answers_as_its_parent() -> None:
    class SpecialConflict(errors.Conflict):
        pass

    assert status_of(SpecialConflict("x")) == TABLE[errors.Conflict]


@pytest.mark.parametrize(
    ("method", "path", "content", "status"),
    [
        ("GET", "/nowhere", None, 404),
        ("GET", "/api/v1/runs?state=asleep", None, 422),
        ("GET", "/api/v1/experiments?label=nokey", None, 422),
        ("GET", "/api/v1/compare?baseline=exp_1", None, 422),
        ("POST", "/api/v1/ingest", b"{", 400),
        ("POST", "/api/v1/ingest", b"", 422),
    ],
)
def test_what_is_wrong_is_answered_as_a_problem(rig: Rig, method: str, path: str, content: Any, status: int) -> None:
    headers = AS_LOG if path.endswith("/ingest") else AS_JSON
    answer = rig.http.request(method, path, content=content, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    document = answer.json()
    assert document["status"] == status
    assert document["detail"]
    assert {"type", "title", "instance", "errors"} <= set(document)


def test_a_log_may_be_larger_than_any_other_body_and_has_a_limit_of_its_own(rig: Rig) -> None:
    assert rig.http.post("/api/v1/ingest", content=b" " * MAX_LOG_BYTES, headers=AS_LOG).status_code == 400
    answer = rig.http.post("/api/v1/ingest", content=b" " * (MAX_LOG_BYTES + 1), headers=AS_LOG)
    assert answer.status_code == 413
    assert "TBD_MAX_LOG_BYTES" in answer.json()["detail"]


def test_a_chunked_body_over_the_limit_is_refused_without_its_length_being_announced(rig: Rig) -> None:
    chunks = [b" " * 1000] * (MAX_BODY_BYTES // 1000 + 1)
    answer = rig.http.post("/api/v1/experiments", content=iter(chunks), headers=AS_JSON)
    assert "content-length" not in answer.request.headers
    assert (answer.status_code, answer.headers["content-type"]) == (413, PROBLEM)


def test_a_body_of_exactly_the_limit_is_read(rig: Rig) -> None:
    answer = rig.http.post("/api/v1/experiments", content=b" " * (MAX_BODY_BYTES - 2) + b"{}", headers=AS_JSON)
    assert answer.status_code == 422


def test_each_wrong_field_is_pointed_at_and_nothing_is_stored(rig: Rig) -> None:
    answer = rig.http.post("/api/v1/experiments", json=SPEC | {"modle": "x", "framework": ["pytorch", "caffe"]})
    assert answer.status_code == 422
    pointers = {item["pointer"]: item["in"] for item in answer.json()["errors"]}
    assert pointers == {"/modle": "body", "/framework/1": "body"}
    assert rig.get("/experiments")["items"] == []


@pytest.mark.parametrize(("error", "status"), [(StoreUnavailable, 503), (StoreFull, 507)])
def test_a_database_that_is_away_or_full_asks_for_another_try_later(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, error: type[TbdError], status: int
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise error("the database is away")

    monkeypatch.setattr(rig.store, "add_experiment", away)
    answer = rig.http.post("/api/v1/experiments", json=SPEC)
    assert answer.status_code == status
    assert int(answer.headers["retry-after"]) > 0


def test_a_surprise_tells_the_client_nothing_of_the_inside(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def surprise(*_: Any, **__: Any) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(rig.store, "experiments", surprise)
    answer = rig.http.get("/api/v1/experiments")
    assert answer.status_code == 500
    assert "hunter2" not in answer.text
    assert answer.headers["content-type"] == PROBLEM


def test_a_reused_idempotency_key_is_a_422_as_the_draft_says() -> None:
    assert status_of(IdempotencyMismatch("x"))[0] == 422
