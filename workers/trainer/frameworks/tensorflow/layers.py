"""Where a step's time goes in TensorFlow: its parts, the forward and backward pass of each layer, the exchange.

Nothing is serialised and nothing is added to the step: the operators of a recorded trace are told apart by their names
(``scopes``). An instant in which several operators run is shared equally among them, so that times of layers
add up to time that has passed; an instant in which none runs belongs to no layer, and to the part of the step whose
operator begins next. On a GPU the operators are the kernels that they have started.
"""

import collections
from typing import Any, Sequence, Tuple

from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import intervals
from workers.trainer.frameworks.tensorflow.graph import PASSES_ON
from workers.trainer.frameworks.tensorflow.scopes import INPUT, layer_of, of_first_replica, operator_of, part_of

_COMPUTING = ("forward", "backward", "update")
# What only brings something into the graph, or only works with weights, is no kind of layer: that is the operator with
# the largest result.
_READING = ("ReadVariableOp", "Const", "Placeholder", "NoOp") + PASSES_ON
_WEIGHTS = {"ReadVariableOp", "Const"}
_LATER = "the batch is on the device before the step begins, or its copying is part of the forward pass"


def profile(trace: Any, steps: int, graphs: Sequence[Any], exchanging: bool, gpu: bool) -> Data:
    """Return the answer of ``layers`` for a recorded trace of so many steps: see ``attribute``."""
    events = sorted((event for one in trace.kernels for event in one), key=_start) if gpu else trace.operators
    inputs = [(start, end) for name, start, end in trace.marks if name == INPUT]
    found = attribute(events, inputs, trace.whole, steps, graphs, exchanging, gpu)
    if "backward_t" in found:
        found["backward_t"] += trace.ahead
    return found


def _start(event):
    return event.start


def attribute(
    events: Sequence[Any],
    inputs: Any,
    whole: Tuple[float, float],
    steps: int,
    graphs: Sequence[Tuple[Sequence[Any], int]],
    exchanging: bool,
    gpu: bool = False,
) -> Data:
    """Return the answer of ``layers``; besides ``exposed_exchange_s``, per step, and ``backward_t``: when the backward
    pass of the exchanges began, on the clock of the events.

    Args:
        events: the operators of all CPU devices, or the kernels of all GPUs, in order of their start.
        inputs: [(start, end)] in which the process waited for a batch.
        whole: (start, end) of the steps.
        graphs: of each update of a step the ``graph.Operator`` of each operator, and how often a step carries it out.
        exchanging: whether gradients are exchanged with other ranks.
    """
    events = [event for event in events if whole[0] <= event.start < whole[1] and event.operator]
    rounds = [one for graph, times in graphs for one in _rounds(graph, events, steps * times)] if exchanging else []
    exchanged = [span for spans in rounds for span in spans.values()]
    layers, parts = _shared(events, inputs, exchanged, whole)
    breakdown = {part + "_s": parts[part] / steps for part in ("input",) + _COMPUTING}
    breakdown.update(host_to_device_s=None if gpu else 0.0, exchange_s=intervals.union(exchanged) / steps)
    what = "kernels" if gpu else "operators"
    found = {
        "steps": steps,
        "elapsed_s": whole[1] - whole[0],
        "method": "xplane %s by name scopes, an instant shared among those that run" % what,
        "serialised": False,
        "breakdown": breakdown,
        "rows": _rows([operator for graph, _ in graphs for operator in graph], layers, steps),
        "exchanges": [],
        "exposed_exchange_s": parts["exchange"] / steps,
    }
    if gpu:
        breakdown["reasons"] = {"host_to_device_s": _LATER}
    backward_t = _backward_t(events, steps, graphs) if rounds else None
    if backward_t is not None:
        found.update(backward_t=backward_t, exchanges=_last(rounds[-1], backward_t))
    return found


def _shared(events, inputs, exchanged, whole):
    """Return {(layer, part): seconds} and {part: seconds}; the parts add up to the whole."""
    layers, parts = collections.Counter(), collections.Counter()
    running, exchanging, waiting = {}, 0, 0
    at = whole[0]
    for time, kind, change, key in _edges(events, inputs, exchanged, whole):
        passed, at = time - at, time
        if running:
            count = float(sum(running.values()))
            for (layer, part), number in running.items():
                layers[layer, part] += passed * number / count
                parts[part] += passed * number / count
        elif exchanging:
            parts["exchange"] += passed
        elif waiting:
            parts["input"] += passed
        else:
            # Between operators: what is next is being started. After the last one, the update is being waited for.
            parts[key[1] if kind == "operator" else "update"] += passed
        if kind == "operator":
            running[key] = running.get(key, 0) + change
            if not running[key]:
                del running[key]
        elif kind == "exchange":
            exchanging += change
        elif kind == "input":
            waiting += change
    return layers, parts


def _edges(events, inputs, exchanged, whole):
    """Return (time, kind, +1 or -1, (layer, part) or None) of all beginnings and ends, in order."""
    spans = [(span, "input", None) for span in inputs] + [(span, "exchange", None) for span in exchanged]
    for event in events:
        part = part_of(event.operator)
        if part in _COMPUTING:
            spans.append(((event.start, event.end), "operator", (layer_of(event.operator), part)))
    edges = [(whole[1], "end", 0, None)]
    for (start, end), kind, key in spans:
        edges.append((max(start, whole[0]), kind, 1, key))
        edges.append((min(end, whole[1]), kind, -1, key))
    return sorted(edges, key=lambda edge: edge[0])


