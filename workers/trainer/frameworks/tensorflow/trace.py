"""What TensorFlow's profiler recorded, as plain tuples: the one place that knows the profiler's files.

It writes an XSpace of planes, one per device or host, of lines, one per thread or stream. Source of the format:
tsl/profiler/protobuf/xplane.proto; times are nanoseconds of a line plus picoseconds of an event.
"""

import bisect
import collections
import glob
import os
import re
import shutil
import tempfile
import time
from typing import Any, Callable, ContextManager, List, Sequence

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from workers.trainer.base.signatures import Data

MARK = "tbd."
WHOLE = "whole"
_CLOCK = "clock"
# Judgement: the shortest of so many readings of both clocks aligns them, within a few microseconds.
_CLOCK_READINGS = 5
REST_S = 0.1  # between the last recorded call and the end of the profiler: judgement

# An executed operator is recorded as "name:Type"; the runtime's own regions as "Class::Method" or with a blank.
OPERATOR = re.compile(r"^([^:\s]*):([A-Za-z_]\w*)$")
# Operators lie within each other this deep at most (functions that are not inlined).
_DEPTH = 8
_CHANGES = {"MemoryAllocation": 1, "MemoryDeallocation": -1}

# One operator or kernel. ``operator``: its name in the graph ("" where a kernel belongs to none); ``name``: its type,
# of a kernel its own name; ``lane``: thread or stream; ``own``: seconds without what is nested in it. Times are
# seconds.
Event = collections.namedtuple("Event", "operator name lane start end own")

# An allocation (``size`` > 0) or its end (``size`` < 0). ``requested``: bytes asked for, of an end 0; ``operator``: the
# name of the one it was made for, or ""; ``until``: end of the operator it was made in on that thread, or None.
Change = collections.namedtuple("Change", "at allocator address size requested operator until")

# ``operators``: of all CPU devices; ``kernels``: of each GPU; ``marks``: [(name, start, end)]; ``whole``: (start, end)
# of the steps; ``ahead``: seconds by which the profiler's clock is behind CLOCK_MONOTONIC.
Trace = collections.namedtuple("Trace", "operators kernels marks changes whole ahead")


def mark(name: str) -> ContextManager[Any]:
    """Return a context manager that puts a mark of this name into the trace, for as long as it lasts."""
    return tf.profiler.experimental.Trace(MARK + name)


def record(run: Callable[[], Any]) -> Trace:
    """Call ``run`` under the profiler; return the ``Trace``."""
    folder = tempfile.mkdtemp(prefix="tbd-trace-")
    try:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        with tf.profiler.experimental.Profile(folder, options=options):
            readings = [_clock_reading() for _ in range(_CLOCK_READINGS)]
            with mark(WHOLE):
                run()
            # A precaution: threads that answer other workers come to rest before the profiler collects what they wrote.
            time.sleep(REST_S)
        space = xplane_pb2.XSpace()
        with open(glob.glob(os.path.join(folder, "**", "*.xplane.pb"), recursive=True)[0], "rb") as file:
            space.ParseFromString(file.read())
        return read(space, readings)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _clock_reading():
    with mark(_CLOCK):
        return time.monotonic()


def read(space: Any, readings: Sequence[float]) -> Trace:
    """Return the ``Trace`` of an XSpace; ``readings``: of CLOCK_MONOTONIC in each of its marks of the clock."""
    operators, kernels, marks, changes = [], [], [], []
    for plane in space.planes:
        if plane.name.startswith("/host:CPU"):
            read_host(plane, operators, marks, changes)
        elif plane.name.startswith("/device:GPU"):
            kernels.append(kernels_of(plane))
    marks.sort(key=lambda one: one[1])
    clocks = [(start, end) for name, start, end in marks if name == _CLOCK]
    _, ahead = min((end - start, at - (start + end) / 2) for (start, end), at in zip(clocks, readings))
    whole = next((start, end) for name, start, end in marks if name == WHOLE)
    changes.sort(key=lambda one: one.at)
    return Trace(sorted(operators, key=lambda one: one.start), kernels, marks, changes, whole, ahead)


def read_host(plane: Any, operators: List[Any], marks: List[Any], changes: List[Any]) -> None:
    """Add what the threads of the host have recorded."""
    for line in plane.lines:
        found, taken = [], []
        for event, name, start, end in _events(plane, line):
            operator = OPERATOR.match(name)
            if operator:
                found.append((start, end, operator.group(1), operator.group(2)))
            elif name.startswith(MARK):
                marks.append((name[len(MARK) :], start, end))
            elif name in _CHANGES:
                taken.append((start, _CHANGES[name], _stats(plane, event)))
        nested = _nested(found, line.name)
        operators.extend(nested)
        starts = [event.start for event in nested]
        for at, sign, stats in taken:
            around = nested[: bisect.bisect_right(starts, at)][-_DEPTH:] if sign > 0 else []
            until = next((event.end for event in reversed(around) if event.end > at), None)
            changes.append(_change(at, sign, stats, until))


def _nested(found, lane):
    """Return the ``Event`` of each (start, end, operator, name) of one thread, in order of their start."""
    events, open_ = [], []
    for start, end, operator, name in sorted(found, key=lambda one: (one[0], -one[1])):
        while open_ and events[open_[-1]].end <= start:
            open_.pop()
        if open_:
            around = events[open_[-1]]
            events[open_[-1]] = around._replace(own=around.own - (min(end, around.end) - start))
        open_.append(len(events))
        events.append(Event(operator, name, lane, start, end, end - start))
    return events


def _change(at, sign, stats, until):
    return Change(
        at,
        stats.get("allocator_name", ""),
        stats["addr"],
        sign * stats["allocation_bytes"],
        stats["requested_bytes"] if sign > 0 else 0,
        str(stats.get("tf_op", "")),
        until,
    )


def kernels_of(plane: Any) -> List[Any]:
    """Return the ``Event`` of each kernel and copy of a GPU, in order of their start."""
    found = []
    for line in plane.lines:
        if not line.name.startswith("Stream"):
            continue
        for event, name, start, end in _events(plane, line):
            operator = operator_of(_stats(plane, event))
            found.append(Event(operator, name, line.name, start, end, end - start))
    return sorted(found, key=lambda one: one.start)


def operator_of(stats: Data) -> str:
    """Return the name in the graph of the operator that launched a kernel, "" where none did.

    ``tf_op`` has it; where that is missing, the innermost part of the annotation that the launch was made in, without
    what stands between hashes (tsl/profiler/utils/parse_annotation.cc): ``name:Type#shape=(int32[3])#``.
    """
    told = stats.get("tf_op") or stats.get("kernel_annotation") or stats.get("annotation") or ""
    parts = [part for part in re.sub("#[^#]*#", "", str(told)).split("::") if part]
    operator = OPERATOR.match(parts[-1]) if parts else None
    return operator.group(1) if operator else ""


def _events(plane, line):
    """Yield (event, its name, start, end), in seconds of the profiler's clock."""
    for event in line.events:
        start = line.timestamp_ns * 1e-9 + event.offset_ps * 1e-12
        yield event, plane.event_metadata[event.metadata_id].name, start, start + event.duration_ps * 1e-12


def _stats(plane, event):
    found = {}
    for stat in event.stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind) if kind else None
        # Texts that come often are stored once.
        found[plane.stat_metadata[stat.metadata_id].name] = (
            plane.stat_metadata[value].name if kind == "ref_value" else value
        )
    return found
