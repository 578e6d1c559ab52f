"""What CNTK prints of a network before its first step, without CNTK: shapes of all nodes, and who shares which memory.

CNTK plans the life of every value and gradient when it first sees a network, and prints the plan at trace level 1:
nodes in groups, each group one matrix as large as its largest member. Lines are

    Validating --> Convolution61 = Convolution (Parameter3, Input56) : [7 x 7 x 3 x 16], … -> [32 x 32 x 16 x *]
    { Convolution97 : [16 x 16 x 16 x *]
      Parameter7 : [16] (gradient) }

where the last, which is no number, is the axis of the samples. At the trace level 1 of its mathematics it prints before
the plan what a convolution goes over:

    Convolution61: using GEMM convolution engine for geometry: Input: 64 x 64 x 3, Output: 32 x 32 x 16, \
Kernel: 7 x 7 x 3, Map: 1 x 1 x 16, Stride: 2 x 2 x 2, Sharing: (1, 1, 1), AutoPad: (1, 1, 0), LowerPad: 0 x 0 x 0, …

Source: CNTK 2.7, Source/ComputationNetworkLib/ComputationNetworkEvaluation.cpp (``PrintMemorySharingStructure``),
MatrixPool.h, Source/Math/ConvolutionEngine.cpp.
"""

import collections
import re
from typing import Any, List, Sequence

from workers.trainer.protocol import MEMORY_CLASSES

_NODE = re.compile(r"^Validating --> (\S+) = (\w+) ?\((.*?)\) : .*-> \[(.*)\]")
_GEOMETRY = re.compile(
    r"^(\S+): using \w+ convolution engine for geometry: Input: (.*?), Output: (.*?), Kernel: (.*?), Map: .*?,"
    r" Stride: (.*?), Sharing: .*?, AutoPad: \((.*?)\),"
)
_MEMBER = re.compile(r"^[{\s]*(\S+) : \[(.*)\]( \(gradient\))?[\s}]*$")

PARAMETER, INPUT, CONVOLUTION, POOLING = "LearnableParameter", "InputValue", "Convolution", "Pooling"
_FLOAT = 4
# CNTK 2.7, Source/Math/ConvolveGeometry.h: m_mpRowIwht, m_mpRowCol, m_mpRowRun and m_mpRowIndices have an integer for
# each value that a convolution or pooling has for one sample. They are there even where MKL computes and reads none.
_TABLES = 4

# A node: its operation, the names of its inputs, the bytes of its value.
Node = collections.namedtuple("Node", "operation inputs size")

# One matrix: ``values``: the largest of the values and gradients with an axis of samples in it, in bytes, and whether a
# value is among them; ``gradient``: (name, bytes) of the parameter whose gradient it also holds, or None.
Matrix = collections.namedtuple("Matrix", "values forward gradient")

# ``block_steps``: of a block of the strategy ``mpi-block-momentum``, else None.
Exchange = collections.namedtuple("Exchange", "ranks block_steps")

# What a convolution goes over: (width, height, channels) each, and whether CNTK fills up with zeros around them.
Geometry = collections.namedtuple("Geometry", "input output kernel stride padded")

# ``nodes``: {name: Node} in the order of the forward pass; ``geometries``: {name: Geometry} of the convolutions;
# ``matrices``: [Matrix] without parameters and inputs; ``tables``: bytes of the tables of convolutions and poolings.
Network = collections.namedtuple("Network", "nodes geometries matrices tables")


def read(text: str, batch: int) -> Network:
    """Return the ``Network`` in what CNTK has printed, for ``batch`` samples.

    Raises:
        ValueError: there is no plan in it.
    """
    if "Memory Sharing" not in text:
        raise ValueError("CNTK has printed no plan of its memory")
    planned, plan = text.split("Memory Sharing", 1)
    nodes, tables = collections.OrderedDict(), 0
    for name, operation, inputs, shape in (m.groups() for m in map(_NODE.match, planned.splitlines()) if m):
        nodes[name] = Node(operation, [one for one in inputs.split(", ") if one], _size(shape, batch))
        tables += _TABLES * _size(shape, 1) if operation in (CONVOLUTION, POOLING) else 0
    matrices = [one for one in (_matrix(group, nodes, batch) for group in _groups(plan)) if one]
    return Network(nodes, _geometries(planned, nodes), matrices, tables)


def _geometries(text, nodes):
    """Return {name: Geometry} of the convolutions.

    Raises:
        ValueError: not all of them are there.
    """
    found = collections.OrderedDict()
    for name, *shapes in (m.groups() for m in map(_GEOMETRY.match, text.splitlines()) if m):
        if nodes[name].operation == CONVOLUTION:
            given, output, kernel, stride = (tuple(map(int, shape.split(" x "))) for shape in shapes[:4])
            padded = tuple(one.strip() == "1" for one in shapes[4].split(","))
            found[name] = Geometry(given, output, kernel, stride, padded)
    if len(found) < sum(node.operation == CONVOLUTION for node in nodes.values()):
        raise ValueError("CNTK has not printed what its convolutions go over")
    return found