def _rows(graph, layers, steps):
    """Return the layers that take time or have parameters, in the order of the forward pass."""
    types, parameters = collections.OrderedDict(), collections.Counter()
    type_of = {operator.name: operator.type for operator in graph}
    for operator in graph:
        if part_of(operator.name) != "forward":
            continue
        layer = layer_of(operator.name)
        parameters[layer] += operator.parameters_bytes
        fed_by = {type_of.get(one.operator) for one in operator.inputs}
        size = 0 if fed_by <= _WEIGHTS else operator.bytes
        if operator.type not in _READING and size > types.get(layer, (-1, None))[0]:
            types[layer] = (size, operator.type)
    found = []
    for layer in list(types) + [layer for layer, _ in layers if layer not in types]:
        seconds = [layers.pop((layer, part), 0.0) / steps for part in ("forward", "backward")]
        if any(seconds):
            row = {"name": layer, "kind": types.get(layer, (0, "AddN"))[1], "parameters_bytes": parameters[layer]}
            found.append(dict(row, forward_s=seconds[0], backward_s=seconds[1]))
    return found


def _rounds(graph, events, steps):
    """Return for each step {the ``_Exchange``: (start, end)}.

    An exchange lasts from the first of its operators to the end of the last; where none is recorded (Horovod's are
    not), from when its gradients are there to when the update takes them over.
    """
    times = collections.defaultdict(list)
    for event in events:
        times[operator_of(event.operator)].append(event)
    rounds = [collections.OrderedDict() for _ in range(steps)]
    for one in _exchanges(graph):
        givers = [gradient.operator for gradient in one.gradients]
        for step, spans in enumerate(rounds):
            own, given, taken = [_of_step(times, names, step, steps) for names in (one.operators, givers, one.takers)]
            if own:
                spans[one] = (min(event.start for event in own), max(event.end for event in own))
            elif given and taken:
                start = max(event.end for event in given)
                spans[one] = (start, max(start, min(event.start for event in taken)))
    return rounds


def _of_step(times, names, step, steps):
    """Return the events of operators in the step of that number: each runs as often in every step."""
    found = []
    for name in names:
        count = len(times.get(name, ())) // steps
        found.extend(times.get(name, ())[step * count : (step + 1) * count])
    return found


# Operators of the exchange that feed each other. ``gradients``: the ``graph.Input`` of each that comes in;
# ``takers``: names of what works with the result, the next ones first.
_Exchange = collections.namedtuple("_Exchange", "operators gradients takers")


def _exchanges(graph):
    member, takers = {}, collections.defaultdict(list)
    inputs = {operator.name: operator.inputs for operator in graph}
    for operator in graph:
        if part_of(operator.name) == "exchange" and operator.type not in PASSES_ON:
            _join(member, operator.name, [one.operator for one in operator.inputs if one.operator in member])
        for one in operator.inputs:
            takers[one.operator].append(operator.name)
    found = []
    for group in sorted({id(names): sorted(names) for names in member.values()}.values()):
        # What an operator takes twice, as the gradient of two weights that are only added up, is sent twice.
        gradients = collections.Counter()
        for name in group:
            gradients |= collections.Counter(one for one in inputs[name] if part_of(one.operator) == "backward")
        if gradients:
            found.append(_Exchange(tuple(group), tuple(sorted(gradients.elements())), tuple(_after(group, takers))))
    return found


def _join(member, name, others):
    """Make one group of ``name`` and the groups that ``others`` are in."""
    group = {name}.union(*(member[other] for other in others))
    for one in group:
        member[one] = group


def _after(group, takers):
    """Return the operators of the update that are fed by ``group``, directly or by each other."""
    found = []
    reached = list(group)
    for name in reached:
        # Nothing is recorded of those that TensorFlow has optimised away.
        new = [one for one in takers[name] if part_of(one) == "update" and one not in found]
        found.extend(new)
        reached.extend(new)
    return found


def _backward_t(events, steps, graphs):
    """Return when the last step's backward pass, that of its last update, began: the first of its operators, of those
    that run once per update.

    None where no such operator was recorded.
    """
    backward = [event for event in events if part_of(event.operator) == "backward"]
    if len(graphs) > 1:
        graph, times = graphs[-1]
        own, steps = {operator.name for operator in graph}, steps * times
        backward = [event for event in backward if operator_of(event.operator) in own]
    count = collections.Counter(event.operator for event in backward)
    last = {event.operator: event.start for event in backward if count[event.operator] == steps}
    return min(last.values()) if last else None


def _last(spans, backward_t):
    """Return the exchanges of one step: [{name, bytes, start_s, end_s}], from the start of its backward pass."""
    found = []
    for exchange, (start, end) in sorted(spans.items(), key=lambda item: item[1]):
        # Each rank of this process gives as much.
        gradients = [gradient for gradient in exchange.gradients if of_first_replica(gradient.operator)]
        layers = {layer_of(gradient.operator) for gradient in gradients}
        what = layers.pop() if len(layers) == 1 else "%d gradients" % len(gradients)
        size = sum(gradient.bytes for gradient in gradients)
        entry = {"name": "%d: %s" % (len(found), what), "bytes": size}
        found.append(dict(entry, start_s=start - backward_t, end_s=end - backward_t))
    return found
