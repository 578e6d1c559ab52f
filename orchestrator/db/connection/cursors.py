"""The opaque cursors of lists: where the last page ended, as (created_at, id)."""

import base64
import binascii
import json

from orchestrator.domain.words.errors import InvalidRequest, Problem

Position = tuple[float, str]


def encode(position: Position) -> str:
    """The cursor of a list that goes on after ``position``."""
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def decode(cursor: str) -> Position:
    """The position that ``encode`` put into ``cursor``.

    Raises:
        InvalidRequest: it is not one of ours.
    """
    try:
        data = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, ValueError, RecursionError):
        raise _not_ours() from None
    if not (isinstance(data, list) and len(data) == 2 and isinstance(data[0], float) and isinstance(data[1], str)):
        raise _not_ours()
    if not data[1].isascii() or "\0" in data[1]:
        raise _not_ours()
    return data[0], data[1]


def _not_ours() -> InvalidRequest:
    return InvalidRequest([Problem("/cursor", "this is no cursor of a list: take next_cursor as it was answered")])
