"""The OpenAPI description: FastAPI's, completed by what it cannot see (the spec, which is parsed by its own type)."""

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic.json_schema import JsonSchemaMode

from orchestrator.api.door.access import NEEDED
from orchestrator.api.problems import ProblemView
from orchestrator.domain.asked.fields import AXES
from orchestrator.domain.asked.spec import ExperimentSpec
from orchestrator.services.gate.side_by_side import SideBySideRequest
from orchestrator.services.gate.webhooks import WebhookRequest
from orchestrator.services.probe.calibrate import CalibrationRequest
from orchestrator.services.probe.netbench import NetbenchRequest
from orchestrator.services.schedule.schedules import ScheduleChange, ScheduleRequest
from orchestrator.services.tokens import TokenRequest

_REFS = "#/components/schemas/{model}"

_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of the scope that is named, or a wider one: read, submit, admin (tbd token add). On a "
    "server for which no token was ever made, and which listens on loopback only, nobody needs one.",
}


def operation_id(route: APIRoute) -> str:
    """What generated clients call the operation: its function's name, in lowerCamelCase."""
    verb, *nouns = route.name.split("_")
    return verb + "".join(noun.capitalize() for noun in nouns)


def install(app: FastAPI) -> None:
    """Have ``app`` describe itself, once, when it is first asked."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _describe(app)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _describe(app: FastAPI) -> dict[str, Any]:
    description = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
    )
    description = _with_named_pages(description)
    schemas = description["components"]["schemas"]
    schedules = (ScheduleRequest, ScheduleChange)
    others = (NetbenchRequest, CalibrationRequest, SideBySideRequest, TokenRequest, WebhookRequest)
    for model in (ExperimentSpec, *others, *schedules, ProblemView):
        # A problem is described as it is written: one of its fields has another name on the wire.
        way: JsonSchemaMode = "serialization" if model is ProblemView else "validation"
        schema = model.model_json_schema(ref_template=_REFS, mode=way, by_alias=True)
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    for name in ("ScheduleRequest", "ScheduleChange"):
        of_schedule = schemas[name]["properties"]
        said = {key: of_schedule["spec"][key] for key in ("title", "description")}
        spec_of = {"$ref": _REFS.format(model="ExperimentSpec")}
        is_needed = "spec" in schemas[name].get("required", ())
        of_schedule["spec"] = said | (spec_of if is_needed else {"anyOf": [spec_of, {"type": "null"}]})
    spec = schemas["ExperimentSpec"]["properties"]
    for axis in AXES:
        fields = spec if axis in spec else schemas["NodeChoice"]["properties"]
        fields[axis] = _one_or_list(fields[axis], schemas)
    spec["options"]["additionalProperties"] = _one_or_list(spec["options"]["additionalProperties"], schemas)
    for name in ("repeats", "max_repeats"):
        del spec[name]["default"]  # the one that is left out follows the other: a client must not fill it in
    description["components"]["securitySchemes"] = {"bearer": _BEARER}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            _only_our_errors(operation)
            needed = NEEDED.get((method.upper(), path.removeprefix("/api/v1")))
            if needed:
                operation["security"] = [{"bearer": [needed.value]}]
    return description


def _with_named_pages(description: dict[str, Any]) -> dict[str, Any]:
    """The same, each schema of a page under its title: pydantic calls it by its parts (``PageView_RunView_``)."""
    text = json.dumps(description)
    for name, schema in description["components"]["schemas"].items():
        if name.startswith("PageView_"):
            text = text.replace(f'/{name}"', f'/{schema["title"]}"').replace(f'"{name}": ', f'"{schema["title"]}": ')
    named: dict[str, Any] = json.loads(text)
    return named


def _one_or_list(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """An axis takes one value or a list; pydantic, which makes the list before it looks, describes the list only. A
    choice of words gets a place of its own in ``schemas``: generated clients call its type so."""
    said: dict[str, Any] = {key: schema[key] for key in ("title", "default", "description") if key in schema}
    if isinstance(said.get("default"), list):
        (said["default"],) = said["default"]  # as a person would write it, and clients can hold it
    choices: list[dict[str, Any]] = []
    for choice in schema.get("anyOf", [schema]):
        if choice.get("type") != "array":
            choices.append(choice)
            continue
        single = [_named(one, schema, schemas) for one in choice["items"].get("anyOf", [choice["items"]])]
        bounds = {key: choice[key] for key in ("minItems", "maxItems")}
        items = single[0] if len(single) == 1 else {"anyOf": single}
        choices += [*single, {"title": "List", "type": "array", "items": items, **bounds}]
    return {**said, "anyOf": choices}


def _named(schema: dict[str, Any], axis: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    if "enum" not in schema:
        return schema
    name = axis["title"].replace(" ", "")
    schemas[name] = {"title": name, **schema}
    return {"$ref": _REFS.format(model=name)}


def _only_our_errors(operation: dict[str, Any]) -> None:
    """FastAPI describes its own validation error, which is never answered: it travels as a problem."""
    if "422" in operation.get("responses", {}):
        del operation["responses"]["422"]
