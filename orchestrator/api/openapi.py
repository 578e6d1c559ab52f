"""The OpenAPI description: FastAPI's, completed by what it cannot see (the spec, which is parsed by its own type)."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import JsonSchemaMode

from orchestrator.api.access import NEEDED
from orchestrator.api.problems import ProblemView
from orchestrator.domain.spec import AXES, ExperimentSpec
from orchestrator.services.calibrate import CalibrationRequest
from orchestrator.services.netbench import NetbenchRequest
from orchestrator.services.schedules import ScheduleChange, ScheduleRequest
from orchestrator.services.tokens import TokenRequest

_REFS = "#/components/schemas/{model}"

_BEARER = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of the scope that is named, or a wider one: read, submit, admin (tbd token add). On a "
    "server for which no token was ever made, and which listens on loopback only, nobody needs one.",
}


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
    schemas = description.setdefault("components", {}).setdefault("schemas", {})
    schedules = (ScheduleRequest, ScheduleChange)
    for model in (ExperimentSpec, NetbenchRequest, CalibrationRequest, TokenRequest, *schedules, ProblemView):
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
        fields[axis] = _one_or_list(fields[axis])
    spec["options"]["additionalProperties"] = _one_or_list(spec["options"]["additionalProperties"])
    description["components"]["securitySchemes"] = {"bearer": _BEARER}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            _only_our_errors(operation)
            needed = NEEDED.get((method.upper(), path.removeprefix("/api/v1")))
            if needed:
                operation["security"] = [{"bearer": [needed.value]}]
    return description


def _one_or_list(schema: dict[str, Any]) -> dict[str, Any]:
    """An axis takes one value or a list; pydantic, which makes the list before it looks, describes the list only."""
    choices = schema.get("anyOf", [schema])
    arrays = [choice for choice in choices if choice.get("type") == "array"]
    rest = {key: value for key, value in schema.items() if key in ("title", "default", "description")}
    single = [choice for array in arrays for choice in array["items"].get("anyOf", [array["items"]])]
    return {**rest, "anyOf": [*single, *({**c, "title": "List"} for c in choices)]}


def _only_our_errors(operation: dict[str, Any]) -> None:
    """FastAPI describes its own validation error, which is never answered: it travels as a problem."""
    if "422" in operation.get("responses", {}):
        del operation["responses"]["422"]
