"""What routers take from a request: the context, the JSON body, paging, the idempotency key; and nothing unknown."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Depends, Header, Query, Request, params
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError

from orchestrator.api.problems import MalformedBody, UnsupportedMediaType
from orchestrator.domain.words import untrusted
from orchestrator.domain.words.errors import InvalidRequest, Problem
from orchestrator.services.context import Context
from orchestrator.services.once import idempotency, once

MAX_PAGE = 1000
JSON = "application/json"
RFC3339: dict[str, Any] = {"max_length": 40, "json_schema_extra": {"format": "date-time"}}
# The header of an answer that repeats an earlier one, under the same idempotency key.
REPLAYED = {"Idempotent-Replayed": "true"}

Answer = TypeVar("Answer")


# The functions of this page that a request depends on are async although they wait for nothing: FastAPI hands every
# other function to a thread, which costs more than all that they do.
async def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


async def _json_body(request: Request) -> Any:
    """The parsed body, past the border. Read here, once: routers hand it on to the one type that knows it."""
    try:
        body, problems = untrusted.parse_json(await request.body())
    except untrusted.Malformed as error:
        raise MalformedBody(f"the body is no JSON: {error}") from None
    if problems:
        raise InvalidRequest(problems)
    return body


async def only_known_parameters(request: Request) -> None:
    """Refuse a query parameter that the path does not have: a misspelt filter would silently answer everything.

    Raises:
        RequestValidationError: it names the unknown ones.
    """
    if not request.query_params:
        return
    fields = get_flat_params(request.scope["route"].dependant)
    known = {field.alias for field in fields if isinstance(field.field_info, params.Query)}
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        offered = ", ".join(sorted(known)) or "none"
        message = f"no such parameter; this path has: {offered}"
        raise RequestValidationError([{"loc": ("query", name), "msg": message, "type": "extra"} for name in unknown])


async def only_offered_media_types(request: Request) -> None:
    """Refuse a body of a type that the path does not take. Most of all those types that a browser lets any page of the
    web send without asking first, and a body without a type, which it lets it send as well.

    Raises:
        UnsupportedMediaType: it names the header and what it may say.
    """
    if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
        return
    extra = request.scope["route"].openapi_extra or {}
    offered = tuple(extra.get("requestBody", {}).get("content", {})) or (JSON,)
    sent = request.headers.get("content-type")
    if sent is None or sent.partition(";")[0].strip().lower() not in offered:
        raise UnsupportedMediaType(sent, offered)


def parse_label(label: str | None) -> tuple[str, str] | None:
    """(key, value) of ``key=value``.

    Raises:
        InvalidRequest: there is no ``=``.
    """
    if label is None:
        return None
    key, separator, value = label.partition("=")
    if not separator:
        raise InvalidRequest([Problem("/label", f"{label!r} is no label: write key=value")])
    return key, value


def parse_time(name: str, given: str | None) -> float | None:
    """Seconds since the epoch of a query parameter that was described by ``RFC3339``; None where it is not given.

    Raises:
        InvalidRequest: it is no time, or has no zone.
    """
    if given is None:
        return None
    try:
        time = datetime.fromisoformat(given)
        seconds = time.timestamp() if time.tzinfo else None
    except (OverflowError, ValueError):
        seconds = None
    if seconds is None or not untrusted.is_time(seconds):
        raise InvalidRequest([Problem(f"/{name}", "a time with its zone, such as 2026-11-22T02:00:00Z")])
    return seconds


def carried_out_once(
    context: Context,
    owner: str,
    key: str | None,
    request: Sequence[Any],
    act: Callable[[], Answer],
    look: Callable[[], Answer],
) -> tuple[Answer, dict[str, str]]:
    """``services.once`` for a router: (the answer, headers that say whether it is one of before).

    Args:
        key: the Idempotency-Key, if any.
        request: what tells this request from another one under the same key.
    """
    answer, new = once(context, None if key is None else idempotency(owner, key, *request), act, look)
    return answer, {} if new else REPLAYED


def json_body_of(model: str, /, **example: Any) -> dict[str, Any]:
    """What OpenAPI says of a JSON body that a type of the domain parses: its schema by name, and an example."""
    content = {"schema": {"$ref": f"#/components/schemas/{model}"}, "example": example}
    return {"requestBody": {"required": True, "content": {JSON: content}}}


Ctx = Annotated[Context, Depends(_context)]
JsonBody = Annotated[Any, Depends(_json_body)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="most items of one page")]
WholeLimit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="most items of one page; lists here are short")]
Cursor = Annotated[str | None, Query(max_length=1000, description="next_cursor of the page before")]
OfOwner = Annotated[str | None, Query(max_length=100, description="only what is this owner's")]
Order = Annotated[Literal["newest", "oldest"], Query(description="which of them come first")]
Label = Annotated[str | None, Query(max_length=500, description="key=value", json_schema_extra={"pattern": "="})]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=255,
        description="makes it safe to send again: the same key and body are carried out once",
    ),
]
