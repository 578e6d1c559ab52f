"""What became different between two OpenAPI descriptions, and which of it breaks those who rely on the earlier one.

``python -m tests.support.openapi_changes`` (``make openapi``) records the description of today's application in
``SNAPSHOT``. It refuses what is removed or narrowed, unless ``--breaking`` says that this is meant.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from orchestrator.api.server import create_app
from orchestrator.serve.settings import read_settings
from orchestrator.services.context import Context

SNAPSHOT = Path(__file__).resolve().parents[1] / "unit" / "api" / "openapi_snapshot.txt"
Json = Mapping[str, Any]
REQUEST, RESPONSE = "request", "response"

# keyword -> whether a greater value allows more
BOUNDS = {
    "maximum": True,
    "exclusiveMaximum": True,
    "maxLength": True,
    "maxItems": True,
    "maxProperties": True,
    "minimum": False,
    "exclusiveMinimum": False,
    "minLength": False,
    "minItems": False,
    "minProperties": False,
}
# Other keywords that hold the value down: another one is another promise.
RULES = ("type", "const", "format", "pattern", "uniqueItems", "contentMediaType")


class Change(NamedTuple):
    """One difference. ``breaks``: something was removed or narrowed."""

    place: str
    what: str
    breaks: bool


WORDING = ("description", "summary", "title")


@cache
def description() -> dict[str, Any]:
    """The description that the application gives of itself: once a process, as it takes seconds."""
    context = cast(Context, None)  # it describes itself without looking at anything
    return create_app(context, read_settings({})).openapi()


def described() -> dict[str, Any]:
    """``description`` without its wording: sentences may change at any time."""
    return dict(_without_wording(description()))


def _without_wording(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_wording(one) for one in part]
    if not isinstance(part, dict):
        return part
    # A field may have such a name as well: then the value is its schema and no text.
    kept = {name: value for name, value in part.items() if not (name in WORDING and isinstance(value, str))}
    return {name: _without_wording(value) for name, value in kept.items()}


def as_text(description: Json) -> str:
    """The description with a line for each operation, each of its parameters, and each schema and its fields."""
    return "".join(f"{name}: {json.dumps(part, sort_keys=True)}\n" for name, part in sorted(_lines(description)))


def _lines(description: Json) -> Iterator[tuple[str, Json]]:
    for name, operation in _operations(description).items():
        yield name, {key: value for key, value in operation.items() if key != "parameters"}
        yield from ((f"{name} {which}", one) for which, one in _parameters(operation).items())
    yield "openapi", {key: value for key, value in description.items() if key not in ("paths", "components")}
    yield "security", description["components"].get("securitySchemes", {})
    for name, schema in description["components"]["schemas"].items():
        yield name, {key: value for key, value in schema.items() if key not in ("properties", "required")}
        for field, one in schema.get("properties", {}).items():
            yield f"{name}.{field}{' required' if field in schema.get('required', ()) else ''}", one


def from_text(text: str) -> Json:
    """What ``as_text`` was given, as far as ``changes`` looks at it."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for line in text.splitlines():
        name, _, written = line.partition(": ")
        part, words = json.loads(written), name.split()
        if len(words) >= 2 and words[1].startswith("/"):
            operations = paths.setdefault(words[1], {})
            if len(words) == 2:
                operations[words[0].lower()] = part
            else:
                operations[words[0].lower()].setdefault("parameters", []).append(part)
            continue
        # A schema; "openapi" and "security" look like one without fields, and no operation refers to them.
        schema, _, field = words[0].partition(".")
        if not field:
            schemas[schema] = part
            continue
        schemas[schema].setdefault("properties", {})[field] = part
        if words[1:] == ["required"]:
            schemas[schema].setdefault("required", []).append(field)
    return {"paths": paths, "components": {"schemas": schemas}}


def changes(before: Json, after: Json) -> list[Change]:
    """All differences that a client can notice."""
    return list(_Comparison(before, after).operations())


