"""What all answers share: how they are written, times, pages and quantities."""

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticSerializationError
from starlette.responses import Response

from orchestrator.domain.border import is_time, mended, visible
from orchestrator.domain.errors import Damaged, InvalidRequest, Problem
from orchestrator.domain.measurement import Measurement
from orchestrator.domain.stored import Page

Item = TypeVar("Item")
ViewItem = TypeVar("ViewItem")
Time = Annotated[str, Field(description="RFC 3339, UTC", json_schema_extra={"format": "date-time"})]


class View(BaseModel):
    """Base of all answers. Non-finite floats travel as the strings ``NaN``, ``Infinity`` and ``-Infinity``."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="strings")


class DamagedView(View):
    """A stored row that cannot be read, and what to do about it."""

    table: str
    id: str
    experiment_id: str | None
    reason: str
    way_out: str


class PageView(View, Generic[Item]):
    """A part of a list. ``next_cursor`` is null at the end. ``damaged`` has the rows of this part that cannot be read:
    an older version of tbd stored what this one would refuse."""

    items: list[Item]
    next_cursor: str | None = None
    damaged: list[DamagedView] = []


class Quantity(View):
    """A measured number with its unit, its interval of confidence and how it was made.

    ``n`` counts the independent observations behind it and ``scope`` says of what it speaks.
    """

    value: float | None
    unit: str
    unit_definition: str | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    confidence: float | None = None
    n: float | None = None
    scope: str | None = None
    method: str

    @classmethod
    def of(cls, measurement: Measurement) -> "Quantity":
        return cls(**{name: getattr(measurement, name) for name in cls.model_fields})


def answer(view: View, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Write ``view``. It was validated when it was made, so FastAPI is not asked to do so again."""
    try:
        content = view.__pydantic_serializer__.to_json(view)
    except PydanticSerializationError:  # text of an older version that is no Unicode
        content = json.dumps(mended(view.model_dump(mode="python"))).encode()
    return Response(content, status_code=status, headers=dict(headers or {}), media_type="application/json")


def page_view(page: Page[Item], view: Callable[[Item], ViewItem]) -> PageView[ViewItem]:
    """The page of what is stored, each item as ``view`` shows it."""
    damaged = [damaged_view(one) for one in page.damaged]
    return PageView[Any](items=[view(item) for item in page.items], next_cursor=page.next_cursor, damaged=damaged)


def damaged_view(one: Damaged) -> DamagedView:
    return DamagedView(
        table=one.table, id=one.id, experiment_id=one.experiment_id, reason=one.reason, way_out=one.way_out
    )


def entries_view(
    page: Page[Mapping[str, Any]], attempt_id: str, view: Callable[[str, Mapping[str, Any]], ViewItem]
) -> PageView[ViewItem]:
    """The page of entries of an attempt's log; those that cannot be shown as ``view`` does are damaged."""
    items, damaged = [], [damaged_view(one) for one in page.damaged]
    for entry in page.items:
        try:
            items.append(view(attempt_id, entry))
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
            place = f"{attempt_id}:{entry['node']}:{entry['seq']}"
            reason = f"{type(error).__name__}: {error}".partition("\n")[0]
            damaged.append(damaged_view(Damaged("entry", place, None, visible(reason[:300]))))
    return PageView[Any](items=items, next_cursor=page.next_cursor, damaged=damaged)


def page_of(whole: Sequence[Item], key: Callable[[Item], str], limit: int, cursor: str | None) -> PageView[Item]:
    """The part of a list that is had as a whole which follows ``cursor``: the encoded ``key`` of an item.

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
    return PageView[Item](items=items, next_cursor=following)


def _key_in(cursor: str) -> str | None:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def rfc3339(seconds: float) -> str:
    """The time ``seconds`` after the epoch.

    Raises:
        ValueError: no calendar has it.
    """
    if not is_time(seconds):
        raise ValueError(f"{seconds!r} is no time from 1970 to 9999")
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def maybe_rfc3339(seconds: float | None) -> str | None:
    return None if seconds is None else rfc3339(seconds)


Json = dict[str, Any]
