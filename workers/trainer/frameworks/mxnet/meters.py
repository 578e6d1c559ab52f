"""The peak that an allocation profile of MXNet is held against, measured apart from MXNet's own record."""

import gc
from typing import Any, Sequence

from workers.trainer.frameworks import heap, resident
from workers.trainer.frameworks.mxnet.library import mx


def meter(contexts: Sequence[Any]) -> Any:
    """Return a meter that begins to count now, before the build.

    It has ``begin()``, called after the build, ``look()``, called after every part of a step, ``peak_bytes()`` and the
    ``method`` of that.
    """
    if contexts[0].device_type == "gpu":
        return _CudaMeter(contexts)
    _warm()
    return resident.WhileTraining() if heap.in_use_bytes() is None else _HeapMeter()


class _HeapMeter(object):
    """The peak on CPU devices: what the C library has handed out, to MXNet and to the libraries past its storage."""

    method = (
        "the C library's heap (mallinfo2), with what oneDNN and others take for themselves: the most at the end of a "
        "part of a step, over that before the build"
    )

    def __init__(self):
        self._before = heap.in_use_bytes()
        self._most = 0

    def begin(self):
        """Nothing: what the build gave back is not counted any more."""

    def look(self):
        """Keep the count if it is the largest."""
        self._most = max(self._most, heap.in_use_bytes())

    def peak_bytes(self):
        return self._most - self._before


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

    def peak_bytes(self):
        return self._used() - self._before


def _warm():
    """Let libraries and threads come to life that are no part of a model."""
    network = mx.gluon.nn.HybridSequential()
    network.add(mx.gluon.nn.Conv2D(8, 3, in_channels=8), mx.gluon.nn.BatchNorm(), mx.gluon.nn.Dense(8))
    network.initialize()
    network.hybridize(static_alloc=True, static_shape=True)
    trainer = mx.gluon.Trainer(network.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    with mx.autograd.record():
        loss = network(mx.nd.random.normal(shape=(8, 8, 8, 8))).sum()
    loss.backward()
    trainer.step(1)
    mx.nd.waitall()
    # What is given back later would be looked for among the arrays of the model.
    del network, trainer, loss
    gc.collect()
    mx.nd.waitall()
