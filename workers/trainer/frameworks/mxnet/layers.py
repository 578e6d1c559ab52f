"""Which layer each operator of an MXNet trace belongs to: arithmetic on ``trace``, without MXNet.

The trace names operators, not nodes of the graph. An engine of one thread per device runs what is ready, in the order
of the graph as far as it can be seen: so the nodes are followed as they become ready, and each operator of the trace
is the first ready node of its name. The backward pass goes through the same graph from its end, the gradient of ``X``
being called ``_backward_X``; what else runs there (sums of gradients) goes with the node before it.
"""

import collections
import json
from typing import Any, Iterator, Sequence, Tuple

from workers.trainer.base.signatures import Data
from workers.trainer.frameworks.mxnet import trace as mxnet_trace

# A node of the graph that computes. ``inputs``: positions of the nodes that it reads; ``row``: number of its layer.
Node = collections.namedtuple("Node", "op inputs row")

# ``layers``: [{name, kind, parameters_bytes}] in the order of the forward pass.
Graph = collections.namedtuple("Graph", "nodes layers")

OTHERS = {"name": "(other)", "kind": "other", "parameters_bytes": 0}

# Gradients under other names than their operator's.
_GRADIENTS = {"_rnn_param_concat": "_backward_Concat", "Reshape": "_backward_reshape"}

# The exchange between devices of one process is copies and sums, that of a distributed store has names of its own.
_BETWEEN_DEVICES = ("CopyCPU2CPU", "CopyGPU2GPU", "CopyGPU2CPU", "CopyCPU2GPU", "ElementwiseSum")


def graph(network: Any, parameters: Sequence[Any]) -> Graph:
    """Return the ``Graph`` of a hybridized block that has run: a layer is a block with operators of its own.

    Args:
        parameters: those of the model, without running statistics and constants.
    """
    weights = {parameter.name for parameter in parameters}
    blocks = {block.prefix: (name, block) for name, block in _blocks(network, "")}
    nodes, layers, numbers, places, counted = [], [], {}, {}, set()
    entries = json.loads(network._cached_graph[1].tojson())["nodes"]
    for index, entry in enumerate(entries):
        if entry["op"] == "null":
            continue
        prefix = max((one for one in blocks if entry["name"].startswith(one)), key=len, default=network.prefix)
        if prefix not in numbers:
            numbers[prefix] = len(layers)
            layers.append(_layer(*blocks[prefix], weights, counted))
        places[index] = len(nodes)
        inputs = [places[source] for source, _, _ in entry["inputs"] if source in places]
        nodes.append(Node(entry["op"], inputs, numbers[prefix]))
    return Graph(nodes, layers)


def _blocks(block, path):
    yield path or "(network)", block
    for name, child in block._children.items():
        for found in _blocks(child, path + "." + name if path else name):
            yield found


def _layer(name, block, weights, counted):
    """Return a layer; ``weights``: names of what is a weight; ``counted``: of those that an earlier one has, as a table
    that is used twice."""
    own = [p for p in block._reg_params.values() if p.name in weights and p.name not in counted]
    counted.update(p.name for p in own)
    size = sum(4 * p.data(p.list_ctx()[0]).size for p in own)
    return {"name": name, "kind": type(block).__name__, "parameters_bytes": size}


