"""What TensorFlow's strategies do with gradients, on CPU devices: their mean over all ranks, in a ``tf.function``, by
the verbs of a training step. ``mirrored`` adds up within a process, ``multi-worker-mirrored`` goes around in a ring
over gRPC, ``horovod`` takes Horovod's own operation.
"""

from typing import Any, List, Sequence

import numpy
import tensorflow as tf

from workers.trainer.base.failure import TrainerError
from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Adapter

LIBRARIES = {"mirrored": "mirrored", "multi-worker-mirrored": "grpc", "horovod": "horovod-tensorflow"}


def open_exchange(job: Job, process: Process, adapter: Adapter) -> "Exchange":
    """Return the exchange of this process, which has joined.

    Raises:
        TrainerError: ``unsupported``, the strategy exchanges nothing, or another device.
    """
    strategy, kind = job.plan.strategy, process.device_kind
    if strategy not in LIBRARIES or kind != "cpu":
        told = "TensorFlow's netbench needs one of the strategies %s on cpu, not %s on %s"
        raise TrainerError("unsupported", told % (", ".join(LIBRARIES), strategy, kind))
    return Exchange(LIBRARIES[strategy], adapter.joined, process.rank)


class Exchange(object):
    """See ``workers.trainer.loops.netbench``. ``strategy``: that of the adapter, by which a training would exchange."""

    device = "cpu"
    operations = ("all_reduce",)
    mean = True
    queues = False

    def __init__(self, library: str, strategy: Any, rank: int) -> None:
        self.library = library
        self._strategy = strategy
        self._random = numpy.random.RandomState(1 + rank)
        self._vectors = self._function = None

    def fill(self, count: int, heads: Sequence[Sequence[float]]) -> None:
        self._vectors = None  # two sizes need not be held at once
        made = []
        for head in heads:
            vector = self._random.random_sample(count).astype(numpy.float32)
            vector[: len(head)] = head
            made.append(tf.constant(vector))
        self._vectors = self._strategy.batch(made)
        # One for each size, traced by its first call: a common one would keep the graphs of all of them.
        self._function = tf.function(self._mean, autograph=False)

    def _mean(self, vectors):
        strategy = self._strategy
        # What is handed in has no device in the graph, from which TensorFlow would tell where the mean is to be.
        return strategy.run(lambda vector: strategy.mean([tf.identity(vector)])[0], vectors)

    def heads(self, count: int) -> List[List[float]]:
        return [vector[:count].numpy().tolist() for vector in self._strategy.of_ranks(self._vectors)]

    def all_reduce(self) -> None:
        self._vectors = self._function(self._vectors)

    def synchronize(self) -> None:
        """Nothing is left to wait for: on CPU devices all calls return when their data is there."""

    def close(self) -> None:
        self._vectors = self._function = None
