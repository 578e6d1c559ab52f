"""The fields of a spec for a person: what each takes, its default and what it means, from the type itself.

``python -m orchestrator.reports.spec_fields > docs/use/spec.md`` writes the page; ``tbd plan --fields`` prints the
table.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from orchestrator.domain.asked.fields import AXES
from orchestrator.domain.asked.spec import ExperimentSpec

Json = Mapping[str, Any]

_WORDS = {"string": "text", "object": "object", "null": "null"}
_PLURALS = {"text": "texts", "object": "objects"}
_BOUNDS = (("minimum", "≥"), ("exclusiveMinimum", ">"), ("maximum", "≤"), ("exclusiveMaximum", "<"))
_PAGE = """# The fields of an experiment

An experiment is a YAML or JSON file, or the body of a request: one object of these fields. A field that "takes a list
too" is an axis of the sweep: each of its values makes further cells. A field whose meaning is not built yet is refused,
never ignored. `tbd plan SPEC.yaml` shows what a spec would run. `tbd plan --fields` prints this table.

<!-- made by python -m orchestrator.reports.spec_fields -->

| field | takes | default | means |
|---|---|---|---|
"""


class Row(NamedTuple):
    """One field. ``default`` is None where there is none: it has to be given."""

    name: str
    takes: str
    default: str | None
    means: str


def rows() -> list[Row]:
    """Every field of a spec in its order, those of ``nodes`` as ``nodes.names``."""
    schema = ExperimentSpec.model_json_schema()
    return list(_rows(schema, schema.get("$defs", {})))


def page() -> str:
    """docs/use/spec.md."""
    cells = [[f"`{row.name}`", row.takes, f"`{row.default}`" if row.default else "needed", row.means] for row in rows()]
    return _PAGE + "".join(f"| {' | '.join(one.replace('|', '/') for one in row)} |\n" for row in cells)


def _rows(schema: Json, definitions: Json, prefix: str = "") -> Iterator[Row]:
    for name, field in schema["properties"].items():
        part = field.get("$ref", "").rpartition("/")[2]
        if part:
            yield from _rows(definitions[part], definitions, f"{name}.")
        else:
            default = None if name in schema.get("required", ()) else _default_of(field)
            yield Row(prefix + name, _takes(field, name in AXES), default, field["description"])


def _default_of(field: Json) -> str:
    """As a person would write it. What a function makes does not stand in the schema: it is empty."""
    default = field["default"] if "default" in field else {"array": [], "object": {}}[field["type"]]
    one = default[0] if isinstance(default, list) and len(default) == 1 else default
    return one if isinstance(one, str) else json.dumps(one)


def _takes(field: Json, axis: bool) -> str:
    """What may stand there in words. An axis is described as a list; one value does as well."""
    choices = [choice for choice in field.get("anyOf", [field]) if choice.get("type") != "null"]
    if axis:
        return f"{' or '.join(_one(choice['items']) for choice in choices)}; takes a list too"
    return " or ".join(dict.fromkeys(_one(choice) for choice in choices))


def _one(schema: Json) -> str:
    if "anyOf" in schema:
        return " or ".join(_one(choice) for choice in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(schema.get("enum", [schema.get("const")]))
    kind = schema["type"]
    if kind == "array":
        return f"list of {_PLURALS.get(_one(schema['items']), _one(schema['items']))}"
    return _number(schema) if kind in ("integer", "number") else _WORDS[kind]


def _number(schema: Json) -> str:
    word = "whole number" if schema["type"] == "integer" else "number"
    bounds = [f"{sign} {schema[key]:.15g}" for key, sign in _BOUNDS if key in schema]
    return f"{word} {', '.join(bounds)}".rstrip()


if __name__ == "__main__":
    print(page(), end="")
