"""What MXNet's profiler writes (Chrome's trace event format), without MXNet: operators, marks and allocated bytes.

Source of the format: MXNet 1.9.1, src/profiler/profiler.h and storage_profiler.h; times are microseconds since the
epoch. A device is a process of the trace, with a name such as ``cpu/0``; an operator on it is a pair of events ``B``
and ``E`` that follow each other in the file. A task of ours is a pair of ``b`` and ``e``. What is allocated on a
device is counted after each allocation and each release. The exchange through a distributed store or through Horovod
stands under names of its own; it lasts from when it is ready to begin, and many wait at the same time.
"""

import collections
import json

from workers.trainer.frameworks import intervals

# Judgement: the timeline of two steps of a large network; what is left out is short.
MOST_SPANS = 4000

# How the names of exchanges through a distributed store and through Horovod begin.
EXCHANGE = ("KVStore", "horovod_")

# ``start``, ``end``: microseconds since the epoch.
Operator = collections.namedtuple("Operator", "name device start end")

# ``tasks``: {name: [(start, end)]}; ``allocated``: {device: [(time, bytes now)]}; all in order of time.
Trace = collections.namedtuple("Trace", "operators tasks allocated")


def read(path):
    """Return the ``Trace`` in a file, which MXNet leaves open at its end while it may still go on."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    try:
        events = json.loads(text)["traceEvents"]
    except ValueError:
        events = json.loads(text + "]}")["traceEvents"]
    devices = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    return Trace(_operators(events, devices), _tasks(events), _allocated(events))


def _operators(events, devices):
    found = []
    opened = {}
    for event in events:
        if event["ph"] == "B":
            opened[event["pid"], event["tid"]] = event
        elif event["ph"] == "E":
            first = opened.pop((event["pid"], event["tid"]), None)
            if first is not None and first["name"] == event["name"]:
                found.append(Operator(event["name"], devices.get(event["pid"], ""), first["ts"], event["ts"]))
    return sorted(found, key=lambda operator: operator.start)


def _tasks(events):
    found, opened = collections.defaultdict(list), {}
    for event in sorted((event for event in events if event["ph"] in "be"), key=lambda event: event["ts"]):
        if event.get("cat") == "operator":
            continue
        if event["ph"] == "b":
            opened[event["name"]] = event["ts"]
        elif event["name"] in opened:
            found[event["name"]].append((opened.pop(event["name"]), event["ts"]))
    return dict(found)


def _allocated(events):
    found = collections.defaultdict(list)
    for event in events:
        if event["ph"] == "C" and event["name"].startswith("Memory: "):
            found[event["name"][len("Memory: ") :]].append((event["ts"], event["args"][event["name"]]))
    # Threads write one after another; a sort that keeps the order of equal times.
    return {device: sorted(entries, key=lambda entry: entry[0]) for device, entries in found.items()}


def changes(trace, device):
    """Return [(time, bytes)] of what was allocated (released: negative) on a device, in order."""
    found, before = [], 0
    for at, count in trace.allocated.get(device, []):
        if count != before:
            found.append((at, count - before))
        before = count
    return found


def within(trace, task):
    """Return (start, end) of the last time that ``task`` went on, and the operators that began in it."""
    begun, ended = trace.tasks[task][-1]
    return (begun, ended), [operator for operator in trace.operators if begun <= operator.start < ended]


def computing(operators):
    """Return the operators without exchanges with other processes, which are waiting."""
    return [operator for operator in operators if not operator.name.startswith(EXCHANGE)]


def activity(trace, task, devices):
    """Return {active_s, elapsed_s, method} of ``devices`` (names as in the trace) while ``task`` went on.

    Of several devices the active time is the mean.
    """
    (begun, ended), operators = within(trace, task)
    return {
        "active_s": active_s(computing(operators), devices, begun, ended),
        "elapsed_s": (ended - begun) * 1e-6,
        "method": "operator-union",
    }


def active_s(operators, devices, begun, ended):
    """Return the seconds with an operator running, the mean of the devices."""
    spans = [[(one.start, one.end) for one in operators if one.device == device] for device in devices]
    return sum(intervals.union(intervals.clip(found, begun, ended)) for found in spans) / len(devices) * 1e-6


def kernels(trace, task, steps, devices, ahead_s):
    """Return the answer of ``kernels``: each operator's calls and time on all devices of the process.

    Args:
        ahead_s: CLOCK_MONOTONIC less the trace's clock, in seconds.
    """
    (begun, ended), operators = within(trace, task)
    return {
        "steps": steps,
        "elapsed_s": (ended - begun) * 1e-6,
        "active_s": active_s(computing(operators), devices, begun, ended),
        "method": "MXNet profiler, operators of the engine one by one; active: mean of the process's devices",
        "rows": sorted(_rows(operators), key=lambda row: -row[2]),
        "spans": _spans(operators, ahead_s),
    }


def _rows(operators):
    """Yield [name, calls, total_s]; exchanges wait at the same time, their total is the time with any on its way."""
    spans = collections.defaultdict(list)
    for operator in operators:
        spans[operator.name].append((operator.start, operator.end))
    for name, found in spans.items():
        total = intervals.union(found) if name.startswith(EXCHANGE) else sum(end - start for start, end in found)
        yield [name, len(found), total * 1e-6]


def _spans(operators, ahead_s):
    """Return the timeline {names, lanes, items}; the shortest are left out where there are too many."""
    longest = sorted(operators, key=lambda operator: operator.start - operator.end)[:MOST_SPANS]
    names, lanes, items = collections.OrderedDict(), collections.OrderedDict(), []
    for operator in sorted(longest, key=lambda operator: operator.start):
        name = names.setdefault(operator.name, len(names))
        lane = lanes.setdefault(operator.device, len(lanes))
        items.append([name, lane, operator.start * 1e-6 + ahead_s, (operator.end - operator.start) * 1e-6])
    return {"names": list(names), "lanes": list(lanes), "items": items}
