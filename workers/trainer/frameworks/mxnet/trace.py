"""What MXNet's profiler writes (Chrome's trace event format), without MXNet: operators, marks and allocated bytes.

Source of the format: MXNet 1.9.1, src/profiler/profiler.h and storage_profiler.h; times are microseconds since the
epoch. A device is a process of the trace, with a name such as ``cpu/0``; an operator on it is a pair of events ``B``
and ``E`` that follow each other in the file. A task of ours is a pair of ``b`` and ``e``. What is allocated on a
device is counted after each allocation and each release. The exchange through a distributed store or through Horovod
stands under names of its own; it lasts from when it is ready to begin, and many wait at the same time.
"""

import collections
import json
from typing import Any, List, Sequence

from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import kernel_table
from workers.trainer.frameworks.mxnet import counts
from workers.trainer.frameworks.mxnet.counts import Count

# How the names of exchanges through a distributed store and through Horovod begin.
EXCHANGE = ("KVStore", "horovod_")

# ``start``, ``end``: microseconds since the epoch.
Operator = collections.namedtuple("Operator", "name device start end")

# ``tasks``: {name: [(start, end)]}; ``allocated``: {device: [(time, bytes now)]}; all in order of time, and counts in
# that in which they were made.
Trace = collections.namedtuple("Trace", "operators tasks allocated")


def read(path: str) -> Trace:
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
            count = Count(event["ts"], event.get("tid"), event["args"][event["name"]])
            found[event["name"][len("Memory: ") :]].append(count)
    return {
        device: [(count.at, count.bytes) for count in counts.in_order(entries)] for device, entries in found.items()
    }


def changes(trace: Trace, device: str) -> List[Any]:
    """Return [(time, bytes)] of what was allocated (released: negative) on a device, in order."""
    found, before = [], 0
    for at, count in trace.allocated.get(device, []):
        if count != before:
            found.append((at, count - before))
        before = count
    return found


def together(trace: Trace, devices: Sequence[str]) -> List[Any]:
    """Return [(time, bytes now)] of what is allocated on several devices, in order."""
    found, now = [], dict.fromkeys(devices, 0)
    changed = [(at, device, count) for device in devices for at, count in trace.allocated.get(device, [])]
    for at, device, count in sorted(changed, key=lambda change: change[0]):
        now[device] = count
        found.append((at, sum(now.values())))
    return found


def activity(trace: Trace, task: str, devices: Sequence[str]) -> Data:
    """Return the answer of ``activity`` for the last time that ``task`` went on; see ``kernels``."""
    return kernel_table.activity(_recording(trace, task, devices, 0.0))


def kernels(trace: Trace, task: str, steps: int, devices: Sequence[str], ahead_s: float) -> Data:
    """Return the answer of ``kernels``: each operator's calls and time on all devices of the process.

    Args:
        devices: names as in the trace.
        ahead_s: CLOCK_MONOTONIC less the trace's clock, in seconds.
    """
    method = "MXNet profiler, operators of the engine one by one; active: mean of the process's devices"
    return kernel_table.table(_recording(trace, task, devices, ahead_s), steps, method)


def _recording(trace, task, devices, ahead_s):
    """Items are the operators that began while ``task`` went on; an exchange with other processes is waiting."""
    begun, ended = trace.tasks[task][-1]
    operators = [operator for operator in trace.operators if begun <= operator.start < ended]
    computing = [operator for operator in operators if not operator.name.startswith(EXCHANGE)]
    active = [[operator for operator in computing if operator.device == device] for device in devices]
    return kernel_table.Recording(list(_items(operators)), active, (begun, ended), ahead_s, 1e-6)


def _items(operators):
    """Yield each operator as an item. Exchanges wait at the same time: own is when no earlier one was on its way."""
    reached = {}
    for name, device, start, end in operators:
        alone = start
        if name.startswith(EXCHANGE):
            alone = min(end, max(start, reached.get(name, start)))
            reached[name] = max(end, reached.get(name, end))
        yield kernel_table.Item(name, device, start, end, end - alone)
