"""Errors as ``application/problem+json`` (RFC 9457): the one table from the errors of the domain to HTTP statuses."""

import json
import logging
import math
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Match

from orchestrator.domain.words import errors

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 2  # a judgement: long enough for a database to be restarted a few times, short enough to be patient

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")

log = logging.getLogger(__name__)

# error -> (status, slug of the problem's type). A subclass without a line of its own is a gap that a test finds.
# 422 for a reused idempotency key is what draft-ietf-httpapi-idempotency-key-header-07, section 2.7, asks for.
TABLE: dict[type[errors.TbdError], tuple[int, str]] = {
    errors.TbdError: (500, "internal"),
    errors.InvalidRequest: (422, "invalid-request"),
    errors.NotFound: (404, "not-found"),
    errors.NotAuthenticated: (401, "not-authenticated"),
    errors.NotAllowed: (403, "not-allowed"),
    errors.TooManyRequests: (429, "too-many-requests"),
    errors.Conflict: (409, "conflict"),
    errors.DamagedRow: (409, "damaged-row"),
    errors.IdempotencyMismatch: (422, "idempotency-key-reused"),
    errors.StoreUnavailable: (503, "database-unavailable"),
    errors.StoreFull: (507, "database-full"),
    errors.StoreDamaged: (503, "database-damaged"),
    errors.ClusterUnavailable: (503, "cluster-unavailable"),
    errors.NodeUnreachable: (503, "node-unreachable"),
    errors.NodeFailed: (503, "node-failed"),
    errors.JobRefused: (409, "job-refused"),
    errors.DevicesTaken: (409, "devices-taken"),
    errors.DataDirectoryInUse: (409, "data-directory-in-use"),
    errors.AlreadyServed: (409, "already-served"),
    errors.SettingsError: (500, "settings"),
}


class MalformedBody(Exception):  # noqa: N818 - reads as what happened
    """The body is no JSON; the text says where it breaks."""


class UnsupportedMediaType(Exception):  # noqa: N818 - reads as what happened
    """The body is of a type that the path does not take.

    Args:
        sent: the header Content-Type, if there is one.
        offered: the types that the path takes.
    """

    def __init__(self, sent: str | None, offered: Sequence[str]) -> None:
        self.offered = offered
        said = f"Content-Type says {sent[:100]!r}" if sent else "there is no header Content-Type"
        super().__init__(f"{said}: send the body with the header 'Content-Type: {offered[0]}' (curl: -H)")


class ProblemItem(BaseModel):
    """One thing that is wrong."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the body, or to the query parameter or header")
    detail: str
    location: str = Field(description="body, query, path or header", serialization_alias="in")


class ProblemView(BaseModel):
    """RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[ProblemItem] = []


# For the OpenAPI description: every path may answer these.
RESPONSES: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "An error",
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemView"}}},
    },
}


def problem(
    path: str,
    status: int,
    slug: str,
    detail: str,
    items: Sequence[ProblemItem] = (),
    headers: dict[str, str] | None = None,
) -> JSONResponse:
    """The answer for one error."""
    view = ProblemView(
        type=f"urn:tbd:problem:{slug}",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=detail,
        instance=path,
        errors=list(items),
    )
    content = view.model_dump(mode="json", by_alias=True)
    return JSONResponse(content, status_code=status, headers=headers, media_type=MEDIA_TYPE)


def status_of(error: errors.TbdError) -> tuple[int, str]:
    """(status, slug) of the nearest class of ``error`` in the table."""
    return next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)


def install(app: FastAPI) -> None:
    """Have ``app`` answer every error as problem+json."""
    handlers: list[tuple[type[Exception], Any]] = [
        (errors.TbdError, _on_domain_error),
        (MalformedBody, _on_malformed),
        (UnsupportedMediaType, _on_unsupported),
        (ClientDisconnect, _on_gone),
        (RequestValidationError, _on_wrong_parameters),
        (HTTPException, _on_http_exception),
        (Exception, _on_surprise),
    ]
    for kind, handler in handlers:
        app.add_exception_handler(kind, handler)


def _on_domain_error(request: Request, error: errors.TbdError) -> JSONResponse:
    status, slug = status_of(error)
    if status == 500:
        log.error("%s %s", request.method, request.url.path, exc_info=error)
    headers = _headers_of(error, status)
    items: list[ProblemItem] = []
    if isinstance(error, errors.InvalidRequest):
        place = "query" if request.method == "GET" else "body"
        items = [ProblemItem(pointer=p.pointer, detail=p.message, location=place) for p in error.problems]
    return problem(request.url.path, status, slug, str(error), items, headers)


def _headers_of(error: errors.TbdError, status: int) -> dict[str, str] | None:
    if isinstance(error, errors.NotAuthenticated):
        return {"WWW-Authenticate": 'Bearer realm="tbd"'}  # RFC 6750, section 3
    if isinstance(error, errors.TooManyRequests):
        return {"Retry-After": str(math.ceil(error.wait_s))}
    return {"Retry-After": str(RETRY_AFTER_S)} if status in (503, 507) else None


def answer_to(path: str, error: errors.TbdError) -> JSONResponse:
    """The answer for an error that came up before any route was reached."""
    status, slug = status_of(error)
    return problem(path, status, slug, str(error), headers=_headers_of(error, status))


def _on_malformed(request: Request, error: MalformedBody) -> JSONResponse:
    return problem(request.url.path, 400, "malformed-body", str(error))


def _on_unsupported(request: Request, error: UnsupportedMediaType) -> JSONResponse:
    headers = {"Accept": ", ".join(error.offered)}  # RFC 9110, section 15.5.16
    return problem(request.url.path, 415, "unsupported-media-type", str(error), headers=headers)


def _on_gone(request: Request, error: ClientDisconnect) -> JSONResponse:
    """Nobody reads this; but a client that goes away before it has sent its body is no error of the server."""
    return problem(request.url.path, 400, "client-gone", "the client went away before it had sent the body")


def _on_wrong_parameters(request: Request, error: RequestValidationError) -> JSONResponse:
    items = [
        ProblemItem(
            pointer="".join(f"/{part}" for part in item["loc"][1:]), detail=item["msg"], location=str(item["loc"][0])
        )
        for item in error.errors()
    ]
    detail = "; ".join(f"{item.location} {item.pointer}: {item.detail}" for item in items)
    return problem(request.url.path, 422, "invalid-request", detail, items)


def _on_http_exception(request: Request, error: HTTPException) -> JSONResponse:
    slug = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
    headers = dict(error.headers) if error.headers else {}
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_methods_of(request))
    detail = error.detail if isinstance(error.detail, str) else json.dumps(error.detail)
    if error.status_code == 404 and detail == "Not Found":
        detail = f"there is nothing at {request.url.path}; /docs lists the paths"
    return problem(request.url.path, error.status_code, slug, detail, headers=headers)


def _methods_of(request: Request) -> list[str]:
    """The methods of the path. Each of its routes knows its own only."""
    scope = {"type": "http", "path": request.scope["path"], "headers": []}

    def is_there(method: str) -> bool:
        return any(route.matches(scope | {"method": method})[0] is Match.FULL for route in request.app.routes)

    found = [method for method in _METHODS if is_there(method)]
    return [*found, "HEAD"] if "GET" in found else found


def _on_surprise(request: Request, error: Exception) -> JSONResponse:
    log.error("%s %s", request.method, request.url.path, exc_info=error)
    return problem(request.url.path, 500, "internal", "an unexpected error; the server's log has the traceback")
