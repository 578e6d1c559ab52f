"""The time in which MXNet's operators ran, from the trace that its profiler writes (Chrome's trace event format).

Source of the format: MXNet 1.9.1, src/profiler/profiler.h; times are microseconds of one clock. A device is a process
of the trace, with a name such as ``cpu/0``; an operator on it is a pair of events ``B`` and ``E`` that follow each
other in the file. The exchange through a key-value store stands under names of its own and is not computing.
"""

import json

from workers.trainer.frameworks import intervals


def activity(path, task, devices):
    """Return {active_s, elapsed_s, method} of ``devices`` (names as in the trace) while ``task`` went on.

    Of several devices the active time is the mean.
    """
    with open(path, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    begun, ended = (event["ts"] for event in events if event.get("name") == task and event["ph"] in "be")
    pids = {event["args"]["name"]: event["pid"] for event in events if event["ph"] == "M"}
    active = [intervals.union(intervals.clip(_spans(events, pids[name]), begun, ended)) for name in devices]
    return {
        "active_s": sum(active) / len(active) * 1e-6,
        "elapsed_s": (ended - begun) * 1e-6,
        "method": "operator-union",
    }


def _spans(events, pid):
    """Return (start, end) of the operators on one device."""
    ours = [event for event in events if event["pid"] == pid and event["ph"] in "BE"]
    pairs = zip(ours[::2], ours[1::2])
    return [(first["ts"], last["ts"]) for first, last in pairs if not first["name"].startswith("KVStore")]
