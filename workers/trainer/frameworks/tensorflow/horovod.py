"""TensorFlow's strategy ``horovod``: a process per device, an all-reduce for each gradient in the adapter's own step.

Keras takes no part. With Keras 3, Horovod's optimiser under ``fit`` runs and silently exchanges nothing: the reason why
every run of several ranks ends by comparing them (``tests/replays`` has such a run).
"""

import horovod.tensorflow

from workers.trainer import job as jobs
from workers.trainer.frameworks import horovod_gloo
from workers.trainer.frameworks.tensorflow import single


class Strategy(single.Strategy):
    """See ``single.Strategy``."""

    def __init__(self):
        super().__init__()
        self._kind = None

    def join(self, job, process, device):
        super().join(job, process, device)
        self._kind = jobs.device_kind(process)
        return horovod_gloo.join(horovod.tensorflow, job, process)

    def begin(self, variables):
        horovod.tensorflow.broadcast_variables(variables, root_rank=0)

    def mean(self, gradients):
        average = horovod.tensorflow.Average
        return [horovod.tensorflow.allreduce(gradient, op=average) for gradient in gradients]

    def exchange(self):
        return horovod_gloo.exchange(horovod.tensorflow, self._kind)

    def failure_of(self, error):
        return horovod_gloo.failure_of(error)

    def close(self):
        horovod.tensorflow.shutdown()
