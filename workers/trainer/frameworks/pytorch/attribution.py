"""Which layer each event of a PyTorch trace belongs to."""

import collections
from typing import Any, Sequence

from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import intervals
from workers.trainer.frameworks.pytorch.trace import LAYER, MARK, PART, WAIT, Trace

# Names of rows that are no module's: what the whole network does itself, what the loss does beside it.
NETWORK = "(network)"
LOSS = "(loss)"
_PART, _LAYER = MARK + PART, MARK + LAYER
# The owner of what is nested in the input.
_INPUT = ("input", False)

PARTS = ("input", "host_to_device", "forward", "backward", "exchange", "update")


def attribute(trace: Trace, steps: int, layers: Sequence[Any], unseen: Any = None, gradient_bytes: int = 4) -> Data:
    """Return the answer of ``layers`` from a trace with marks; besides ``exposed_exchange_s``, per step,
    and ``backward_t``, when the last backward pass began, on CLOCK_MONOTONIC.

    Args:
        layers: what the numbers in the marks mean, each with ``name``, ``kind``, ``parameters_bytes``.
        unseen: why the exchange between ranks is not in the trace, or None.
        gradient_bytes: of one number of what is exchanged.
    """
    owners = _owners(trace.events)
    forward, backward = _forward(trace, owners), _backward(trace, owners)
    rows = []
    for position in sorted(forward, key=lambda one: forward[one][0]):
        name, kind, parameters_bytes = layers[position] if position is not None else (LOSS, "loss", 0)
        began, forward_us = forward[position]
        per_step = [us * 1e-6 / steps for us in (forward_us, backward.get(position, 0.0))]
        rows.append({"name": name, "kind": kind, "parameters_bytes": parameters_bytes})
        rows[-1].update(forward_s=per_step[0], backward_s=per_step[1])
    exchanged = _exchanges(trace)
    begun = [event.start for event in trace.events if event.name == _PART + "backward"][-1]
    breakdown, exposed_s = _breakdown(trace, steps, exchanged)
    found = {
        "steps": steps,
        "elapsed_s": (trace.whole[1] - trace.whole[0]) * 1e-6,
        "method": "kineto " + ("kernels" if trace.cuda else "operators") + " by module hooks and sequence numbers",
        "serialised": False,
        "breakdown": breakdown,
        "rows": rows,
        "backward_t": begun * 1e-6 + trace.ahead,
        "exchanges": _last_step(trace, exchanged, begun, gradient_bytes),
        "exposed_exchange_s": exposed_s,
    }
    if unseen:
        breakdown.update(exchange_s=None, reasons={"exchange_s": unseen})
        if trace.cuda:  # waiting for a stream takes no time of the thread that is marked
            found["exposed_exchange_s"] = None
            breakdown["reasons"]["exposed_exchange_s"] = unseen
    return found


def _owners(events):
    """Return for each event the number of the layer that it is nested in, None outside of all layers, and whether it
    is nested in the forward part at all: [(number, within)]. Layers that act, to make a batch, are input."""
    owners = []
    # Parents begin before their children do, and so come first.
    for event in events:
        if event.name == _PART + "input" or (event.parent is not None and owners[event.parent] == _INPUT):
            owners.append(_INPUT)
        elif event.name.startswith(_LAYER):
            owners.append((int(event.name[len(_LAYER) :]), True))
        elif event.name == _PART + "forward":
            owners.append((None, True))
        else:
            owners.append(owners[event.parent] if event.parent is not None else (None, False))
    return owners


def _forward(trace, owners):
    """Return {layer: [start of its first operator, time of its operators in all steps]} for layers that have any.

    On CPU devices that is the time which passed in the layer's marks, without the layers in it: a layer's own Python
    is part of its pass.
    """
    found = {}
    for event, (layer, within) in zip(trace.events, owners):
        if within and event.kind == "operator":
            found.setdefault(layer, [event.start, 0.0])
            found[layer][1] += event.launched
    if not trace.cuda:
        spent = _exclusive(trace.events, owners)
        for layer, entry in found.items():
            entry[1] = spent[layer]
    return found


def _exclusive(events, owners):
    spent = collections.Counter()
    for event, (layer, within) in zip(events, owners):
        if not within or not event.name.startswith((_LAYER, _PART)):
            continue
        spent[layer] += event.end - event.start
        if event.parent is not None and owners[event.parent][1]:
            spent[owners[event.parent][0]] -= event.end - event.start
    return spent


