"""Which memory a training in CNTK takes: CNTK's own plan of its matrices, beside the rise of the resident set.

CNTK tells nothing of single allocations. It prints the shapes of its nodes and which of them share a matrix; weights,
momenta and what an exchange needs follow from them. Of the arrays that MKL makes for convolutions MKL tells itself.
"""

import cntk
import numpy

from workers.trainer import protocol
from workers.trainer.frameworks import printed, resident
from workers.trainer.frameworks.cntk import graph
from workers.trainer.frameworks.cntk import mkl as cntk_mkl

# Judgement: the least. The first step makes what stays, the second is the first usual one, the third must be its like.
STEPS = 3
# Judgement: twice as many as there are of synthetic ones.
_MOST_BATCHES = 8


def profile(build, train, take, steps, batch, exchange):
    """Build, train ``steps`` steps, and return the answer of ``memory_profile``.

    Args:
        build: makes everything; returns the trained parameters.
        train: does a step.
        take: returns the next batch, the values of the network's arguments.
        batch: samples of a step.
        exchange: a ``graph.Exchange``.
    """
    meter = _Meter()
    parameters = build()
    meter.begin()
    text = printed.on_standard_error(lambda: _traced(train, steps))
    meter.stop()
    trained = [4 * int(parameter.value.size) for parameter in parameters]
    network = graph.read(text, batch)
    found = [[protocol.MEMORY_CLASSES.index("input"), _held(take), 0]]
    found += graph.allocations(network, trained, steps, exchange, _arrays(network, batch))
    # Read last: nothing above knows of it.
    peak_bytes, peak_method = meter.peak()
    return {
        "method": "shapes in CNTK's graph, and its own plan of which share memory",
        "steps": steps,
        "classes": list(protocol.MEMORY_CLASSES),
        "allocations": found,
        "peak_bytes": peak_bytes,
        "peak_method": peak_method,
        "outside_bytes": None,
    }


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


class _Meter(object):
    """The peak resident set while training, over what was resident before the build."""

    def __init__(self):
        _warm()
        self._before = resident.now_bytes()
        self._rise = None
        self._when = "while training"

    def begin(self):
        """Forget the peak of the build, in which the initial weights were there besides, as arrays that numpy owns."""
        if not resident.forget_peak():
            self._when = "while building and training"

    def stop(self):
        """Read what would go on growing while the plan is looked through."""
        self._rise = resident.peak_bytes() - self._before

    def peak(self):
        return self._rise, "peak resident set %s (VmHWM) over that before the build" % self._when


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
