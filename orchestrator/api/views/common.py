"""What all answers share: how they are made and written, times, pages and quantities."""

import base64
import binascii
import dataclasses
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Self, TypeVar, cast, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    create_model,
)
from pydantic_core import PydanticSerializationError
from starlette.responses import Response

from orchestrator.domain.asked.topology import Topology
from orchestrator.domain.runs.stored import Page
from orchestrator.domain.value.measurement import Measurement
from orchestrator.domain.words.errors import Damaged, InvalidRequest, Problem
from orchestrator.domain.words.untrusted import is_time, mended, visible

Item = TypeVar("Item")
ViewItem = TypeVar("ViewItem")
Json = dict[str, Any]


def _time(seconds: float) -> float:
    if not is_time(seconds):
        raise ValueError(f"{seconds!r} is no time from 1970 to 9999")
    return seconds


def rfc3339(seconds: float) -> str:
    """``seconds`` since the epoch as REST writes a time."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


# Seconds since the epoch here, a text on the wire.
Time = Annotated[
    float,
    AfterValidator(_time),
    PlainSerializer(rfc3339, return_type=str),
    Field(description="RFC 3339, UTC", json_schema_extra={"format": "date-time"}),
]
_TopologyText = Annotated[str, BeforeValidator(str)]


class View(BaseModel):
    """Base of all answers. Non-finite floats travel as the strings ``NaN``, ``Infinity`` and ``-Infinity``."""

    model_config = ConfigDict(
        extra="forbid",
        ser_json_inf_nan="strings",
        from_attributes=True,
        json_schema_serialization_defaults_required=True,  # what has a default is always written, too
    )

    @classmethod
    def of(cls, thing: object, /, **more: Any) -> Self:
        """The view of something that has its fields as attributes, those of its parts likewise. ``more``: those
        that it does not have, or that are answered otherwise."""
        if not more:
            return cls.model_validate(thing)
        same = {name: getattr(thing, name) for name in cls.model_fields if name not in more and hasattr(thing, name)}
        return cls.model_validate(same | more)

    @classmethod
    def maybe(cls, thing: object) -> Self | None:
        """The same of what may not be there."""
        return None if thing is None else cls.of(thing)


AnyView = TypeVar("AnyView", bound=View)


def fields_of(kind: type, *only: str, without: Collection[str] = ()) -> Callable[[type[AnyView]], type[AnyView]]:
    """Decorator of a view that answers a dataclass of the house: it gets the fields of ``kind`` in their order, or only
    those that are named, or all ``without`` some. A field that the view has itself is as it says there; those that only
    the view has come last. Seconds since the epoch (``at``, ``created_at``) become a ``Time``, a ``Measurement`` a
    ``Quantity``. A view that is decorated has fields alone, and no methods."""
    hints = get_type_hints(kind)
    names = only or tuple(field.name for field in dataclasses.fields(kind) if field.name not in without)

    def complete(view: type[AnyView]) -> type[AnyView]:
        own = {name: (field.annotation, field) for name, field in view.model_fields.items()}
        fields: Any = {name: (_shown(name, hints[name]), ...) for name in names} | own
        return _made(view, view.__bases__, fields)

    return complete


def _shown(name: str, hint: Any) -> Any:
    """The type that a view has for what a dataclass calls ``name`` and ``hint``."""
    if name == "at" or name.endswith("_at"):
        return Time if hint is float else Time | None
    if hint is Topology:
        return _TopologyText
    if hint in (Measurement, Measurement | None):
        return Quantity if hint is Measurement else Quantity | None
    return hint


def with_fields(types: Mapping[str, Any]) -> Callable[[type[AnyView]], type[AnyView]]:
    """Decorator of a view: it gets these fields, which are always there."""

    def complete(view: type[AnyView]) -> type[AnyView]:
        fields: Any = {name: (kind, ...) for name, kind in types.items() if name not in view.model_fields}
        return _made(view, (view,), fields)

    return complete


def _made(view: type[AnyView], bases: Any, fields: Any) -> type[AnyView]:
    made: Any = create_model(view.__name__, __base__=bases, __module__=view.__module__, __doc__=view.__doc__, **fields)
    return cast(type[AnyView], made)


@fields_of(Damaged)
class DamagedView(View):
    """A stored row that cannot be read, and what to do about it."""

    way_out: str


class PageView(View, Generic[Item]):
    """A part of a list. ``next_cursor`` is null at the end. ``damaged`` has the rows of this part that cannot be read:
    an older version of tbd stored what this one would refuse."""

    items: list[Item]
    next_cursor: str | None = None
    damaged: list[DamagedView] = []

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """``RunPage``: what the page of a view is called in OpenAPI."""
        return f"{params[0].__name__.removesuffix('View')}Page"


@fields_of(Measurement, "value", "unit", "unit_definition", "ci_low", "ci_high", "confidence", "n", "scope", "method")
class Quantity(View):
    """A measured number with its unit, its interval of confidence and how it was made.

    ``n`` counts the independent observations behind it and ``scope`` says of what it speaks.
    """


def answer(view: View, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Write ``view``. It was validated when it was made, so FastAPI is not asked to do so again."""
    try:
        content = view.__pydantic_serializer__.to_json(view)
    except PydanticSerializationError:  # text of an older version that is no Unicode
        content = json.dumps(mended(view.model_dump(mode="python"))).encode()
    return Response(content, status_code=status, headers=dict(headers or {}), media_type="application/json")


def page_view(page: Page[Item], view: Callable[[Item], ViewItem]) -> PageView[ViewItem]:
    """The page of what is stored, each item as ``view`` shows it."""
    damaged = [DamagedView.of(one) for one in page.damaged]
    return PageView[Any](items=[view(item) for item in page.items], next_cursor=page.next_cursor, damaged=damaged)


def entries_view(
    page: Page[Mapping[str, Any]], attempt_id: str, view: Callable[[str, Mapping[str, Any]], ViewItem]
) -> PageView[ViewItem]:
    """The page of entries of an attempt's log; those that cannot be shown as ``view`` does are damaged."""
    items, damaged = [], [DamagedView.of(one) for one in page.damaged]
    for entry in page.items:
        try:
            items.append(view(attempt_id, entry))
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
            place = f"{attempt_id}:{entry['node']}:{entry['seq']}"
            damaged.append(DamagedView.of(Damaged("entry", place, None, visible(_reason(error)[:300]))))
    return PageView[Any](items=items, next_cursor=page.next_cursor, damaged=damaged)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def page_of(
    whole: Sequence[Item], key: Callable[[Item], str], view: Callable[[Item], ViewItem], limit: int, cursor: str | None
) -> PageView[ViewItem]:
    """The part of a list that is had as a whole which follows ``cursor``, each item as ``view`` shows it. The cursor is
    the encoded ``key`` of an item.

    Raises:
        InvalidRequest: no item of the list has the cursor's key.
    """
    start = 0
    if cursor is not None:
        ended_with = _key_in(cursor)
        start = next((number for number, item in enumerate(whole, start=1) if key(item) == ended_with), 0)
        if start == 0:
            raise InvalidRequest([Problem("/cursor", "this is no cursor of this list: take next_cursor as answered")])
    items = list(whole[start : start + limit])
    more = start + len(items) < len(whole)
    following = base64.urlsafe_b64encode(key(items[-1]).encode()).decode() if more else None
    return PageView[Any](items=[view(item) for item in items], next_cursor=following)


def _key_in(cursor: str) -> str | None:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None