def _groups(plan):
    """Yield the lines of each group."""
    group = None
    for line in plan.splitlines():
        if line.lstrip().startswith("{"):
            group = []
        if group is not None:
            group.append(line)
            if line.rstrip().endswith("}"):
                yield group
                group = None


def _matrix(group, nodes, batch):
    """Return the ``Matrix`` of a group; None for one that is an input or a parameter itself."""
    values, forward, gradient = 0, False, None
    for name, shape, is_gradient in (m.groups() for m in map(_MEMBER.match, group) if m):
        operation, size = nodes[name].operation, _size(shape, batch)
        if operation == PARAMETER and is_gradient:
            gradient = (name, size)
        elif operation not in (PARAMETER, INPUT):
            values, forward = max(values, size), forward or not is_gradient
    return Matrix(values, forward, gradient) if values or gradient else None


def _size(shape, batch):
    """Return the bytes of a shape such as ``3 x 3 x 16``; what is no number is the axis of the samples."""
    size = _FLOAT
    for extent in shape.split(" x "):
        if extent.strip():
            size *= int(extent) if extent.strip().isdigit() else batch
    return size


def gives_gradient(network: Network, name: str) -> bool:
    """Return whether the convolution ``name`` computes the gradient of what it goes over: not that of a batch."""
    return all(network.nodes[one].operation != INPUT for one in network.nodes[name].inputs)


def allocations(
    network: Network, trained: Sequence[int], steps: int, exchange: Exchange, arrays: Any
) -> List[List[Any]]:
    """Return [[class_index, delta_bytes, step], …] in order of time, as the training goes through the network.

    A value is there from the forward pass on, a parameter's gradient from the backward pass on, in its place or in a
    matrix of its own: what is not in use of a matrix is still held.

    Args:
        trained: bytes of each trained parameter.
        exchange: an ``Exchange``.
        arrays: {convolution: (bytes from its forward pass on, from its backward pass on)}, of the library that computes
            it.
    """
    found = []

    def add(name, size, step):
        if size:
            found.append([MEMORY_CLASSES.index(name), size, step])

    for size in trained:
        add("weights", size, 0)
    fixed = [node.size for node in network.nodes.values() if node.operation == PARAMETER]
    add("other", sum(fixed) - sum(trained), 0)
    for size in trained:
        add("optimizer_state", size, 0)
    if exchange.block_steps:
        # The weights at the beginning of a block and the momentum of blocks; then what a block has changed.
        add("optimizer_state", 2 * sum(trained), 0)
        add("other", sum(trained), 0)
    for step in range(1, steps + 1):
        if step == 1:
            add("workspace", network.tables, step)
            add("input", sum(node.size for node in network.nodes.values() if node.operation == INPUT), step)
        _forward(network, add, step)
        if step == 1:
            add("workspace", sum(forward for forward, _ in arrays.values()), step)
        _backward(network, add, step)
        if step == 1:
            add("workspace", sum(backward for _, backward in arrays.values()) + _added_up(network), step)
        if exchange.ranks > 1 and step % (exchange.block_steps or 1) == 0:
            # OpenMPI adds up what comes in in an array as large as what goes out; CNTK begins all exchanges at once.
            add("workspace", sum(trained), step)
            add("workspace", -sum(trained), step)
    return found


def _forward(network, add, step):
    for matrix in network.matrices:
        held = max(matrix.values, matrix.gradient[1] if matrix.gradient else 0)
        if not matrix.forward:
            continue
        if step > 1 and matrix.gradient:
            # From the second step on, the forward pass uses the matrix again that held the last step's gradient.
            add("weight_gradients", -matrix.gradient[1], step)
            add("other", -max(0, matrix.values - matrix.gradient[1]), step)
            add("feature_maps", matrix.values, step)
            add("other", held - matrix.values, step)
        elif step == 1:
            add("feature_maps", matrix.values, step)


def _backward(network, add, step):
    for matrix in network.matrices:
        gradient = matrix.gradient[1] if matrix.gradient else 0
        if matrix.forward and gradient:
            if step > 1:
                add("other", -max(0, gradient - matrix.values), step)
            add("feature_maps", -matrix.values, step)
            add("weight_gradients", gradient, step)
            add("other", max(0, matrix.values - gradient), step)
        elif not matrix.forward and step == 1:
            add("weight_gradients", gradient, step)
            add("other", max(0, matrix.values - gradient), step)


def _added_up(network):
    """Return the bytes of the one matrix into which convolutions copy a gradient before they add to it.

    They add to all gradients of filters, and to that of a value where a later user of it has found one before: the
    backward pass begins at the end. Source: ``BackwardDataMKL`` and ``BackwardKernelMKL`` in ConvolutionEngine.cpp.
    """
    last = {one: name for name, node in network.nodes.items() for one in node.inputs}
    copied = []
    for name in network.geometries:
        filters, value = network.nodes[name].inputs[:2]
        copied.append(filters)
        if gives_gradient(network, name) and last[value] != name:
            copied.append(value)
    return max([network.nodes[one].size for one in copied], default=0)
