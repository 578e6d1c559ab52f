"""What CNTK's profiler writes about its nodes (Chrome's trace event format), without CNTK: kernels, layers, parts.

Nodes are computed one after another by one thread; each pass over one is an event ``<uid>Forward`` or ``<uid>Backward``
with the uid ``<operation><number>``. Parts of a step have names of their own. Times are microseconds since about the
profiler's start. Source: CNTK 2.7, Source/PerformanceProfilerDll and what it wrote.
"""

import collections
import json
import re
from typing import List, Sequence, Tuple

from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import kernel_table

_NODE = re.compile(r"^(\D+)(\d+)(Forward|Backward)$")
# Leaves of the graph: the backward pass comes by and computes nothing.
_LEAVES = ("Constant", "Input", "Parameter")

# Our row -> CNTK's name of a part that no node stands for.
PARTS = (("Weight Update", "__Weight Update"), ("Gradient Aggregation", "__Gradient Aggregation"))
_BOTH_PASSES = "__Forward + Backward"
ITERATION = "_Minibatch Iteration"

LANE = "main thread"
METHOD = "CNTK's profiler with node timing: nodes of the network, one after another"

# ``node``: its uid, "" for a part of a step; ``times`` in microseconds.
Span = collections.namedtuple("Span", "name node backward start end")

OTHERS = {"name": "(other)", "kind": "other", "parameters_bytes": 0}


def read(path: str) -> List[Span]:
    """Return the events of a file as [Span] in order of their start, without the leaves of the network."""
    with open(path) as file:
        events = json.load(file)
    found, opened = [], collections.defaultdict(list)
    for event in events:
        if event["ph"] == "B":
            opened[event["name"]].append(event["ts"])
        elif opened[event["name"]]:
            found.append(_span(event["name"], opened[event["name"]].pop(), event["ts"]))
    found = [span for span in found if not (span.node and span.name.split(" ")[0] in _LEAVES)]
    return sorted(found, key=lambda span: (span.start, -span.end))


def _span(name, start, end):
    matched = _NODE.match(name)
    if not matched:
        return Span(name, "", False, start, end)
    operation, number, direction = matched.groups()
    return Span("%s %s" % (operation, direction.lower()), operation + number, direction == "Backward", start, end)


def working(spans: Sequence[Span]) -> List[Span]:
    """Return the spans that are kernels: nodes, updates, exchanges."""
    names = {theirs: ours for ours, theirs in PARTS}
    return [
        span if span.node else span._replace(name=names[span.name]) for span in spans if span.node or span.name in names
    ]


def kernels(spans: Sequence[Span], steps: int, elapsed_s: float, ahead_s: float) -> Data:
    """Return the answer of ``kernels``.

    Args:
        ahead_s: CLOCK_MONOTONIC less the trace's clock, in seconds.
    """
    found = working(spans)
    items = [kernel_table.Item(one.name, LANE, one.start, one.end, one.end - one.start) for one in found]
    computing = [span for span in found if span.name != "Gradient Aggregation"]
    whole = (found[0].start, found[0].start + elapsed_s * 1e6)
    return kernel_table.table(kernel_table.Recording(items, [computing], whole, ahead_s, 1e-6), steps, METHOD)


def layers(
    spans: Sequence[Span],
    steps: int,
    elapsed_s: float,
    input_s: float,
    table: Sequence[Tuple[Data, List[str]]],
    exchanged: bool,
) -> Data:
    """Return the answer of ``layers``.

    Args:
        input_s: seconds that batches were waited for, all steps together.
        table: [(row {name, kind, parameters_bytes}, [uids of its nodes])] in the order of the forward pass.
        exchanged: (name, bytes) of what the ranks exchange; None where there is one.

    ``backward_t`` is on the trace's clock.
    """
    share = 1e-6 / steps
    parts = dict.fromkeys(("host_to_device_s", "forward_s", "backward_s", "exchange_s", "update_s"), 0.0)
    for both in (span for span in spans if span.name == _BOTH_PASSES):
        forward, backward = (_extent(spans, both, direction) for direction in (False, True))
        parts["host_to_device_s"] += (forward[0] - both.start) * share
        # What comes between the passes and after them (clearing gradients, handing them over) is the backward pass's.
        parts["forward_s"] += (forward[1] - forward[0]) * share
        parts["backward_s"] += (both.end - forward[1]) * share
    for part, name in (("update_s", "__Weight Update"), ("exchange_s", "__Gradient Aggregation")):
        parts[part] = sum(span.end - span.start for span in spans if span.name == name) * share
    return {
        "steps": steps,
        "elapsed_s": elapsed_s,
        "method": METHOD,
        "serialised": False,
        "breakdown": dict(parts, input_s=input_s / steps),
        "rows": _rows(spans, table, share),
        "exchanges": _exchanges(spans, exchanged),
        "exposed_exchange_s": parts["exchange_s"],  # it begins when the backward pass has ended
        "backward_t": _last_backward(spans) * 1e-6,
    }


def _extent(spans, within, backward):
    """Return (start, end) of one direction's nodes within a span; its end where there are none."""
    found = [one for one in spans if one.node and one.backward == backward and within.start <= one.start < within.end]
    if not found:
        return within.end, within.end
    return min(one.start for one in found), max(one.end for one in found)


def _rows(spans, table, share):
    row_of = {uid: position for position, (_, uids) in enumerate(table) for uid in uids}
    spent = collections.Counter()
    for span in spans:
        if span.node:
            spent[row_of.get(span.node), span.backward] += (span.end - span.start) * share
    rows = [
        dict(row, forward_s=spent[position, False], backward_s=spent[position, True])
        for position, (row, _) in enumerate(table)
    ]
    rows.append(dict(OTHERS, forward_s=spent[None, False], backward_s=spent[None, True]))
    return [row for row in rows if row["parameters_bytes"] or row["forward_s"] or row["backward_s"]]


def _exchanges(spans, exchanged):
    """Return the exchange of the last step: CNTK tells of one for all parameters."""
    found = [span for span in spans if span.name == "__Gradient Aggregation"]
    if not found or not exchanged:
        return []
    last, start = found[-1], _last_backward(spans)
    return [
        {
            "name": exchanged[0],
            "bytes": exchanged[1],
            "start_s": (last.start - start) * 1e-6,
            "end_s": (last.end - start) * 1e-6,
        }
    ]


def _last_backward(spans):
    """Return the start of the last step's backward pass."""
    both = [span for span in spans if span.name == _BOTH_PASSES][-1]
    return _extent(spans, both, True)[0]
