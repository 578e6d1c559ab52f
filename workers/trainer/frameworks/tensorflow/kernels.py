"""The kernel table and the timeline of a recorded TensorFlow trace: kernels on GPUs, operators on CPU devices.

An operator's time is its own, on the thread that runs it; what it does on the other threads of its device meanwhile
is inside that time. An operator that only starts something and returns, as an exchange between processes does, has
the time of the starting: see the exchange in ``layers``.
"""

from workers.trainer.frameworks import intervals

# Judgement: the timeline of two steps of a large network; what is left out is short.
MOST_SPANS = 4000
# Operators that last as long as an exchange with other processes.
_WAITING = "Collective"


def table(trace, steps, gpu):
    """Return the answer of ``kernels``: see ``workers.trainer.frameworks``."""
    begin, end = trace.whole
    events = [event for events in trace.kernels for event in events] if gpu else trace.operators
    events = [event for event in events if begin <= event.start < end]
    rows = {}
    for event in events:
        row = rows.setdefault(event.name, [event.name, 0, 0.0])
        row[1] += 1
        row[2] += event.own
    return {
        "steps": steps,
        "elapsed_s": end - begin,
        "active_s": active_s(trace, gpu),
        "method": "xplane kernels" if gpu else "xplane operators, own time",
        "rows": sorted(rows.values(), key=lambda row: -row[2]),
        "spans": spans(events, trace.ahead),
    }


def spans(events, ahead):
    """Return the timeline {names, lanes, items}; the shortest are left out where there are too many."""
    longest = sorted(events, key=lambda event: event.start - event.end)[:MOST_SPANS]
    names, lanes, items = {}, {}, []
    for event in sorted(longest, key=lambda event: event.start):
        name = names.setdefault(event.name, len(names))
        lane = lanes.setdefault(event.lane, len(lanes))
        items.append([name, lane, event.start + ahead, event.end - event.start])
    return {"names": list(names), "lanes": list(lanes), "items": items}


def active_s(trace, gpu):
    """Return the seconds with a kernel running, on CPU devices with an operator; of several GPUs it is the mean.

    All CPU devices of a process are one pool of threads. Waiting for other ranks is no active time on CPU devices.
    """
    active = trace.kernels if gpu else [[one for one in trace.operators if not one.name.startswith(_WAITING)]]
    unions = [intervals.union(intervals.clip([(e.start, e.end) for e in events], *trace.whole)) for events in active]
    return sum(unions) / len(unions)


def activity(trace, gpu):
    """Return the answer of ``activity``."""
    method = "kernel-union" if gpu else "operator-union"
    return {"active_s": active_s(trace, gpu), "elapsed_s": trace.whole[1] - trace.whole[0], "method": method}
