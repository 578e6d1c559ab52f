"""TensorFlow's strategy ``horovod``: a process per device, an all-reduce for each gradient in the adapter's own step.

Keras takes no part. With Keras 3, Horovod's optimiser under ``fit`` runs and silently exchanges nothing: the reason why
every run of several ranks ends by comparing them (``tests/replays`` has such a run).
"""

from typing import Any, List, Optional, Sequence

import horovod.tensorflow

from workers.trainer.base.job import Job, Process
from workers.trainer.base.signatures import Data
from workers.trainer.frameworks import horovod_gloo
from workers.trainer.frameworks.tensorflow import single


class Strategy(single.Strategy):
    """See ``single.Strategy``."""

    def __init__(self) -> None:
        super().__init__()
        self._kind = None

    def join(self, job: Job, process: Process, device: str) -> int:
        super().join(job, process, device)
        self._kind = process.device_kind
        return horovod_gloo.join(horovod.tensorflow, job, process)

    def begin(self, variables: Sequence[Any]) -> None:
        horovod.tensorflow.broadcast_variables(variables, root_rank=0)

    def mean(self, gradients: Sequence[Any]) -> List[Any]:
        average = horovod.tensorflow.Average
        return [horovod.tensorflow.allreduce(gradient, op=average) for gradient in gradients]

    def exchange(self) -> Data:
        return horovod_gloo.exchange(horovod.tensorflow, self._kind)

    def failure_of(self, error: BaseException) -> Optional[str]:
        return horovod_gloo.failure_of(error)

    def close(self) -> None:
        horovod.tensorflow.shutdown()
