"""The peak that an allocation profile of MXNet is held against, and what libraries take beside its storage."""

import collections
import gc
from typing import Any, Sequence

from workers.trainer.frameworks import heap, resident
from workers.trainer.frameworks.mxnet import trace as mxnet_trace
from workers.trainer.frameworks.mxnet.library import mx

# ``outside_bytes``: None where nothing tells.
Measured = collections.namedtuple("Measured", "peak_bytes method outside_bytes")


def meter(contexts: Sequence[Any]) -> Any:
    """Return a meter that begins to count now, before the build.

    It has ``begin()``, called after the build, ``look()``, called after every part of a step, and ``measured(trace,
    devices, ends)``, called with the ``Trace``, the devices' names in it and the end of each of these parts, in order.
    """
    if contexts[0].device_type == "gpu":
        return _CudaMeter(contexts)
    _warm()
    return _HostMeter(_ResidentSet if heap.in_use_bytes() is None else _Heap)


class _Heap(object):
    """What the C library has handed out, to MXNet's storage and to all who go past it, over that of now."""

    told = "the C library's heap (mallinfo2)"

    def __init__(self):
        self._before = heap.in_use_bytes()
        self._found = []

    def begin(self):
        """Nothing: what the build gave back is not counted any more."""

    def look(self):
        self._found.append(heap.in_use_bytes() - self._before)

    def beyond(self, counts):
        """Return the most bytes at a look beyond what the storage had at that time.

        Args:
            counts: bytes of the storage, one for each look.
        """
        return max(taken - count for taken, count in zip(self._found, counts))


class _ResidentSet(object):
    """For other C libraries: what is resident. It has pages that the build gave back, and lacks what nobody touched."""

    told = "the peak resident set"

    def __init__(self):
        self._meter = resident.WhileTraining()
        self.begin, self.look = self._meter.begin, self._meter.look

    def beyond(self, counts):
        return max(0, self._meter.peak_bytes() - max(counts))


class _HostMeter(object):
    """On CPU devices: the storage's own count at its highest, and what there is beyond it in this process.

    What lies beyond is not the storage's: oneDNN's scratchpads, copies of weights in its own layouts and the code that
    it writes, C++ objects, and Horovod's buffers.
    """

    def __init__(self, make):
        self._all = make()
        self.begin, self.look = self._all.begin, self._all.look

    def measured(self, trace, devices, ends):
        counts = mxnet_trace.together(trace, devices)
        method = "count of MXNet's storage at its highest; outside of it: the rest of " + self._all.told
        return Measured(max(count for _, count in counts), method, self._all.beyond(_at(counts, ends)))


def _at(counts, ends):
    """Return the count at each of the times ``ends``; both in order of time."""
    found, place, count = [], 0, 0
    for end in ends:
        while place < len(counts) and counts[place][0] <= end:
            count = counts[place][1]
            place += 1
        found.append(count)
    return found


class _CudaMeter(object):
    """The peak on a GPU: MXNet keeps what it once took from CUDA, so what it holds at the end is the peak."""

    method = "mxnet.context.gpu_memory_info: rise of total - free since before the build"

    def __init__(self, contexts):
        for context in contexts:
            mx.nd.zeros((1,), ctx=context).wait_to_read()
        self._contexts = contexts
        self._before = self._used()

    def _used(self):
        return sum(total - free for free, total in map(mx.context.gpu_memory_info, range(len(self._contexts))))

    def begin(self):
        """Nothing: the pools keep the peak of the build too."""

    def look(self):
        """Nothing: they give nothing back."""

    def measured(self, trace, devices, ends):
        return Measured(self._used() - self._before, self.method, None)


def _warm():
    """Let libraries and threads come to life that are no part of a model."""
    network = mx.gluon.nn.HybridSequential()
    network.add(mx.gluon.nn.Conv2D(8, 3, in_channels=8), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(8))
    network.initialize()
    network.hybridize(static_alloc=True, static_shape=True)
    trainer = mx.gluon.Trainer(network.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    with mx.autograd.record():
        loss = network(mx.nd.random.normal(shape=(1, 8, 4, 4))).sum()
    loss.backward()
    trainer.step(1)
    mx.nd.waitall()
    # What is given back later would be looked for among the arrays of the model.
    del network, trainer, loss
    gc.collect()
    mx.nd.waitall()
