"""Kineto's files (Chrome's trace format), read by arithmetic of their own: what tbd's parser is held to.

The union is that of a sweep over sorted ends, and not of ``workers.trainer.frameworks.intervals``.
"""

import gzip
import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

# What of a trace ran on a GPU (libkineto, ActivityType.h); older ones write them with capitals.
WORK = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
MARK = "tbd.whole"


class Figures(NamedTuple):
    """``union_s``: with at least one kernel or copy running; ``total_s``: of all of them added up."""

    count: int
    union_s: float
    total_s: float


def events(path: Path) -> List[Dict[str, Any]]:
    """Return the complete events of a file, plain or packed."""
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    # Kineto writes Windows' paths and names of old kernels without care for escapes.
    found = json.loads(text.decode("utf-8", "replace"), strict=False)
    listed = found["traceEvents"] if isinstance(found, dict) else found
    return [event for event in listed if event.get("ph") == "X"]


def whole(found: List[Dict[str, Any]]) -> Optional[Tuple[float, float]]:
    """Return the span of tbd's own mark around the steps, in microseconds; None in a file of somebody else."""
    marks = [
        event for event in found if event["name"] == MARK and str(event.get("cat", "")).lower() == "user_annotation"
    ]
    if not marks:
        return None
    return float(marks[0]["ts"]), float(marks[0]["ts"]) + float(marks[0]["dur"])


def work(found: List[Dict[str, Any]], span: Optional[Tuple[float, float]] = None) -> Figures:
    """Return the figures of what ran on GPUs, within ``span`` (microseconds)."""
    ends: List[Tuple[float, int]] = []
    count, total = 0, 0.0
    for event in found:
        if str(event.get("cat", "")).lower() not in WORK:
            continue
        start, end = float(event["ts"]), float(event["ts"]) + float(event["dur"])
        if span is not None:
            if not span[0] <= start < span[1]:
                continue
            end = min(end, span[1])
        count += 1
        total += end - start
        ends += [(start, 1), (end, -1)]
    running, since, union = 0, 0.0, 0.0
    for at, change in sorted(ends, key=lambda one: (one[0], -one[1])):
        if running == 0:
            since = at
        running += change
        if running == 0:
            union += at - since
    return Figures(count, union * 1e-6, total * 1e-6)
