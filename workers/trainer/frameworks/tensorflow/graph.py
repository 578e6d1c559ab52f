"""What the graph of a traced ``tf.function`` says of its operators, as plain tuples."""

import collections
from typing import Any, List, Sequence, Set, Tuple

# ``type``: TensorFlow's word for what it does; ``inputs``: ``Input`` of each; ``bytes``: of all its outputs together,
# as far as their shapes are known; ``parameters_bytes``: of the trainable variables that it reads.
Operator = collections.namedtuple("Operator", "name type inputs bytes parameters_bytes")

# An output of another operator, by that one's name, and its size; looked through what only ``PASSES_ON``.
Input = collections.namedtuple("Input", "operator output bytes")

# Operators that give what they are given, in another shape or under another name.
PASSES_ON = ("Identity", "IdentityN", "Reshape")


def describe(graph: Any, variables: Sequence[Any]) -> List[Operator]:
    """Return the ``Operator`` of each operator in ``graph``, in the order in which they were made.

    Args:
        variables: the trainable ones, of one rank. Each is counted with the operator that reads it first.
    """
    inside = _inside(graph, variables)
    found = []
    for operator in graph.get_operations():
        parameters = sum(inside.pop(tensor.name, 0) for tensor in operator.inputs)
        inputs = [_input(tensor) for tensor in operator.inputs]
        size = sum(_bytes(tensor) for tensor in operator.outputs)
        found.append(Operator(operator.name, operator.type, inputs, size, parameters))
    return found


def lookups(graph: Any, variables: Sequence[Any]) -> Set[Tuple[str, int]]:
    """Return {(operator, bytes of the whole variable)} of what looks up rows of ``variables``, those of all ranks."""
    inside = _inside(graph, variables)
    operators = [one for one in graph.get_operations() if one.type == "ResourceGather"]
    return {(one.name, inside[tensor.name]) for one in operators for tensor in one.inputs if tensor.name in inside}


def unread(graph: Any, variables: Sequence[Any]) -> List[Any]:
    """Return those of ``variables``, of one rank, that nothing in ``graph`` reads."""
    outer = {id(one) for one, _ in graph.captures}
    return [variable for variable in variables if id(variable.handle) not in outer]


def _inside(graph, variables):
    """Return {name of the tensor that stands for a variable in ``graph``: its bytes}."""
    sizes = {id(variable.handle): variable.shape.num_elements() * variable.dtype.size for variable in variables}
    return {inner.name: sizes[id(outer)] for outer, inner in graph.captures if id(outer) in sizes}


def _input(tensor):
    while tensor.op.type in PASSES_ON:
        tensor = tensor.op.inputs[tensor.value_index if tensor.op.type == "IdentityN" else 0]
    return Input(tensor.op.name, tensor.value_index, _bytes(tensor))


def _bytes(tensor):
    if tensor.shape.rank is None or tensor.dtype.size is None:
        return 0
    return (tensor.shape.num_elements() or 0) * tensor.dtype.size
