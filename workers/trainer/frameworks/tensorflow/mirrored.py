"""TensorFlow's strategy ``mirrored``: one process drives all devices of a node, a rank each.

CPU devices are logical devices of the process, which share its cores and its threads. Their gradients are added up on
the first one (ReductionToOneDevice): between parts of one memory there are no links that a cleverer order could use,
and HierarchicalCopy, the alternative, is made for the links of eight GPUs. GPUs use NCCL.
"""

from typing import Any, Callable, ContextManager, List, Sequence

import tensorflow as tf

from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Data
from workers.trainer.frameworks.tensorflow import single


class Strategy(single.Strategy):
    """See ``single.Strategy``."""

    def __init__(self) -> None:
        super().__init__()
        self._strategy = None
        self._exchange = {}

    def join(self, job: Job, process: Process, device: str) -> int:
        count = len(process.ranks)
        if device.startswith("/GPU"):
            operations, backend = tf.distribute.NcclAllReduce(), "nccl"
        else:
            divide_cpu(count)
            operations, backend = tf.distribute.ReductionToOneDevice(), "reduction-to-one-device"
        devices = ["%s:%d" % (device.rpartition(":")[0], index) for index in range(count)]
        self._strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=operations)
        self._exchange = {"library": "tf.distribute.MirroredStrategy", "backend": backend}
        return self._strategy.num_replicas_in_sync

    def scope(self) -> ContextManager[Any]:
        return self._strategy.scope()

    def batch(self, batches: Sequence[Any]) -> Any:
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: batches[context.replica_id_in_sync_group % len(batches)]
        )

    def run(self, update: Callable[[Any], Any], batch: Any) -> Any:
        return self._strategy.run(update, args=(batch,))

    def mean(self, gradients: Sequence[tf.Tensor]) -> Sequence[tf.Tensor]:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.MEAN, gradients)

    def of_ranks(self, value: Any) -> List[Any]:
        return list(self._strategy.experimental_local_results(value))

    def exchange(self) -> Data:
        return self._exchange

    def close(self) -> None:
        self._strategy = None


def divide_cpu(count: int) -> None:
    """Make ``count`` logical devices of this process's CPU, which share all its cores."""
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