class _Comparison:
    """Follows the references of both sides; ``_seen`` has the pairs that are being compared already."""

    def __init__(self, before: Json, after: Json) -> None:
        self._before, self._after = before, after
        self._seen: set[tuple[str, str, str]] = set()

    def operations(self) -> Iterator[Change]:
        before, after = _operations(self._before), _operations(self._after)
        yield from _keys("", before, after)
        for name in sorted(before.keys() & after.keys()):
            yield from self._operation(name, before[name], after[name])

    def _operation(self, place: str, before: Json, after: Json) -> Iterator[Change]:
        name, other = before.get("operationId"), after.get("operationId")
        if name != other:
            yield Change(place, f"called {other} in generated clients, before {name}", True)
        old, new = _parameters(before), _parameters(after)
        yield from _keys(place, old, new, breaks_when_added=lambda one: bool(one.get("required")))
        for name in sorted(old.keys() & new.keys()):
            yield from self._value(f"{place} {name}", old[name], new[name], REQUEST)
        if "requestBody" in before or "requestBody" in after:
            body, other = before.get("requestBody", {}), after.get("requestBody", {})
            yield from self._contents(f"{place} body", body, other, REQUEST)
            if other.get("required") and not body.get("required"):
                yield Change(f"{place} body", "required now", True)
        answers, others = before["responses"], after["responses"]
        yield from _keys(f"{place} answer", answers, others)
        for status in sorted(answers.keys() & others.keys()):
            yield from self._contents(f"{place} {status}", answers[status], others[status], RESPONSE)

    def _contents(self, place: str, before: Json, after: Json, way: str) -> Iterator[Change]:
        old, new = before.get("content", {}), after.get("content", {})
        yield from _keys(place, old, new)
        for kind in sorted(old.keys() & new.keys()):
            yield from self._value(place, old[kind], new[kind], way)

    def _value(self, place: str, before: Json, after: Json, way: str) -> Iterator[Change]:
        if after.get("required") and not before.get("required"):
            yield Change(place, "required now", True)
        yield from self._schema(place, before.get("schema", {}), after.get("schema", {}), way)

    def _schema(self, place: str, before: Any, after: Any, way: str) -> Iterator[Change]:
        names = (before.get("$ref", ""), after.get("$ref", ""), way)
        if all(names[:2]):
            if names in self._seen:
                return
            self._seen.add(names)
        before, after = _resolved(self._before, before), _resolved(self._after, after)
        yield from _limits(place, before, after, way)
        yield from self._members(place, before, after, way)
        old, new = _choices(before), _choices(after)
        if old or new:
            yield from _keys(f"{place}, one of", old, new)
            for key in sorted(old.keys() & new.keys()):
                yield from self._schema(place, old[key], new[key], way)
        if "items" in before:
            yield from self._schema(f"{place}[]", before["items"], after.get("items", {}), way)

    def _members(self, place: str, before: Json, after: Json, way: str) -> Iterator[Change]:
        old, new = before.get("properties", {}), after.get("properties", {})
        yield from _keys(place, old, new)
        for name in sorted(old.keys() & new.keys()):
            yield from self._schema(f"{place}.{name}", old[name], new[name], way)
        was, now = set(before.get("required", ())), set(after.get("required", ()))
        for name in sorted(now - was):
            yield Change(f"{place}.{name}", "always there now" if way == RESPONSE else "required now", way == REQUEST)
        for name in sorted(was - now):
            yield Change(f"{place}.{name}", "no longer required", way == RESPONSE)
        more, less = before.get("additionalProperties", True), after.get("additionalProperties", True)
        if isinstance(more, Mapping) and isinstance(less, Mapping):
            yield from self._schema(f"{place}.*", more, less, way)
        elif more != less:
            yield Change(place, f"other members: {less}, before {more}", less is not True)


def _keys(place: str, before: Json, after: Json, breaks_when_added: Any = lambda _: False) -> Iterator[Change]:
    for name in sorted(before.keys() - after.keys()):
        yield Change(f"{place} {name}".strip(), "removed", True)
    for name in sorted(after.keys() - before.keys()):
        yield Change(f"{place} {name}".strip(), "added", breaks_when_added(after[name]))


def _limits(place: str, before: Json, after: Json, way: str) -> Iterator[Change]:
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        text = f"{name}: {new}, before {old}"
        if name in BOUNDS and None not in (old, new):
            yield Change(place, text, (cast(float, new) < cast(float, old)) is BOUNDS[name])
        elif name in (*BOUNDS, *RULES):
            yield Change(place, text, old is not None if way == RESPONSE else new is not None)
        elif name == "default":
            yield Change(place, text, old is not None)
        elif name == "enum":
            gone = [value for value in old or [] if value not in (new or [])]
            yield Change(place, f"{text}; gone: {gone}", bool(gone) if new else way == RESPONSE)


def _operations(description: Json) -> dict[str, Json]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
    }


def _parameters(operation: Json) -> dict[str, Json]:
    return {f"{one['in']} {one['name']}": one for one in operation.get("parameters", ())}


def _resolved(description: Json, schema: Any) -> Json:
    while "$ref" in schema:
        schema = description["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema if isinstance(schema, Mapping) else {}


def _choices(schema: Json) -> dict[str, Any]:
    """The alternatives by what tells them apart."""
    found = {}
    for one in schema.get("anyOf", schema.get("oneOf", ())):
        key = one.get("$ref") or one.get("type") or "any"
        items = one.get("items", {}) if isinstance(one.get("items"), Mapping) else {}
        found[f"{key} {items.get('$ref') or items.get('type') or ''}".strip()] = one
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--breaking", action="store_true", help="record also what is removed or narrowed")
    options = parser.parse_args()
    after = described()
    found = changes(from_text(SNAPSHOT.read_text(encoding="utf-8")), after) if SNAPSHOT.exists() else []
    for change in found:
        print(f"{'BREAKS' if change.breaks else 'adds  '}  {change.place}: {change.what}")
    if any(change.breaks for change in found) and not options.breaking:
        print("nothing was recorded: keep what was promised, or say that you mean it with BREAKING=1", file=sys.stderr)
        return 1
    SNAPSHOT.write_text(as_text(after), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
