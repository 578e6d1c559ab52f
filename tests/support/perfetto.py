"""What Perfetto's importer makes of a JSON trace: its rules, so that a trace can be held to them without Perfetto.

Followed from the source of its trace processor (github.com/google/perfetto, ec5d16b, August 2026), file by file:

* ``importers/json/json_trace_tokenizer.cc``: what an event must have, how times become nanoseconds;
* ``importers/json/json_trace_parser.cc``: what becomes of each phase, and what is counted as an error;
* ``importers/common/slice_tracker.cc`` (``MaybeCloseStack``): slices of a thread lie in each other or apart, to the
  nanosecond, in the order of time and, where that is equal, of the file;
* ``sorter/trace_sorter.h``: what is before 0 is dropped;
* ``util/json_parser.h``: which numbers and strings it can read.

An importer forgives what it can and counts it; ``imported`` returns the counts by the names of Perfetto's own table
``stats``, where a trace that keeps the rules has none.
"""

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

TOKENIZER = "json_tokenizer_failure"
PARSER = "json_parser_failure"
NEGATIVE = "trace_sorter_negative_timestamp_dropped"
OVERLAP = "slice_spill_overlapping_complete_event"
MISREAD = "a number that is read as another one"  # Perfetto does not notice
IGNORED = "what it passes over"  # unknown phases and metadata, no name: nor is this an error to it

NAMES = {"process_name": "name", "thread_name": "name", "process_sort_index": None, "thread_sort_index": None}
_MOST_DIGITS = 18  # of an int64, which it collects the digits before and after the point in


class Number(float):
    """A number with a point or an exponent, with its text."""

    text: str

    def __new__(cls, text: str) -> "Number":
        made = super().__new__(cls, text)
        made.text = text
        return made


@dataclass(frozen=True)
class Slice:
    """A slice on a thread's track, in nanoseconds; ``depth`` 0 is the outermost."""

    pid: int
    tid: int
    name: str
    start_ns: int
    duration_ns: int
    depth: int


@dataclass
class Imported:
    """``errors``: what Perfetto counts, with examples; ``counters``: (pid, name and key) -> [(ns, level)]."""

    errors: Counter[str] = field(default_factory=Counter)
    examples: list[Any] = field(default_factory=list)
    slices: list[Slice] = field(default_factory=list)
    counters: dict[tuple[int, str], list[tuple[int, float]]] = field(default_factory=dict)
    processes: dict[int, str] = field(default_factory=dict)
    threads: dict[tuple[int, int], str] = field(default_factory=dict)

    def error(self, stat: str, of: Any) -> None:
        self.errors[stat] += 1
        if len(self.examples) < 5:
            self.examples.append((stat, of))


def imported(text: str) -> Imported:
    """Import a trace.

    Raises:
        ValueError: Perfetto would not open it: it is no JSON, or not of the outer form.
    """
    trace = json.loads(text, parse_float=Number, parse_constant=_no_number)
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        raise ValueError("traceEvents is not an array")
    if re.search(r"\\u[dD][89a-fA-F]", text):
        raise ValueError("an escape that is reserved for surrogate pairs")
    found = Imported()
    events = [(ns, event) for event in trace["traceEvents"] for ns in [_tokenized(event, found)] if ns is not None]
    stacks: dict[tuple[int, int], list[Slice]] = {}
    for ns, event in sorted(events, key=lambda one: one[0]):  # stable, as its sorter
        {"X": _slice, "C": _counter, "M": _metadata}[event["ph"]](ns, event, found, stacks)
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _tokenized(event: Any, found: Imported) -> int | None:
    """The event's time in nanoseconds; None where it goes no further."""
    if not isinstance(event, dict) or not event.get("ph"):
        found.error(TOKENIZER, event)
    elif event["ph"] not in ("X", "C", "M"):
        found.error(IGNORED, event)
    elif event["ph"] == "M":
        return 0
    else:
        ns = _ns(event.get("ts"), found)
        if ns is not None and ns < 0:
            found.error(NEGATIVE, event)
            return None
        if ns is None or not all(_is_id(event.get(key)) for key in ("pid", "tid")):
            found.error(TOKENIZER, event)
            return None
        return ns
    return None


def _is_id(value: Any) -> bool:
    """What is not from 0 to 2^32 - 1 becomes 0, and an absent one falls in with others."""
    return type(value) is int and 0 <= value < 2**32


def _ns(microseconds: Any, found: Imported) -> int | None:
    if type(microseconds) not in (int, Number):
        return None
    return round(_read(microseconds, found) * 1000)


def _read(value: Any, found: Imported) -> float:
    """The number as its reader gets it: too many digits overflow without a word."""
    if isinstance(value, Number):
        digits = re.split(r"[eE]", value.text.lstrip("-"))[0].split(".")
        if any(len(part) > _MOST_DIGITS for part in digits):
            found.error(MISREAD, value.text)
    elif abs(value) >= 2**63:
        found.error(MISREAD, value)
    return value


def _slice(ns: int, event: dict[str, Any], found: Imported, stacks: dict[tuple[int, int], list[Slice]]) -> None:
    duration = _ns(event.get("dur"), found)
    if duration is None or duration < 0:
        found.error(PARSER, event)
        return
    if not event.get("name") or not isinstance(event.get("args", {}), dict):
        found.error(IGNORED, event)
    stack = stacks.setdefault((event["pid"], event["tid"]), [])
    while stack:
        last = stack[-1]
        end = last.start_ns + last.duration_ns
        instants = last.duration_ns == duration == 0
        if end < ns or (end == ns and not instants):
            stack.pop()
            continue
        break
    # All that are still open are looked at; those below the last one hold it, so only that can be crossed first.
    if any(ns < one.start_ns + one.duration_ns < ns + duration for one in stack):
        found.error(OVERLAP, event)
        return
    stack.append(Slice(event["pid"], event["tid"], event.get("name") or "[No name]", ns, duration, len(stack)))
    found.slices.append(stack[-1])


def _counter(ns: int, event: dict[str, Any], found: Imported, _: Any) -> None:
    levels = event.get("args")
    if not isinstance(levels, dict) or not levels:
        found.error(PARSER, event)
        return
    for key, value in levels.items():
        if type(value) not in (int, Number) or not math.isfinite(value):
            found.error(PARSER, event)
            continue
        level = _read(value, found)
        found.counters.setdefault((event["pid"], f"{event['name']} {key}"), []).append((ns, float(level)))


def _metadata(_: int, event: dict[str, Any], found: Imported, __: Any) -> None:
    name, told = event.get("name"), event.get("args")
    if name not in NAMES or not isinstance(told, dict) or not told:
        found.error(IGNORED, event)
    elif NAMES[name] is None:
        if type(told.get("sort_index")) not in (int, Number):
            found.error(PARSER, event)
    elif not isinstance(told.get("name"), str) or not told["name"]:
        found.error(PARSER, event)
    elif name == "process_name":
        found.processes[event["pid"]] = told["name"]
    else:
        found.threads[event["pid"], event["tid"]] = told["name"]
