"""CSV and JSON lines."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.api.views.common import rfc3339
from orchestrator.domain.words.untrusted import mended
from orchestrator.services.result.export import Part
from orchestrator.services.result.export_columns import Column, Kind, finite, record_of

# RFC 4180: what makes a cell one in quotes.
_QUOTED = re.compile(r'[",\r\n]')
# What a spreadsheet takes for the beginning of a formula (OWASP, "CSV Injection"). Such text gets an apostrophe, which
# spreadsheets take as "this is text"; so does text that begins with an apostrophe, so that it can be taken off again.
_FORMULA = re.compile(r"[=+\-@\t\r\n＝＋－＠']")  # noqa: RUF001 - spreadsheets in Asia take the wide signs as well


def csv(columns: Sequence[Column], parts: Iterable[Part]) -> Iterator[bytes]:
    """CSV by RFC 4180, in UTF-8, with a line of names. Nothing is an empty cell, the empty text is ``""``."""
    yield _line([_text(column.name) for column in columns])
    for part in parts:
        records = (record_of(tuple(columns), line) for line in part)
        yield b"".join(_line([_cell(column, record[column.name]) for column in columns]) for record in records)


def _line(cells: Iterable[str]) -> bytes:
    return (",".join(cells) + "\r\n").encode()


def _cell(column: Column, value: Any) -> str:
    if value is None:
        return ""
    if column.kind is Kind.NUMBER or column.kind is Kind.INTEGER:
        return str(finite(value))
    if column.kind is Kind.TRUTH:
        return "true" if value else "false"
    if column.kind is Kind.TIME:
        return rfc3339(value)
    return _text(json_text(value) if column.kind is Kind.JSON else str(mended(value)))


def _text(text: str) -> str:
    if _FORMULA.match(text):
        text = f"'{text}"
    return '"' + text.replace('"', '""') + '"' if not text or _QUOTED.search(text) else text


def json_lines(columns: Sequence[Column], parts: Iterable[Part]) -> Iterator[bytes]:
    """A JSON object a line, with a key for every column."""
    for part in parts:
        records = (record_of(tuple(columns), line) for line in part)
        yield b"".join(json_text(as_json(columns, record)).encode() + b"\n" for record in records)


def as_json(columns: Sequence[Column], record: Mapping[str, Any]) -> dict[str, Any]:
    """The object of a record: times as texts, and numbers that are not finite."""
    return {column.name: _value(column.kind, record[column.name]) for column in columns}


def _value(kind: Kind, value: Any) -> Any:
    if value is None:
        return None
    if kind is Kind.TIME:
        return rfc3339(value)
    return finite(value) if kind is Kind.NUMBER else value


def json_text(value: Any) -> str:
    """``value`` as JSON on one line, with U+FFFD for what is no Unicode."""
    return json.dumps(mended(value), ensure_ascii=False, separators=(",", ":"))
