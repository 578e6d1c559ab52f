"""What OpenAPI promises is kept: nothing is removed or narrowed, and what is added is recorded."""

from typing import Any

import pytest

from tests.support.openapi_changes import SNAPSHOT, as_text, changes, described, from_text


def test_nothing_that_was_promised_is_removed_or_narrowed_and_what_is_added_is_recorded() -> None:
    recorded = SNAPSHOT.read_text(encoding="utf-8")
    now = described()
    found = changes(from_text(recorded), now)
    broken = "\n".join(f"{one.place}: {one.what}" for one in found if one.breaks)
    assert not broken, f"this breaks clients; if it is meant, record it with `make openapi BREAKING=1`:\n{broken}"
    added = "\n".join(f"{one.place}: {one.what}" for one in found) or "(tags or the order of something)"
    assert as_text(now) == recorded, f"this is new; record it with `make openapi`:\n{added}"


def operation(**changed: Any) -> dict[str, Any]:
    thing = {
        "type": "object",
        "properties": {"a": {"type": "string", "maxLength": 9}, "b": {"enum": ["x", "y"]}},
        "required": ["a"],
    }
    described = {
        "parameters": [{"in": "query", "name": "limit", "schema": {"type": "integer", "maximum": 10}}],
        "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}},
        "responses": {"200": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}}}},
    }
    paths = {"/things": {"post": described | changed.pop("operation", {})}}
    return {"paths": paths | changed.pop("paths", {}), "components": {"schemas": {"Thing": thing | changed}}}


WAS: Any = operation()["components"]["schemas"]["Thing"]["properties"]
LIMIT = {"in": "query", "name": "limit"}


@pytest.mark.parametrize(
    "changed",
    [
        {"properties": {"a": WAS["a"]}},
        {"properties": WAS | {"a": {"type": "integer", "maxLength": 9}}},
        {"properties": WAS | {"a": {"type": "string", "maxLength": 8}}},
        {"properties": WAS | {"a": {"type": "string", "maxLength": 9, "pattern": "^x"}}},
        {"properties": WAS | {"b": {"enum": ["x"]}}},
        {"required": ["a", "b"]},
        {"required": []},
        {"additionalProperties": False},
        {"operation": {"parameters": []}},
        {"operation": {"parameters": [LIMIT | {"schema": {"type": "integer", "maximum": 9}}]}},
        {"operation": {"parameters": [LIMIT | {"required": True, "schema": {"type": "integer", "maximum": 10}}]}},
        {"operation": {"responses": {"201": {}}}},
        {"operation": {"operationId": "makeThing"}},
    ],
)
def test_what_is_removed_or_narrowed_is_found(changed: dict[str, Any]) -> None:
    assert [one for one in changes(operation(), operation(**changed)) if one.breaks]


def test_a_path_that_is_gone_is_found() -> None:
    assert [one.place for one in changes(operation(paths={"/old": {"get": {"responses": {}}}}), operation())] == [
        "GET /old"
    ]


@pytest.mark.parametrize(
    "changed",
    [
        {"properties": WAS | {"c": {"type": "string"}}},
        {"properties": WAS | {"a": {"type": "string", "maxLength": 10}}},
        {"properties": WAS | {"b": {"enum": ["x", "y", "z"]}}},
        {"paths": {"/new": {"get": {"responses": {}}}}},
        {"operation": {"parameters": [*operation()["paths"]["/things"]["post"]["parameters"], LIMIT | {"name": "n"}]}},
    ],
)
def test_what_is_added_or_widened_is_told_and_breaks_nothing(changed: dict[str, Any]) -> None:
    found = changes(operation(), operation(**changed))
    assert found
    assert not [one for one in found if one.breaks]
