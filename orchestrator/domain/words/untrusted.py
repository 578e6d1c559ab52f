"""The border: what comes from outside is looked at here once, before anything else sees it.

Text is well-formed Unicode without control characters, numbers are finite and fit both databases, objects name a key
once, and nothing is nested deeper than anybody writes by hand. The same holds for bodies of requests, for spec files
and for each line of a log that is imported. The standard library alone: the quick commands read this too.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from orchestrator.domain.words.errors import Problem

# Judgements: a spec is five deep, a log's deepest entry (the job in ``log_opened``) seven.
DEEPEST = 64
MOST_PROBLEMS = 20
# What both databases, and most readers of JSON, take as an integer.
LARGEST = 2**63 - 1
# 0 to the year 9999, in seconds since the epoch: what can be written as RFC 3339.
LATEST_S = 253402300800.0

# Below these keys of a log stands what somebody's program printed: line breaks and colours belong there.
PRINTED = frozenset({"text", "message", "traceback", "stderr_tail", "detail", "reason", "unavailable", "provenance"})

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_LONE = re.compile(r"[\ud800-\udfff]")
# The same in JSON as it was written, before it is parsed: an escape that may mean either, a number that may be too
# large. What has none of these needs no further look, and that is nearly every line of a log.
_SUSPICIOUS = re.compile(
    rb"\\[bfnrt]|\\u00[0189]|\\u007|\\u[dD]|[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xed[\xa0-\xbf]"
    rb"|(?<![.\d])\d{16}|\d[eE][+\d]"
)


class Malformed(ValueError):  # noqa: N818 - reads as what happened
    """It is no JSON that can be taken; the text says why."""


class _Found(NamedTuple):
    """A value with its JSON pointer, how deep it stands, and whether it is what a program printed."""

    value: Any
    pointer: str
    depth: int
    printed: bool


def parse_json(raw: bytes) -> tuple[Any, list[Problem]]:
    """Return (what ``raw`` holds, what is wrong with its text and numbers).

    Raises:
        Malformed: it is no JSON, or an object names a key twice.
    """
    value = _parsed(raw)
    return value, problems_in(value) if _is_suspicious(raw) else []


def parse_entry(raw: bytes) -> tuple[Any, list[Problem]]:
    """The same for a line of a log. What programs printed is kept, with U+FFFD for what is no Unicode.

    Raises:
        Malformed: as ``parse_json``.
    """
    value = _parsed(raw)
    if not _is_suspicious(raw):
        return value, []
    found = problems_in(value, printed=PRINTED)
    return (value, found) if found else (mended(value), [])


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw, parse_constant=_no_constant, object_pairs_hook=_object)
    except RecursionError:
        raise Malformed("it is nested too deeply") from None
    except Malformed:
        raise
    except ValueError as error:
        raise Malformed(str(error)) from None


def _no_constant(name: str) -> Any:
    raise Malformed(f"{name} is no JSON number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in found if names.count(name) > 1)
        raise Malformed(f"an object names the key {twice!r} twice")
    return found


def _is_suspicious(raw: bytes) -> bool:
    return raw.count(b"[") + raw.count(b"{") > DEEPEST or _SUSPICIOUS.search(raw) is not None


def problems_in(value: Any, printed: frozenset[str] = frozenset(), control: bool = False) -> list[Problem]:
    """What of ``value`` (parsed JSON or YAML) may not come in, each with its JSON pointer; the first few.

    Args:
        printed: keys below which control characters, and what is no Unicode, are somebody's output.
        control: let control characters pass everywhere.
    """
    found: list[Problem] = []
    for item in _walk(value, printed):
        reason = _why_not(item, control)
        if reason is not None:
            found.append(Problem(visible(item.pointer), reason))
            if len(found) == MOST_PROBLEMS:
                break
    return found


def _walk(value: Any, printed: frozenset[str]) -> Iterator[_Found]:
    """Every value and every key, without recursion; nothing below what is too deep."""
    waiting = [_Found(value, "", 0, False)]
    while waiting:
        item = waiting.pop()
        yield item
        if item.depth > DEEPEST:
            continue
        below: list[_Found] = []
        if isinstance(item.value, Mapping):
            for key, one in item.value.items():
                pointer = f"{item.pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
                yield _Found(key, pointer, item.depth, item.printed)
                below.append(_Found(one, pointer, item.depth + 1, item.printed or key in printed))
        elif isinstance(item.value, list):
            below = [
                _Found(one, f"{item.pointer}/{n}", item.depth + 1, item.printed) for n, one in enumerate(item.value)
            ]
        waiting.extend(reversed(below))


def _why_not(item: _Found, control: bool) -> str | None:
    value = item.value
    if item.depth > DEEPEST:
        return f"nested more than {DEEPEST} deep"
    if isinstance(value, str):
        return None if item.printed or (control and is_well_formed(value)) else text_problem(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "a number that is not finite"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"a number beyond ±{LARGEST}"
    return None


def text_problem(text: str) -> str | None:
    """Why ``text`` cannot be a name or a label, or None."""
    if _LONE.search(text):
        return "text that is no Unicode: half of a surrogate pair stands alone"
    odd = _CONTROL.search(text)
    return None if odd is None else f"text with the control character U+{ord(odd[0]):04X}"


def is_well_formed(text: str) -> bool:
    """Whether ``text`` can be written as UTF-8."""
    return _LONE.search(text) is None


def mended(value: Any) -> Any:
    """``value`` with U+FFFD for each half of a surrogate pair that stands alone. Not for deeply nested values."""
    if isinstance(value, str):
        return _LONE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {mended(key): mended(item) for key, item in value.items()}
    return [mended(item) for item in value] if isinstance(value, list | tuple) else value


def visible(text: str) -> str:
    """``text`` as a person may see it: control characters and halves of surrogate pairs as escapes."""
    return _CONTROL.sub(_escape, _LONE.sub(_escape, text))


def _escape(found: "re.Match[str]") -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def is_time(seconds: Any) -> bool:
    """Whether ``seconds`` since the epoch can be written as a time."""
    return isinstance(seconds, int | float) and 0 <= seconds < LATEST_S
