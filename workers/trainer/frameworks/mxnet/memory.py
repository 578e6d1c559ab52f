"""Which memory a training in MXNet takes: the storage's own record of each allocation, with roles and parts of a step.

The profiler counts what each device's storage holds, after every allocation and every release, tensor by tensor.
Parts of a step are waited for one by one here, so that what is allocated while a part goes on is that part's.
"""

import contextlib
import functools
import operator
from typing import Any, Callable, Sequence

from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import allocation_profile
from workers.trainer.frameworks.allocation_profile import STEPS
from workers.trainer.frameworks.mxnet import meters, ownership
from workers.trainer.frameworks.mxnet import trace as mxnet_trace
from workers.trainer.frameworks.mxnet.library import mx
from workers.trainer.frameworks.mxnet.profiler import PROFILER, devices


def profile(make: Callable[[], Any], feed: Callable[[], Any], contexts: Sequence[Any]) -> Data:
    """Build, train a few steps with every allocation followed, and return the answer of ``memory_profile``.

    Args:
        make: makes everything but the input and returns the ``Step``.
        feed: gives it its streams of batches.
    """
    meter = meters.meter(contexts)
    PROFILER.begin(memory=True)
    with _part("build"):
        step = make()
    meter.begin()
    notes = [_built(step)]
    with _part("input"):
        feed()
    for number in range(STEPS):
        for name in ("input", "forward", "backward", "update"):
            with _part(name):
                getattr(step, name)()
            meter.look()
        if number == 0:
            notes.append(_updated(step))
    trace = PROFILER.end()
    allocations = []
    for context, name in zip(contexts, devices(contexts)):
        changes = [ownership.Change(*change) for change in mxnet_trace.changes(trace, name)]
        allocations.append(ownership.classify(changes, _parts(trace), [note[context] for note in notes], _arrays(step)))
    merged = sorted((entry for found in allocations for entry in found), key=lambda entry: entry[0])
    method = "MXNet's count of its storage, each allocation; owner by size, then by time and the graph's shapes"
    ends = [end for _, end, _, step in _parts(trace) if step]
    found = meter.measured(trace, devices(contexts), ends)
    peak = found.peak_bytes, found.method
    return allocation_profile.answer(method, STEPS, [entry[1:] for entry in merged], peak, found.outside_bytes)


@contextlib.contextmanager
def _part(name):
    """Mark a part of the build or of a step, with all that it began waited for."""
    mx.nd.waitall()
    with PROFILER.task(ownership.PART + name):
        yield
        mx.nd.waitall()


def _parts(trace):
    """Return [(start, end, name, step)] in order; a step begins with its second or later input."""
    found = []
    for name, spans in trace.tasks.items():
        if name.startswith(ownership.PART):
            plain = name[len(ownership.PART) :]
            # The first input is the making of the streams, which belongs to the build.
            first = 0 if plain in ("build", "input") else 1
            found.extend((start, end, plain, first + place) for place, (start, end) in enumerate(spans))
    return sorted(found)


def _built(step):
    """Return {context: [(class, bytes of one array)]} of what has a role when the model has been made."""
    found = {context: [] for context in step.contexts}
    weights = {id(parameter) for parameter in step.model.parameters}
    for context in step.contexts:
        for parameter in step.model.parameters:
            found[context].append(("weights", _size(parameter.data(context))))
            if parameter.grad_req != "null":
                found[context].append(("weight_gradients", _size(parameter.grad(context))))
        for parameter in _all(step.model):
            if id(parameter) not in weights:
                found[context].append(("other", _size(parameter.data(context))))
    return found


def _all(model):
    network = getattr(model, "network", None)
    return network.collect_params().values() if network is not None else []


def _updated(step):
    """Return {context: [(class, bytes)]} of the optimiser's own arrays, which its first update made."""
    found = {context: [] for context in step.contexts}
    for updater in step.trainer._updaters:
        for state in updater.states.values():
            for array in state if isinstance(state, (tuple, list)) else [state]:
                if array is not None and array.context in found:
                    found[array.context].append(("optimizer_state", _size(array)))
    return found


def _arrays(step):
    """Return the ``ownership.Arrays`` of the network's graph, by its shapes for a batch and for a double one."""
    network = getattr(step.model, "network", None)
    if network is None:
        return None
    inputs, graph = network._cached_graph
    shapes = {symbol.name: array.shape for symbol, array in zip(inputs, step.arrays())}
    double = {name: (2 * shape[0],) + shape[1:] for name, shape in shapes.items()}
    growing, fixed = set(), set()
    for one, other in zip(_output_bytes(graph, shapes), _output_bytes(graph, double)):
        (fixed if one == other else growing).add(one)
    return ownership.Arrays(growing, fixed - growing)


def _output_bytes(graph, shapes):
    """Return the bytes of each array that an operator puts out, in fp32, without those that it hides."""
    internals = graph.get_internals()
    variables = set(graph.list_inputs())
    _, found, _ = internals.infer_shape(**shapes)
    named = zip(internals.list_outputs(), found)
    return [4 * functools.reduce(operator.mul, shape, 1) for name, shape in named if name not in variables]


def _size(array):
    return array.size * array.dtype().itemsize
