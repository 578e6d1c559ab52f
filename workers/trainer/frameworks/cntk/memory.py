"""Which memory a training in CNTK takes: CNTK's own plan of its matrices, beside the C library's count of the heap.

CNTK tells nothing of single allocations. It prints the shapes of its nodes and which of them share a matrix; weights,
momenta and what an exchange needs follow from them. Of the arrays that MKL makes for convolutions MKL tells itself.
"""

from typing import Any, Callable

import cntk
import numpy

from workers.trainer import protocol
from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import allocation_profile, heap, printed, resident
from workers.trainer.frameworks.cntk import graph
from workers.trainer.frameworks.cntk import mkl as cntk_mkl

# Judgement: twice as many as there are of synthetic ones.
_MOST_BATCHES = 8


def profile(
    build: Callable[[], Any], train: Callable[..., Any], take: Callable[..., Any], steps: int, batch: int, exchange: Any
) -> Data:
    """Build, train ``steps`` steps, and return the answer of ``memory_profile``.

    Args:
        build: makes everything; returns the trained parameters.
        train: does a step.
        take: returns the next batch, the values of the network's arguments.
        batch: samples of a step.
        exchange: a ``graph.Exchange``.
    """
    _warm()
    meter = _Meter()
    parameters = build()
    meter.begin()
    text = printed.on_standard_error(lambda: _traced(train, steps))
    meter.look()
    trained = [4 * int(parameter.value.size) for parameter in parameters]
    network = graph.read(text, batch)
    found = [[protocol.MEMORY_CLASSES.index("input"), _held(take), 0]]
    found += graph.allocations(network, trained, steps, exchange, _arrays(network, batch))
    method = "shapes in CNTK's graph, and its own plan of which share memory"
    return allocation_profile.answer(method, steps, found, meter.peak(), meter.outside_bytes())


class _Meter(object):
    """What the plan is held against: the heap, where the C library counts it, or else the resident set.

    CNTK holds what it plans, so what is taken after a step is the peak.
    """

    def __init__(self):
        self._resident = resident.WhileTraining()
        self._heap = None if heap.in_use_bytes() is None else heap.WhileTraining()

    def begin(self):
        self._resident.begin()

    def look(self):
        self._resident.look()
        if self._heap is not None:
            self._heap.look()

    def peak(self):
        """Return (bytes, how they were measured)."""
        meter = self._heap or self._resident
        return meter.peak_bytes(), meter.method

    def outside_bytes(self):
        """Return what is resident beyond the heap: pages of libraries, Python's own arenas, stacks. None if unknown:
        without a count of the heap, and where it holds so much that nobody has touched that less is resident."""
        beyond = self._resident.peak_bytes() - self._heap.peak_bytes() if self._heap is not None else 0
        return beyond if beyond > 0 else None


def _traced(train, steps):
    # The plan is printed when a network is first computed.
    cntk.debugging.set_computation_network_trace_level(1)
    cntk.cntk_py.set_math_lib_trace_level(1)
    train()
    cntk.cntk_py.set_math_lib_trace_level(0)
    cntk.debugging.set_computation_network_trace_level(0)
    for _ in range(steps - 1):
        train()


def _arrays(network, batch):
    """Return {convolution: (bytes that MKL holds from its forward pass on, from its backward pass on)}."""
    mkl = cntk_mkl.Mkl()
    found = {}
    for name, geometry in network.geometries.items():
        backward = [cntk_mkl.FILTERS_GRADIENT]
        if graph.gives_gradient(network, name):
            backward.append(cntk_mkl.INPUT_GRADIENT)
        forward = mkl.arrays(geometry, batch, cntk_mkl.FORWARD)
        found[name] = forward, sum(mkl.arrays(geometry, batch, one) for one in backward)
    mkl.close()
    return found


def _held(take):
    """Return the bytes of the batches that come round again: they are held from the build on."""
    seen = {}
    for _ in range(_MOST_BATCHES):
        batch = take()
        if id(batch) in seen:
            return sum(4 * int(numpy.prod(value.shape)) for one in seen.values() for value in one)
        seen[id(batch)] = batch
    return 0


def _warm():
    """Let libraries and threads come to life that are no part of a model."""
    images_CHW = cntk.input_variable((8, 16, 16))
    kernel = cntk.parameter((8, 8, 3, 3), init=cntk.glorot_uniform())
    x_CHW = cntk.relu(cntk.convolution(kernel, images_CHW, (1, 1), auto_padding=[False, True, True]))
    weight = cntk.parameter((8 * 16 * 16, 8), init=cntk.glorot_uniform())
    loss = cntk.reduce_sum(cntk.times(cntk.reshape(x_CHW, (-1,)), weight))
    rate = cntk.learning_parameter_schedule(0.0, minibatch_size=cntk.learners.IGNORE)
    momentum = cntk.momentum_schedule(0.9, minibatch_size=cntk.learners.IGNORE)
    learner = cntk.momentum_sgd([kernel, weight], rate, momentum, unit_gain=False)
    trainer = cntk.Trainer(None, (loss, None), [learner])
    trainer.train_minibatch({images_CHW: numpy.ones((8, 8, 16, 16), dtype=numpy.float32)})
