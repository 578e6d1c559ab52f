"""TensorFlow's XSpaces of GPUs through tbd's own parser, held against a sum of their protocol buffers by hand.

``python3 -m tests.gpu.parsed_xplane FILE…`` in an interpreter with TensorFlow; as ``tests.gpu.parsed`` for PyTorch.
Times of the file are whole picoseconds: so is the other arithmetic.
"""

import sys
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Tuple

from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tests.gpu import recordings
from workers.trainer.frameworks import kernel_table
from workers.trainer.frameworks.tensorflow import kernels, trace

# Seconds, for each launch; the shortest kernels take a microsecond.
NEAR_S = 1e-11


class Figures(NamedTuple):
    """Of the streams of all GPUs: launches, all their times added up, and the mean union of the GPUs."""

    count: int
    total_s: float
    union_s: float


def by_hand(space: Any) -> Figures:
    """Return the figures of the file."""
    count, total, unions = 0, 0, []
    for plane in space.planes:
        if not plane.name.startswith("/device:GPU"):
            continue
        spans: List[Tuple[int, int]] = []
        for line in plane.lines:
            if line.name.startswith("Stream"):
                base = line.timestamp_ns * 1000
                spans += [(base + event.offset_ps, base + event.offset_ps + event.duration_ps) for event in line.events]
        count += len(spans)
        total += sum(end - start for start, end in spans)
        union, until = 0, 0
        for start, end in sorted(spans):
            union += max(0, end - max(start, until))
            until = max(until, end)
        unions.append(union)
    return Figures(count, total * 1e-12, sum(unions) / max(1, len(unions)) * 1e-12)


def trace_of(space: Any) -> Any:
    """Return the ``Trace`` of a file; the whole of it counts as the steps."""
    operators: List[Any] = []
    found: Dict[str, List[Any]] = {"marks": [], "changes": []}
    on_gpus = []
    for plane in space.planes:
        if plane.name.startswith("/host:CPU"):
            trace.read_host(plane, operators, found["marks"], found["changes"])
        elif plane.name.startswith("/device:GPU"):
            on_gpus.append(trace.kernels_of(plane))
    events = [event for one in on_gpus for event in one] or operators
    whole = (min(event.start for event in events), max(event.end for event in events) + 1e-6)
    operators.sort(key=lambda one: one.start)
    return trace.Trace(operators, on_gpus, found["marks"], found["changes"], whole, 0.0)


def held(path: Path) -> Tuple[str, bool]:
    """Return what is said of a file, and whether tbd's figures are those of the other arithmetic."""
    space = xplane_pb2.XSpace()
    space.ParseFromString(path.read_bytes())
    wanted, recorded = by_hand(space), trace_of(space)
    table = kernels.table(recorded, 1, True)
    count, total_s = sum(row[1] for row in table["rows"]), sum(row[2] for row in table["rows"])
    active_s = kernels.activity(recorded, True)["active_s"]
    known = sum(1 for one in recorded.kernels for event in one if event.operator)
    said = f"{path.name}: {len(recorded.kernels)} GPUs, {count} launches of {len(table['rows'])} kernels, "
    said += f"{1e3 * total_s:.4f} ms, active {1e3 * (active_s or 0.0):.4f} ms; by hand {wanted.count}, "
    said += f"{1e3 * wanted.total_s:.4f}, {1e3 * wanted.union_s:.4f} ms; {known} with their operator; "
    said += f"{len(recorded.operators)} operators of the host"
    near = abs(total_s - wanted.total_s) <= NEAR_S * max(1, count)
    near = near and abs((active_s or 0.0) - wanted.union_s) <= NEAR_S * max(1, count)
    timeline = len(table["spans"]["items"]) == min(count, kernel_table.MOST_SPANS)
    return said, near and timeline and count == wanted.count


if __name__ == "__main__":
    sys.exit(recordings.hold(held, sys.argv[1:]))