def _backward(trace, owners):
    """Return {layer: time of the nodes of the backward graph that are gradients of its operators, in all steps}."""
    makers = {}
    for event, (layer, within) in zip(trace.events, owners):
        # Operators that make no node carry the number of the next one: the last that begins with a number made it.
        if within and event.sequence >= 0:
            makers[event.sequence] = layer
    found, last = collections.Counter(), {}
    for event, spent in _nodes(trace):
        # A weight's gradient is added up right after the node that made it, on the same thread.
        layer = makers[event.sequence] if event.sequence in makers else last.get(event.lane)
        last[event.lane] = layer
        found[layer] += spent
    return found


def _nodes(trace):
    """Return [(node of the backward graph, its time)], without what communication is in it, in order.

    A node that runs in a forward pass, as for a gradient penalty, is a part of the loss and not of the backward pass.
    On CPU devices its time begins where the node before it ends: what the engine does in between is for the next one.
    On a GPU it is that of the kernels it started.
    """
    nodes, spent, within, reached, until = [], {}, [], {}, 0.0
    for position, event in enumerate(trace.events):
        node, around = (None, False) if event.parent is None else within[event.parent]
        communicates = event.kind == "communication"
        if event.name == _PART + "backward":
            reached[event.lane], until = event.start, event.end
        elif event.kind == "node" and node is None and event.start < until:
            node = position
            nodes.append(node)
            spent[node] = 0.0 if trace.cuda else event.end - reached.get(event.lane, event.start)
            reached[event.lane] = event.end
        within.append((node, around or communicates))
        if node is not None and trace.cuda and not (around or communicates):
            spent[node] += event.launched
        if node is not None and not trace.cuda and communicates and not around:
            spent[node] -= event.end - event.start
    return [(trace.events[node], spent[node]) for node in nodes]


def _exchanges(trace):
    """Return the events of the exchange in order of their start: on a GPU the communication library's kernels."""
    if trace.cuda:
        kernels = [event for event in trace.events if event.kind == "kernel" and event.name.startswith("nccl")]
        return sorted(kernels, key=lambda event: event.start)
    return [event for event in trace.events if event.kind == "communication" and event.name.startswith("gloo:")]


def _breakdown(trace, steps, exchanged):
    """Return the parts' seconds per step, and the seconds of a step in which only the exchange goes on."""
    spent = collections.Counter()
    nodes = [event for event in trace.events if event.kind == "node"]
    exposed = 0.0
    for event in trace.events:
        if not event.name.startswith(_PART):
            continue
        name, end = event.name[len(_PART) :], event.end
        if name == WAIT:
            exposed += end - event.start
            spent["update"] -= end - event.start
            continue
        if name == "backward" and exchanged and not trace.cuda:
            # What comes after the last gradient is waiting for other ranks.
            end = max([node.end for node in nodes if event.start <= node.start < end] or [end])
            exposed += event.end - end
        spent[name] += end - event.start
    if trace.cuda:
        exposed = _only_exchange(trace, exchanged)
    spent["exchange"] = intervals.union([(event.start, event.end) for event in exchanged])
    return {name + "_s": spent[name] * 1e-6 / steps for name in PARTS}, exposed * 1e-6 / steps


def _only_exchange(trace, exchanged):
    kernels = [event for event in trace.events if event.kind == "kernel"]
    others = [event for event in kernels if not event.name.startswith("nccl")]
    covered = [intervals.union([(event.start, event.end) for event in events]) for events in (kernels, others)]
    return covered[0] - covered[1]


def _last_step(trace, exchanged, begun, gradient_bytes):
    """Return the exchanges of the last step: [{name, bytes, start_s, end_s}], from ``begun``, its backward pass.

    How large each is stands with the call, and calls come in the order in which they are carried out. Where the
    profiler did not record as many calls as exchanges, sizes are unknown and nothing is told.
    """
    calls = [event for event in trace.events if event.kind == "communication" and event.elements]
    calls = [event for event in calls if event.name.startswith(("gloo:", "nccl:"))]
    if len(calls) != len(exchanged):
        return []
    found = []
    for call, event in zip(calls, exchanged):
        if event.start >= begun:
            entry = {"name": "bucket %d" % len(found), "bytes": gradient_bytes * call.elements}
            entry.update(start_s=(event.start - begun) * 1e-6, end_s=(event.end - begun) * 1e-6)
            found.append(entry)
    return found