def attribute(trace: Any, found: Graph, devices: Sequence[str], task: str, step: str, taking: str) -> Data:
    """Return the answer of ``layers`` for the steps in the trace, without exchanges; means of steps and devices.

    Args:
        found: the ``Graph``.
        task, step, taking: names of the marks around all steps, each step, and the taking of its batches.
    """
    begun, ended = trace.tasks[task][-1]
    steps = [span for span in trace.tasks[step] if begun <= span[0] and span[1] <= ended]
    spent = collections.Counter()
    forward, backward = collections.Counter(), collections.Counter()
    takings = [(a, b) for a, b in trace.tasks[taking] if begun <= a and b <= ended]
    for start, end in steps:
        for device in devices:
            ours = [one for one in trace.operators if one.device == device and start <= one.start < end]
            ours = [one for one in ours if not _makes_batches(one, takings)]
            for operator, part, row in told_apart(ours, found.nodes):
                us = operator.end - operator.start
                spent[part] += us
                if part in ("forward", "backward"):
                    (forward if part == "forward" else backward)[row] += us
    share = 1e-6 / (len(steps) * len(devices))
    rows = [
        dict(layer, forward_s=forward[row] * share, backward_s=backward[row] * share)
        for row, layer in enumerate(found.layers)
    ]
    if forward[None] or backward[None]:
        rows.append(dict(OTHERS, forward_s=forward[None] * share, backward_s=backward[None] * share))
    taken = sum(b - a for a, b in takings)
    breakdown = {
        name + "_s": spent[name] * share for name in ("host_to_device", "forward", "backward", "exchange", "update")
    }
    breakdown["input_s"] = taken * 1e-6 / len(steps)
    return {
        "elapsed_s": (ended - begun) * 1e-6,
        "method": "MXNet profiler, operators of the engine one by one, followed through the graph",
        "serialised": False,
        "breakdown": breakdown,
        "rows": rows,
        "exchanges": [],
        "exposed_exchange_s": 0.0,
    }


def _makes_batches(operator, takings):
    """Whether an operator is a network's that acts, to make a batch; what copies one runs while others are taken."""
    return not operator.name.startswith("Copy") and any(a <= operator.start < b for a, b in takings)


def told_apart(operators: Sequence[Any], nodes: Sequence[Any]) -> Iterator[Tuple[Any, str, Any]]:
    """Yield (operator, part, row) for the operators of one step on one device, in order of their start."""
    names = {operator.name for operator in operators}
    ahead = _Followed(nodes, [node.inputs for node in nodes], [node.op for node in nodes], names)
    gradients = [_gradient(node.op, names) for node in nodes]
    back = _Followed(nodes, _readers(nodes), gradients, names, backwards=True)
    row, updating = None, False
    for operator in operators:
        # Of the gradients' norm, which only an update asks for.
        updating = updating or operator.name == "multi_sum_sq"
        if operator.name.startswith(mxnet_trace.EXCHANGE):
            yield operator, "exchange", None
            continue
        if updating or "_update" in operator.name:
            yield operator, "update", None
            continue
        if not ahead.done and not operator.name.startswith("_backward"):
            node = ahead.take(operator.name)
            if node is None and operator.name.startswith("Copy"):
                yield operator, "host_to_device", None
            else:
                yield operator, "forward", None if node is None else nodes[node].row
            continue
        node = back.take(operator.name)
        if node is None and operator.name in _BETWEEN_DEVICES:
            yield operator, "exchange", None
            continue
        row = row if node is None else nodes[node].row
        yield operator, "backward", row


def _gradient(op, names):
    """Return the name of an operator's gradient in the trace, None where it has none that runs."""
    plain = op.lstrip("_")
    for name in (
        _GRADIENTS.get(op),
        "_backward_" + op,
        "_backward_" + plain,
        "_backward_" + plain.replace("elemwise_", ""),
    ):
        if name in names:
            return name
    return None


def _readers(nodes):
    readers = [[] for _ in nodes]
    for position, node in enumerate(nodes):
        for source in node.inputs:
            readers[source].append(position)
    return readers


class _Followed(object):
    """The nodes of a graph as they become ready; those that run under no name in ``names`` are passed by."""

    def __init__(self, nodes, needs, labels, names, backwards=False):
        self._needs = [set(need) for need in needs]
        self._labels = [label if label in names else None for label in labels]
        self._waiting = list(range(len(nodes)))
        if backwards:
            self._waiting.reverse()
        self._finished = set()
        self._pass_by()

    @property
    def done(self):
        """Whether nothing is left that runs."""
        return not self._waiting

    def take(self, name):
        """Return the first ready node that runs under ``name``, now done; if none is ready, the first; or None."""
        named = [position for position in self._waiting if self._labels[position] == name]
        ready = [position for position in named if self._needs[position] <= self._finished]
        if not named:
            return None
        position = (ready or named)[0]
        self._finish(position)
        self._pass_by()
        return position

    def _finish(self, position):
        self._waiting.remove(position)
        self._finished.add(position)

    def _pass_by(self):
        """Go by what is ready and does not run; the order is such that one look is enough."""
        for position in list(self._waiting):
            if self._labels[position] is None and self._needs[position] <= self._finished:
                self._finish(position)
