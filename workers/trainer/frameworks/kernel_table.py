"""The answers of ``kernels`` and ``activity``, made of the items that a framework's profiler has recorded.

An item is a kernel on a GPU; on CPU devices it is an operator, or a pass over a node of the graph. It counts with its
own time, without what is nested in it: so the rows of one thread add up to the time in which any of its items ran. What
an operator does on other cores meanwhile is inside its time.
"""

import collections
from typing import Optional

from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import intervals

# Judgement: the timeline of two steps of a large network; what is left out is short.
MOST_SPANS = 4000

# ``lane``: thread, stream or device; ``own``: its time without what is nested in it. A framework's own tuple with these
# fields is an item too.
Item = collections.namedtuple("Item", "name lane start end own")


class Recording(collections.namedtuple("Recording", "items active whole ahead_s unit_s")):
    """So many steps on a profiler's clock, whose unit is ``unit_s`` seconds and which is ``ahead_s`` behind
    CLOCK_MONOTONIC.

    ``items``: those of the table and the timeline. ``active``: for each device the spans (``start``, ``end``) of what
    keeps it busy. ``whole``: (start, end) of the steps.
    """

    @property
    def elapsed_s(self) -> float:
        return (self.whole[1] - self.whole[0]) * self.unit_s

    @property
    def active_s(self) -> Optional[float]:
        """The seconds with anything running, the mean of the devices; None where the profiler has recorded nothing.

        Whoever trains runs something: then the profiler could not look, as where CUPTI is missing or serves another.
        """
        if not any(self.active):
            return None
        busy = [[(one.start, one.end) for one in found] for found in self.active]
        return sum(intervals.union(intervals.clip(found, *self.whole)) for found in busy) / len(busy) * self.unit_s


def table(recording: Recording, steps: int, method: str) -> Data:
    """Return the answer of ``kernels``: see ``workers.trainer.frameworks``."""
    rows = {}
    for item in recording.items:
        row = rows.setdefault(item.name, [item.name, 0, 0.0])
        row[1] += 1
        row[2] += item.own * recording.unit_s
    return {
        "steps": steps,
        "elapsed_s": recording.elapsed_s,
        "active_s": recording.active_s,
        "method": method,
        "rows": sorted(rows.values(), key=lambda row: -row[2]),
        "spans": _spans(recording),
    }


def activity(recording: Recording, gpu: bool = False) -> Data:
    """Return the answer of ``activity``; ``gpu``: whether the items are a GPU's kernels."""
    method = "kernel-union" if gpu else "operator-union"
    return {"active_s": recording.active_s, "elapsed_s": recording.elapsed_s, "method": method}


def _spans(recording):
    """Return the timeline {names, lanes, items}; the shortest are left out where there are too many."""
    longest = sorted(recording.items, key=lambda item: item.start - item.end)[:MOST_SPANS]
    names, lanes, found = collections.OrderedDict(), collections.OrderedDict(), []
    for item in sorted(longest, key=lambda item: item.start):
        name = names.setdefault(item.name, len(names))
        lane = lanes.setdefault(item.lane, len(lanes))
        start_s = item.start * recording.unit_s + recording.ahead_s
        found.append([name, lane, start_s, (item.end - item.start) * recording.unit_s])
    return {"names": list(names), "lanes": list(lanes), "items": found}
