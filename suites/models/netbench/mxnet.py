"""What MXNet's strategies do with gradients, on CPU devices: its key-value stores, and Horovod.

A store adds up the vectors of a worker's devices; a distributed one pushes that sum to servers, which add up those of
all workers, and pulls. A training does both for each gradient (``pushpull``), which is the all-reduce here. They are
timed apart too, for in a training one gradient's pull goes on beside the next one's push. A push ends when the servers
have added up what all workers have pushed.
"""

import importlib
from typing import Any, Dict, List, Sequence

import mxnet as mx
import numpy

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter

# Strategy, which is the library's name too -> the operations that are told apart.
STORES = {
    "kvstore-device": ("all_reduce",),
    "kvstore-dist-sync": ("push", "pull", "all_reduce"),
    "kvstore-dist-device-sync": ("push", "pull", "all_reduce"),
}


def open_exchange(job: Job, process: Process, adapter: Adapter) -> "Exchange":
    """Return the exchange of this process, which has joined.

    Raises:
        TrainerError: ``unsupported``, the strategy exchanges nothing or is asynchronous, or another device.
    """
    strategy, kind = job.plan.strategy, process.device_kind
    if strategy == "horovod" and kind == "cpu":
        return Horovod(adapter.joined, process.ranks)
    if strategy in STORES and kind == "cpu":
        return Store(strategy, adapter.joined, process.ranks)
    told = "MXNet's netbench needs one of the strategies %s on cpu, not %s on %s"
    raise TrainerError("unsupported", told % (", ".join(list(STORES) + ["horovod"]), strategy, kind))


class Exchange(object):
    """See ``workers.trainer.loops.netbench``. ``joined``: the adapter's, by which a training would exchange; ``ranks``
    are those of this process."""

    device = "cpu"
    mean = False
    # Calls do queue, but two pushes of one key must not: servers would take the second for that of another worker.
    queues = False

    def __init__(self, joined: Any, ranks: Sequence[int]) -> None:
        self._joined = joined
        self._random = numpy.random.RandomState(1 + min(ranks))
        self._vectors: List[Any] = []

    def fill(self, count: int, heads: Sequence[Sequence[float]]) -> None:
        self._vectors = []  # two sizes need not be held at once
        for index, head in enumerate(heads):
            vector = self._random.random_sample(count).astype(numpy.float32)
            vector[: len(head)] = head
            self._vectors.append(mx.nd.array(vector, ctx=mx.cpu(index)))
        self.synchronize()

    def heads(self, count: int) -> List[List[float]]:
        return [vector[:count].asnumpy().tolist() for vector in self._vectors]

    def scale(self, factor: float) -> None:
        for vector in self._vectors:
            vector *= factor
        self.synchronize()

    def synchronize(self) -> None:
        mx.nd.waitall()

    def close(self) -> None:
        """Part from the other workers, and from the servers, which end then."""
        self._vectors = []
        self._joined.part()


class Store(Exchange):
    """A key-value store. It forgets no key: there is one for each size, which servers then hold to the end."""

    def __init__(self, strategy: str, joined: Any, ranks: Sequence[int]) -> None:
        super(Store, self).__init__(joined, ranks)
        self.library = strategy
        self.operations = STORES[strategy]
        self._keys: Dict[int, int] = {}
        self._key = 0
        self._inbox: List[Any] = []

    def fill(self, count: int, heads: Sequence[Sequence[float]]) -> None:
        self._inbox = []
        super(Store, self).fill(count, heads)
        if "pull" in self.operations:
            self._inbox = [mx.nd.zeros_like(vector) for vector in self._vectors]
        if count not in self._keys:
            self._keys[count] = len(self._keys)
            self._joined.store.init(self._keys[count], mx.nd.zeros(count))
        self._key = self._keys[count]
        self.synchronize()

    def received(self, count: int) -> List[List[float]]:
        return [vector[:count].asnumpy().tolist() for vector in self._inbox]

    def all_reduce(self) -> None:
        self._joined.store.pushpull(self._key, self._vectors)

    def push(self) -> None:
        self._joined.store.push(self._key, self._vectors)

    def pull(self) -> None:
        self._joined.store.pull(self._key, out=self._inbox)

    def close(self) -> None:
        self._inbox = []
        super(Store, self).close()


class Horovod(Exchange):
    """Horovod's own all-reduce, between processes of one device each."""

    library = "horovod-mxnet"
    operations = ("all_reduce",)

    def __init__(self, joined: Any, ranks: Sequence[int]) -> None:
        super(Horovod, self).__init__(joined, ranks)
        self._horovod = importlib.import_module("horovod.mxnet")

    def all_reduce(self) -> None:
        (vector,) = self._vectors
        self._horovod.allreduce_(vector, average=False, name="netbench of %d" % vector.size)
