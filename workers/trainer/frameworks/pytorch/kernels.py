"""The kernel table and the timeline of a recorded PyTorch trace: kernels on a GPU, operators on CPU devices.

An operator's time is its own, without the operators it calls, so that the rows of one thread add up to the time in
which any operator ran. What an operator does on the other cores is inside its time.
"""

from workers.trainer.frameworks import intervals

# Judgement: the timeline of two steps of a large network; what is left out is short.
MOST_SPANS = 4000


def table(trace, steps):
    """Return the answer of ``kernels``: see ``workers.trainer.frameworks``."""
    rows = {}
    for event in counted(trace):
        row = rows.setdefault(event.name, [event.name, 0, 0.0])
        row[1] += 1
        row[2] += event.own * 1e-6
    return {
        "steps": steps,
        "elapsed_s": _elapsed_s(trace),
        "active_s": active_s(trace),
        "method": "kineto kernels" if trace.cuda else "kineto operators, own time",
        "rows": sorted(rows.values(), key=lambda row: -row[2]),
        "spans": spans(trace),
    }


def activity(trace):
    """Return the answer of ``activity``."""
    method = "kernel-union" if trace.cuda else "operator-union"
    return {"active_s": active_s(trace), "elapsed_s": _elapsed_s(trace), "method": method}


def _elapsed_s(trace):
    return (trace.whole[1] - trace.whole[0]) * 1e-6


def counted(trace):
    """Return the events that the table counts: those that begin within the steps."""
    kinds = ("kernel",) if trace.cuda else ("operator", "communication")
    begin, end = trace.whole
    return [event for event in trace.events if event.kind in kinds and begin <= event.start < end]


def active_s(trace):
    """Return the seconds with a kernel running; on CPU devices with an operator: waiting for other ranks is none."""
    kind = "kernel" if trace.cuda else "operator"
    found = [(event.start, event.end) for event in trace.events if event.kind == kind]
    return intervals.union(intervals.clip(found, *trace.whole)) * 1e-6


def spans(trace):
    """Return the timeline {names, lanes, items}; the shortest are left out where there are too many."""
    longest = sorted(counted(trace), key=lambda event: event.start - event.end)[:MOST_SPANS]
    names, lanes, items = {}, {}, []
    for event in sorted(longest, key=lambda event: event.start):
        name = names.setdefault(event.name, len(names))
        lane = lanes.setdefault(event.lane, len(lanes))
        items.append([name, lane, event.start * 1e-6 + trace.ahead, (event.end - event.start) * 1e-6])
    return {"names": list(names), "lanes": list(lanes), "items": items}
